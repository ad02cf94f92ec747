// Package llm calls language models, with the tools and options of langchaingo, and classifies the failures of
// providers. Package wire below it implements their protocols.
//
// It never retries, reads the environment or follows redirects, and never writes a key into an error or a log:
// settings are plain data, and keys are sent only in headers.
//
// Start at [Open], [Models.Generate] and [Generate], then look at the table [Providers].
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

// Settings configure a worker's providers. The zero value has the providers of [Providers] that need no settings.
type Settings struct {
	// Default is the model of runs that specify none, as provider/model. It may be empty.
	Default string
	// Prices are keyed by provider/model, or by a prefix and *. The longest key wins.
	Prices map[string]Price
	// NoDefault is the reason for an empty Default, for messages. It may be empty.
	NoDefault string
	// Providers are keyed by the name that references use. Providers of the table that are missing here have their
	// defaults.
	Providers map[string]ProviderSettings
	// Scripted replaces all models with the scripted model, so that no provider is called.
	Scripted bool
	// Credentials, if set, returns credentials that override a provider's settings. They can change while the worker
	// runs.
	Credentials func(provider string) Credentials
	// Mask, if set, removes secrets from quoted errors. Secrets that a provider obtains at run time are added to it.
	Mask *mask.Mask
}

// Secrets returns the secrets in the settings.
func (s Settings) Secrets() []string {
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

// Credentials override a provider's settings: its key, or OCI's configuration file. An empty field overrides nothing.
type Credentials struct{ Key, AuthFile string }

// ProviderSettings configure one provider. Zero values mean the defaults of its kind.
type ProviderSettings struct {
	// Kind is the name of an entry of [Providers]; empty means the provider's own name.
	Kind string
	// BaseURL is the URL to which the protocol's path, such as /chat/completions, is appended. Ollama's may be host:port.
	BaseURL string
	// API selects chat completions (chat) or OpenAI's Responses API (responses). Empty means chat completions, except for
	// models in [wire.Server.Responses].
	API string
	// Key is the secret; KeyName is the environment variable that messages show instead of it.
	Key     string
	KeyName string
	// Headers are sent with every request. They are treated as secrets.
	Headers map[string]string
	// Proxy is the URL of an HTTP proxy; empty means none.
	Proxy string
	// Unary disables streaming.
	Unary bool
	// NoCache disables the cache markers for providers that support prompt caching.
	NoCache bool
	// NoImages means that the provider's models accept text only; images are replaced by a note.
	NoImages bool
	// AWS are access keys for Bedrock, used if Key is empty.
	AWS AWSKeys
	// Region is for Bedrock and OCI; the following fields are for OCI: Compartment is the compartment that is charged, Auth is
	// [AuthAPIKey] or another of the Auth constants, AuthFile and AuthProfile (default DEFAULT) locate keys and tokens.
	Region      string
	Compartment string
	Auth        string
	AuthFile    string
	AuthProfile string
	// RequestsPerMinute and TokensPerMinute limit the calls with one key on all workers that share limits; Concurrent
	// limits the calls of this worker. 0 means no limit.
	RequestsPerMinute int
	TokensPerMinute   int
	Concurrent        int
	// FirstTokenTimeout is the timeout for the first byte of a response, IdleTimeout the timeout between bytes.
	FirstTokenTimeout, IdleTimeout time.Duration
	// MaxBodyBytes limits the size of a response; 0 means [DefaultMaxBody].
	MaxBodyBytes int64
	// TextCalls enables parsing of tool calls that the server left in the text of an answer.
	TextCalls bool
	// CutRetries is how often a call is retried after its answer was cut off; nil means 2.
	CutRetries *int
}

// defaultCutRetries is the default of [ProviderSettings].CutRetries.
const defaultCutRetries = 2

// DefaultMaxBody is the default limit of a response, in bytes: about 130,000 streamed tokens of 250 bytes.
const DefaultMaxBody = 32 << 20

// ScriptModel is the model reference of the built-in scripted model.
const ScriptModel = "script"

// Models calls the models of a worker's providers. It is safe for concurrent use.
type Models struct {
	settings  Settings
	providers map[string]*provider
	prices    []priceRow
	// cooldowns maps a model's reference to the time until which its provider requested a delay.
	cooldowns sync.Map
}

// provider is a configured provider, with validated settings and defaults, and the model to call.
type provider struct {
	wire.Model
	row     Provider
	key     string
	keyName string
	// requiresKey is set if the settings name a variable for the key; the key must then be set.
	requiresKey     bool
	headers         http.Header
	client          *http.Client
	firstByte, idle time.Duration
	maxBody         int64
	cutRetries      int
	// signer is used by OCI, aws and region by Bedrock.
	signer *signer
	aws    AWSKeys
	region string
	limits *limiter
	mask   *mask.Mask
	// stateCache maps the name of a local model to its last cachedState; nil for servers that are not queried.
	stateCache *sync.Map
}

// Open validates settings; it opens no connection. Its error is a [contract.Failure] of class connection that
// lists every problem. [Models.Generate] reports a missing key.
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
	o.assignLimiters(s, m)
	m.prices = o.parsePrices(s.Prices)
	for _, ref := range Refs(s.Default) {
		if _, f := m.find(ref); f != nil {
			o.problem("default: %s", f.Text)
		}
	}
	if len(o.problems) > 0 {
		return nil, &contract.Failure{
			Class:       contract.ClassConnection,
			Text:        fmt.Sprintf("%d problem(s) in the model settings: %s", len(o.problems), strings.Join(o.problems, "; ")),
			Diagnostics: o.problems,
		}
	}
	return m, nil
}

