// Package llm calls language models, with the tools and options of langchaingo, and classifies the failures of
// providers. Package wire below it implements their protocols.
//
// It never retries, reads the environment or follows redirects, and never writes a key into an error or a log:
// settings are plain data, and keys are sent only in headers.
//
// Start at [Open], [Models.Ask] and [Generate], then look at the table [Providers].
package llm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/activities/contract"
	"weft/activities/llm/wire"
	"weft/activities/mask"
	"weft/activities/textutil"
)

// Settings configure a worker's providers. The zero value has the rows of [Providers] that need no settings.
type Settings struct {
	// Default is the model, provider/model, of runs that name none. May be empty.
	Default string
	// Prices are keyed by provider/model, or by a prefix and *. The longest key wins.
	Prices map[string]Price
	// NoDefault says why Default is empty, for messages; it may be empty, too.
	NoDefault string
	// Providers are keyed by the name that references use. Rows of the table that are not mentioned have their
	// defaults.
	Providers map[string]ProviderSettings
	// Scripted replaces all models by the scripted model: nothing is called.
	Scripted bool
	// Credentials, if set, returns credentials that override a provider's settings. They can change while the worker
	// runs.
	Credentials func(provider string) Credentials
	// Mask, if set, removes secrets from quoted errors, and learns those that providers get while the worker
	// runs.
	Mask *mask.Mask
}

// Known are the secrets of the settings.
func (s Settings) Known() []string {
	var out []string
	for _, p := range s.Providers {
		out = append(out, p.Key, p.AWS.Secret, p.AWS.Token)
		for name, value := range p.Headers {
			out = append(out, mask.Named(name, value))
		}
		if u, err := url.Parse(p.Proxy); err == nil {
			password, _ := u.User.Password()
			out = append(out, password)
		}
	}
	return out
}

// Credentials override those of a provider's settings: a key, or OCI's file of keys. Empty fields do not.
type Credentials struct{ Key, AuthFile string }

// ProviderSettings configure one provider. Zero values take the row's defaults.
type ProviderSettings struct {
	// Kind is a row of [Providers]; empty means the row of the provider's own name.
	Kind string
	// BaseURL is where the protocol's path, such as /chat/completions, is appended. Ollama's may be host:port.
	BaseURL string
	// API is chat or responses: by which of OpenAI's protocols a server of chat completions is asked. Empty means chat
	// completions, but for models of [wire.Server.Responses].
	API string
	// Key is the secret; KeyName is the variable that messages name instead of it.
	Key     string
	KeyName string
	// Headers are sent with every request. They are treated as secrets.
	Headers map[string]string
	// Proxy is the URL of an HTTP proxy; empty means none.
	Proxy string
	// Unary switches streaming off.
	Unary bool
	// NoCache sends no marks for the provider's cache of prompts, where it takes any.
	NoCache bool
	// NoImages means that the provider's models know text alone: they get a text instead of images.
	NoImages bool
	// AWS are keys of Bedrock's, used where there is no Key.
	AWS AWSKeys
	// Region is Bedrock's or OCI's; Compartment, which is charged, is OCI's. Auth is one of the constants; AuthFile and
	// AuthProfile (default DEFAULT) locate its keys and tokens.
	Region      string
	Compartment string
	Auth        string
	AuthFile    string
	AuthProfile string
	// RequestsPerMinute and TokensPerMinute limit the calls with one key, of all workers where they share limits; Concurrent
	// limits those of this worker. 0 means no limit.
	RequestsPerMinute int
	TokensPerMinute   int
	Concurrent        int
	// FirstByte bounds the wait for an answer's first byte, Idle the pause between bytes.
	FirstByte, Idle time.Duration
	// MaxBodyBytes bounds one answer; 0 means 32 MiB.
	MaxBodyBytes int64
	// TextCalls reads calls of tools that the server left in the text of an answer.
	TextCalls bool
	// CutRetries is how often a call is made again whose answer was cut; nil means 2.
	CutRetries *int
}

// defaultCutRetries is how often a call is made again whose answer was cut.
const defaultCutRetries = 2

