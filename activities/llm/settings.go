package llm

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"weft/activities/contract"
	"weft/activities/llm/wire"
	"weft/activities/mask"
	"weft/activities/textutil"
)

// opener creates providers from settings and collects problems.
type opener struct {
	shared   *http.Client
	mask     *mask.Mask
	problems []string
}

var reservedHeaders = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host", "Idempotency-Key",
	"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func (o *opener) problem(format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
}

func (o *opener) problemIf(cond bool, format string, args ...any) {
	if cond {
		o.problem(format, args...)
	}
}

// open validates one provider's settings and applies the defaults of its kind.
func (o *opener) open(name string, s ProviderSettings) *provider {
	o.problemIf(name == "" || strings.ContainsAny(name, "/ \t\r\n"), "providers: invalid name %q; expected one word without a slash", name)
	row, ok := rowOf(cmp.Or(s.Kind, name))
	o.problemIf(!ok, "providers.%s.kind: unknown kind %q; expected one of %s", name, cmp.Or(s.Kind, name), kindNames())
	p := &provider{
		Model: wire.Model{Server: row.Server, Provider: name, Compartment: s.Compartment, API: s.API, Unary: s.Unary, NoCache: s.NoCache, NoImages: s.NoImages, TextCalls: s.TextCalls},
		row:   row, aws: s.AWS, region: s.Region, key: s.Key, requiresKey: s.KeyName != "" && s.KeyName != row.KeyName, keyName: cmp.Or(s.KeyName, row.KeyName, "the provider's key"),
		client: o.shared, mask: o.mask, maxBody: cmp.Or(s.MaxBodyBytes, DefaultMaxBody), cutRetries: defaultCutRetries,
		firstByte: cmp.Or(s.FirstTokenTimeout, row.FirstByte, 5*time.Minute), idle: cmp.Or(s.IdleTimeout, row.Idle, 2*time.Minute),
	}
	if s.CutRetries != nil {
		p.cutRetries = *s.CutRetries
	}
	if row.queryState != nil {
		p.stateCache = &sync.Map{}
	}
	if row.Protocol == wire.Converse && p.keyName == row.KeyName {
		p.keyName += ", or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	}
	o.checkKind(name, s, row.Protocol)
	if i := strings.IndexFunc(s.Key, notInHeader); i >= 0 {
		o.problem("providers.%s: the value of %s has a space, line break or other invalid character at byte %d; check how it is set", name, p.keyName, i+1)
	}
	if base := cmp.Or(s.BaseURL, row.BaseURL); base != "" {
		p.Base = o.baseURL(name, base, row.Name == "ollama")
	}
	o.openRegion(name, s, p)
	if p.Protocol == wire.OCI {
		p.signer = o.newSigner(name, s)
	}
	p.headers = o.headers(name, s)
	if s.Proxy != "" {
		p.client = o.proxyClient(name, s.Proxy)
	}
	return p
}

// checkKind reports settings that only other kinds of providers support.
func (o *opener) checkKind(name string, s ProviderSettings, protocol string) {
	chat, oci, validAPI := protocol == wire.Chat, protocol == wire.OCI, slices.Contains([]string{"", wire.APIChat, wire.APIResponses}, s.API)
	_, region := regions[protocol]
	for _, f := range []struct {
		field    string
		set, has bool
		who      string
	}{
		{"text_calls", s.TextCalls, chat, "that speak chat completions"}, {"api", s.API != "" && validAPI, chat || oci, "that speak OpenAI's protocols"},
		{"region", s.Region != "", region, "of kind bedrock or oci"}, {"compartment", s.Compartment != "", oci, "of kind oci"}, {"auth", s.Auth != "", oci, "of kind oci"},
		{"auth_file", s.AuthFile != "", oci, "of kind oci"}, {"auth_profile", s.AuthProfile != "", oci, "of kind oci"},
	} {
		o.problemIf(f.set && !f.has, "providers.%s.%s: only supported by providers %s; remove it", name, f.field, f.who)
	}
	if !validAPI {
		o.problem("providers.%s.api: unknown API %q; set %s or %s, or remove it", name, textutil.Truncate(s.API, 60), wire.APIChat, wire.APIResponses)
	}
}

// regions are the addresses, by protocol, of the services that have regions.
var regions = map[string]struct{ prefix, suffix, example string }{
	wire.OCI:      {"https://inference.generativeai.", ".oci.oraclecloud.com", "us-chicago-1"},
	wire.Converse: {"https://bedrock-runtime.", ".amazonaws.com", "us-east-1"},
}

// openRegion derives the base URL from a region, unless one is set.
func (o *opener) openRegion(name string, s ProviderSettings, p *provider) {
	endpoint, ok := regions[p.Protocol]
	if !ok || s.Region == "" || s.BaseURL != "" {
		return
	}
	if strings.IndexFunc(s.Region, func(r rune) bool { return !(r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }) >= 0 {
		o.problem("providers.%s.region: invalid region %q; use for example %s", name, textutil.Truncate(s.Region, 60), endpoint.example)
	}
	p.Base = endpoint.prefix + s.Region + endpoint.suffix
}

func kindNames() string {
	var names []string
	for _, row := range Providers {
		names = append(names, row.Name)
	}
	return strings.Join(names, ", ")
}

// baseURL validates a base URL and trims its final slash. Problems never quote user information or a query.
func (o *opener) baseURL(name, raw string, ollama bool) string {
	if ollama {
		raw = ollamaURL(raw)
	}
	field := "providers." + name + ".base_url"
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		o.problem("%s: invalid URL; use for example https://host/v1", field)
		return ""
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		o.problem("%s: %q is not an http or https URL; use for example https://host/v1", field, textutil.Truncate(u.Redacted(), 100))
		return ""
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		o.problem("%s: the URL of host %q has user information, a query or a fragment; remove it, set the key's variable and move the rest to headers", field, u.Host)
		return ""
	}
	for _, end := range []string{"/chat/completions", "/responses", "/messages", "/actions/chat"} {
		if strings.HasSuffix(strings.TrimRight(u.Path, "/"), end) {
			o.problem("%s: %q ends in %s, which is appended; remove it", field, textutil.Truncate(u.String(), 200), end)
			return ""
		}
	}
	return strings.TrimRight(u.String(), "/")
}

// ollamaURL completes a value of OLLAMA_HOST: a host, host:port, or a URL.
func ollamaURL(raw string) string {
	raw = strings.TrimRight(strings.TrimSpace(raw), "/")
	bare := !strings.Contains(raw, "://")
	if bare {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return raw
	}
	host, port := u.Hostname(), u.Port()
	if bare && port == "" {
		port = "11434"
	}
	// The variable also configures the server, which may listen on all addresses; a client cannot dial them.
	if host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	u.Host = strings.TrimSuffix(net.JoinHostPort(host, port), ":")
	u.Path = cmp.Or(u.Path, "/v1")
	return u.String()
}

// headers validates the configured headers. Messages never quote their values.
func (o *opener) headers(name string, s ProviderSettings) http.Header {
	out := http.Header{}
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		canonical := http.CanonicalHeaderKey(key)
		switch {
		case !httpguts.ValidHeaderFieldName(key):
			o.problem("providers.%s.headers: invalid header name %q", name, key)
		case slices.Contains(reservedHeaders, canonical):
			o.problem("providers.%s.headers: %s is set by the engine; remove it", name, canonical)
		case canonical == "Authorization" && s.Key != "":
			o.problem("providers.%s.headers: Authorization and a key are both set; remove one of them", name)
		case !httpguts.ValidHeaderFieldValue(s.Headers[key]):
			o.problem("providers.%s.headers: the value of %s has a line break or another control character", name, canonical)
		case out.Get(canonical) != "":
			o.problem("providers.%s.headers: %s is set twice", name, canonical)
		default:
			out.Set(canonical, s.Headers[key])
		}
	}
	return out
}