// Default returns the model of runs that specify none. It fails with class connection if none is configured.
func (m *Models) Default() (string, error) {
	if m.settings.Default != "" {
		return m.settings.Default, nil
	}
	f := failf(contract.ClassConnection,
		"set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in the worker's environment (not the client's), or model in its weft.yaml, "+
			"and restart the worker; or specify provider/model in the flow or the run's input; available providers: "+m.providerNames(),
		"no model is specified and the worker has no default model")
	if m.settings.NoDefault != "" {
		f.Text += ": " + m.settings.NoDefault
	}
	return "", f
}

// get returns the model for a reference. It fails like find, and with class connection if the provider has no key or
// no address.
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

// find returns the provider and model of a reference: provider/model, or "script", optionally with a name such as
// "script/backup". It fails with class bad_request, because waiting does not make an unknown name valid.
func (m *Models) find(ref string) (*provider, *contract.Failure) {
	name, modelName, slash := strings.Cut(ref, "/")
	p, quoted := m.provider(name), textutil.Truncate(ref, 200)
	switch {
	case p == nil && !slash:
		return nil, failf(contract.ClassBadRequest,
			fmt.Sprintf("use for example openai/%s; available providers: %s", cmp.Or(textutil.Truncate(ref, 60), "MODEL"), m.providerNames()),
			"model %q is not provider/model", quoted)
	case p == nil:
		name = textutil.Truncate(name, 100)
		return nil, failf(contract.ClassBadRequest,
			fmt.Sprintf("correct the name, or set in the worker's weft.yaml: providers: {%q: {kind: compatible, base_url: \"https://HOST/v1\"}}", name),
			"model %q: unknown provider %q; available providers: %s", quoted, name, m.providerNames())
	case (slash || !p.row.Script) && strings.TrimSpace(modelName) == "":
		return nil, failf(contract.ClassBadRequest, fmt.Sprintf("use %s/MODEL", name), "model %q has a provider but no model name", quoted)
	}
	p.Name = modelName
	return p, nil
}

// CheckModel returns the failure for a reference to an unknown provider or without a model name; nil if it is valid.
func (m *Models) CheckModel(ref string) *contract.Failure {
	if m.settings.Scripted {
		return nil
	}
	_, f := m.find(ref)
	return f
}

// Scripted reports whether any model of a list is the scripted model on this worker.
func (m *Models) Scripted(list string) bool {
	return m.settings.Scripted || slices.ContainsFunc(Refs(list), m.isScript)
}

func (m *Models) isScript(ref string) bool {
	name, _, _ := strings.Cut(ref, "/")
	p := m.providers[name]
	return p != nil && p.row.Script
}

// HasScriptModel reports whether a list of models contains the scripted model, with or without a name.
func HasScriptModel(list string) bool { return slices.ContainsFunc(Refs(list), contract.Scripted) }

// provider returns a copy of a provider with the current credentials applied, or nil if the name is unknown.
func (m *Models) provider(name string) *provider {
	p := m.providers[name]
	if p == nil {
		return nil
	}
	out := *p
	if m.settings.Credentials == nil {
		return &out
	}
	override := m.settings.Credentials(name)
	if override.Key != "" {
		out.key, out.keyName = override.Key, "the key in the document"
		out.headers = p.headers.Clone()
		out.headers.Del("Authorization") // it was configured instead of a key
	}
	if override.AuthFile != "" && p.signer != nil {
		out.signer = &signer{auth: p.signer.auth, file: override.AuthFile, profile: p.signer.profile}
	}
	return &out
}

// Ready returns nil if a provider can be called, or a *[contract.Failure] of class connection that names the
// missing setting.
func (m *Models) Ready(name string) error {
	p := m.provider(name)
	if p == nil || p.row.Script {
		return nil
	}
	return p.ready()
}

// Reach sends a HEAD request to a provider's server and accepts any response. It does nothing for unknown providers and
// the scripted model.
func (m *Models) Reach(ctx context.Context, name string) error {
	p := m.provider(name)
	if p == nil || p.row.Script {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, p.Base, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("provider %q is unreachable: %w", name, err)
	}
	return resp.Body.Close()
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
	case p.key == "" && !signs && (p.row.NeedsKey || p.requiresKey):
		return failf(contract.ClassConnection, fmt.Sprintf("set %s in the worker's environment (not the client's) and restart the worker", p.keyName),
			"provider %q has no key: %s is not set on the worker", p.Provider, p.keyName)
	}
	return nil
}

func (m *Models) providerNames() string {
	return strings.Join(slices.Sorted(maps.Keys(m.providers)), ", ")
}