// DefaultMaxBody is about 130,000 streamed tokens of 250 bytes.
const DefaultMaxBody = 32 << 20

// ScriptModel is the model reference of the built-in scripted model.
const ScriptModel = "script"

// Models are the models that a worker can call. They are safe for concurrent use.
type Models struct {
	settings  Settings
	providers map[string]*provider
	prices    []priceRow
	// cooldowns are until when models asked to wait, by reference.
	cooldowns sync.Map
}

// provider is one configured provider, settings checked and defaults filled in, with the model that is asked.
type provider struct {
	wire.Model
	row     Provider
	key     string
	keyName string
	// named means that the settings name a key of their own: it must then be there.
	named       bool
	headers     http.Header
	client      *http.Client
	first, idle time.Duration
	maxBody     int64
	cutRetries  int
	// signer is for OCI, aws and region for Bedrock.
	signer *signer
	aws    AWSKeys
	region string
	limits *limiter
	mask   *mask.Mask
	// states are what a server of local models has said of them, a keptState by the model's name; nil for other servers.
	states *sync.Map
}

// Open checks settings and opens no connection. Its error is a [contract.Failure] of class connection that
// lists every problem. A missing key is reported by [Models.Ask].
func Open(s Settings) (*Models, error) {
	o := opener{shared: newClient(nil), mask: s.Mask}
	m := &Models{settings: s, providers: map[string]*provider{}}
	for _, row := range Providers {
		if _, ok := s.Providers[row.Name]; !ok {
			m.providers[row.Name] = o.open(row.Name, ProviderSettings{})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		m.providers[name] = o.open(name, s.Providers[name])
	}
	o.limit(s, m)
	m.prices = o.pricesOf(s.Prices)
	for _, ref := range Refs(s.Default) {
		if _, f := m.find(ref); f != nil {
			o.problem("default: %s", f.Text)
		}
	}
	if len(o.problems) > 0 {
		return nil, &contract.Failure{
			Class:       contract.ClassConnection,
			Text:        fmt.Sprintf("%d problem(s) in the settings of models: %s", len(o.problems), strings.Join(o.problems, "; ")),
			Diagnostics: o.problems,
		}
	}
	return m, nil
}

// Default is the model of runs that name none. It fails with class connection if none is configured.
func (m *Models) Default() (string, error) {
	if m.settings.Default != "" {
		return m.settings.Default, nil
	}
	f := failf(contract.ClassConnection,
		"set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in the worker's environment (not the client's), or model in its weft.yaml, "+
			"and restart the worker; or name provider/model in the flow or the run's input; this worker knows the providers "+m.known(),
		"no model is named and the worker has no default model")
	if m.settings.NoDefault != "" {
		f.Text += ": " + m.settings.NoDefault
	}
	return "", f
}

// get returns the model of a reference. It fails like find, and with class connection if the provider lacks its key or
// address.
func (m *Models) get(ref string) (model, error) {
	if m.settings.Scripted && ref != "" {
		return &scripted{ref}, nil
	}
	p, f := m.find(ref)
	switch {
	case f != nil:
		return nil, f
	case p.row.Script:
		return &scripted{ScriptModel + strings.TrimPrefix(ref, p.Provider)}, nil
	}
	if err := p.ready(); err != nil {
		return nil, err
	}
	return p, nil
}

// find returns the provider and model of a reference: provider/model, or "script", which may have a name,
// "script/backup". It fails with class bad_request: a name that this build does not have is no use to wait for.
func (m *Models) find(ref string) (*provider, *contract.Failure) {
	name, asked, slash := strings.Cut(ref, "/")
	p, shown := m.provider(name), textutil.Truncate(ref, 200)
	switch {
	case p == nil && !slash:
		return nil, failf(contract.ClassBadRequest,
			fmt.Sprintf("write for example openai/%s; this worker knows the providers %s", cmp.Or(textutil.Truncate(ref, 60), "MODEL"), m.known()),
			"model %q is not provider/model", shown)
	case p == nil:
		name = textutil.Truncate(name, 100)
		return nil, failf(contract.ClassBadRequest,
			fmt.Sprintf("correct the name, or set in the worker's weft.yaml: providers: {%q: {kind: compatible, base_url: \"https://HOST/v1\"}}", name),
			"model %q: this worker has no provider %q; it knows %s", shown, name, m.known())
	case (slash || !p.row.Script) && strings.TrimSpace(asked) == "":
		return nil, failf(contract.ClassBadRequest, fmt.Sprintf("write %s/MODEL", name), "model %q names a provider but no model", shown)
	}
	p.Name = asked
	return p, nil
}

// Unknown returns the failure of a reference that names no provider of this worker, nil for any other.
func (m *Models) Unknown(ref string) *contract.Failure {
	if m.settings.Scripted {
		return nil
	}
	_, f := m.find(ref)
	return f
}

// Scripted reports whether a script answers for a model of a list.
func (m *Models) Scripted(list string) bool {
	return m.settings.Scripted || slices.ContainsFunc(Refs(list), m.script)
}

func (m *Models) script(ref string) bool {
	name, _, _ := strings.Cut(ref, "/")
	p := m.providers[name]
	return p != nil && p.row.Script
}

// AsksScript reports whether a list of models has the scripted one, under whatever name.
func AsksScript(list string) bool { return slices.ContainsFunc(Refs(list), contract.Scripted) }

// provider is a copy of a provider with what the document lends it, or nil where there is none of the name.
func (m *Models) provider(name string) *provider {
	p := m.providers[name]
	if p == nil {
		return nil
	}
	out := *p
	if m.settings.Credentials == nil {
		return &out
	}
	own := m.settings.Credentials(name)
	if own.Key != "" {
		out.key, out.keyName = own.Key, "the key in the document"
		out.headers = p.headers.Clone()
		out.headers.Del("Authorization") // it stands for a key
	}
	if own.AuthFile != "" && p.signer != nil {
		out.signer = &signer{auth: p.signer.auth, file: own.AuthFile, profile: p.signer.profile}
	}
	return &out
}

// Ready returns what keeps a provider from being called: a *[contract.Failure] of class connection that names
// the setting, or nil.
func (m *Models) Ready(name string) error {
	p := m.provider(name)
	if p == nil || p.row.Script {
		return nil
	}
	return p.ready()
}

// Reach asks the server of a provider for anything; any answer will do. Unknown providers, and the scripted one, have none.
func (m *Models) Reach(ctx context.Context, name string) error {
	p := m.provider(name)
	if p == nil || p.row.Script {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, p.Base, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("provider %q does not answer: %w", name, err)
	}
	return answer.Body.Close()
}

func (p *provider) ready() error {
	oci, converse := p.Protocol == wire.OCI, p.Protocol == wire.Converse
	signs := p.signsAWS()
	switch {
	case oci && p.Base == "", converse && p.Base == "", signs && p.region == "":
		return failf(contract.ClassConnection, fmt.Sprintf("set providers.%s.region, for example to %s, in the worker's configuration", p.Provider, regions[p.Protocol].example),
			"provider %q has no region", p.Provider)
	case p.Base == "":
		return failf(contract.ClassConnection,
			fmt.Sprintf("set in the worker's weft.yaml: providers: {%q: {base_url: %q}}", p.Provider, cmp.Or(p.row.Example, "https://HOST/v1")),
			"provider %q has no base URL", p.Provider)
	case oci && p.Compartment == "":
		return failf(contract.ClassConnection, fmt.Sprintf("set providers.%s.compartment to the OCID of a compartment in the worker's configuration", p.Provider),
			"provider %q has no compartment", p.Provider)
	case p.key == "" && !signs && (p.row.NeedsKey || p.named):
		return failf(contract.ClassConnection, fmt.Sprintf("set %s in the worker's environment (not the client's) and restart the worker", p.keyName),
			"provider %q has no key: %s is not set on the worker", p.Provider, p.keyName)
	}
	return nil
}

func (m *Models) known() string {
	return strings.Join(slices.Sorted(maps.Keys(m.providers)), ", ")
}