func notInHeader(r rune) bool { return r <= ' ' || r > '~' }

func (o *opener) proxyClient(name, raw string) *http.Client {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5") {
		o.problem("providers.%s.proxy: invalid URL; use for example http://host:port", name)
		return o.shared
	}
	return newClient(u)
}

// Price is the price of a million tokens, in any currency. worker/config reads the tags.
type Price struct {
	Input      float64  `mapstructure:"input" doc:"price of a million input tokens, in any currency; NAME is provider/model, or a prefix of it followed by *"`
	Output     float64  `mapstructure:"output" doc:"price of a million output tokens"`
	Cached     *float64 `mapstructure:"cached" doc:"price of a million input tokens read from the provider's cache; default: as input"`
	CacheWrite *float64 `mapstructure:"cache_write" doc:"price of a million input tokens written to that cache; default: as input"`
	Reasoning  *float64 `mapstructure:"reasoning" doc:"price of a million output tokens that are reasoning; default: as output"`
	Image      float64  `mapstructure:"image" doc:"price of each image in a request, in addition to its tokens"`
}

type priceRow struct {
	model  string
	prefix bool
	Price
}

// parsePrices validates the price table and sorts it by descending length of the key.
func (o *opener) parsePrices(in map[string]Price) []priceRow {
	var out []priceRow
	for _, key := range slices.Sorted(maps.Keys(in)) {
		p := in[key]
		o.problemIf(!strings.Contains(key, "/"), "prices.%s: invalid key; use provider/model, for example openai/gpt-5*", textutil.Truncate(key, 100))
		for _, v := range []*float64{&p.Input, &p.Output, p.Cached, p.CacheWrite, p.Reasoning, &p.Image} {
			if v != nil && (math.IsNaN(*v) || *v < 0 || *v > 1e6) {
				o.problem("prices.%s: invalid price %v; expected 0 to 1000000", textutil.Truncate(key, 100), *v)
			}
		}
		model, prefix := strings.CutSuffix(key, "*")
		out = append(out, priceRow{model, prefix, p})
	}
	slices.SortStableFunc(out, func(a, b priceRow) int { return cmp.Compare(len(b.model), len(a.model)) })
	return out
}

// countImages returns the number of images that a call sends to a model.
func (m *Models) countImages(ref string, call *Call) int {
	n := 0
	if p := m.providers[strings.Split(ref, "/")[0]]; p != nil && p.NoImages {
		return 0
	}
	for i := range call.Messages {
		for k := range call.Messages[i].Media {
			if call.Messages[i].Media[k].Kind() == contract.KindImage {
				n++
			}
		}
	}
	return n
}

// price sets the cost of a call's usage, in millionths, or counts the calls as unpriced if the model has no price. The
// scripted model is free unless it has a price.
func (m *Models) price(ref string, call *Call, u *contract.Usage) {
	if len(m.prices) == 0 {
		return
	}
	i := slices.IndexFunc(m.prices, func(r priceRow) bool {
		return r.model == ref || r.prefix && strings.HasPrefix(ref, r.model)
	})
	if i < 0 {
		if !m.isScript(ref) {
			u.Unpriced = u.Calls
		}
		return
	}
	p := m.prices[i]
	uncached := max(0, u.Input-u.Cached-u.CacheWrite)
	reasoning := min(u.Reasoning, u.Output)
	cost := float64(uncached)*p.Input + float64(u.Cached)**cmp.Or(p.Cached, &p.Input) + float64(u.CacheWrite)**cmp.Or(p.CacheWrite, &p.Input) +
		float64(u.Output-reasoning)*p.Output + float64(reasoning)**cmp.Or(p.Reasoning, &p.Output)
	if p.Image > 0 && u.Input > 0 {
		cost += p.Image * 1e6 * float64(m.countImages(ref, call)*u.Made())
	}
	u.Cost = int64(math.Round(cost))
}
