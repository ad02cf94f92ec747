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

// opener turns settings into providers and collects what is wrong with them.
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

func (o *opener) problemIf(wrong bool, format string, args ...any) {
	if wrong {
		o.problem(format, args...)
	}
}

// open checks one provider's settings and fills in the row's defaults.
func (o *opener) open(name string, s ProviderSettings) *provider {
	o.problemIf(name == "" || strings.ContainsAny(name, "/ \t\r\n"), "providers: name %q: want one word without a slash", name)
	row, ok := rowOf(cmp.Or(s.Kind, name))
	o.problemIf(!ok, "providers.%s.kind: %q is not a kind of provider; want one of %s", name, cmp.Or(s.Kind, name), kindNames())
	p := &provider{
		Model: wire.Model{Server: row.Server, Provider: name, Compartment: s.Compartment, API: s.API, Unary: s.Unary, NoCache: s.NoCache, NoImages: s.NoImages, TextCalls: s.TextCalls},
		row:   row, aws: s.AWS, region: s.Region, key: s.Key, named: s.KeyName != "" && s.KeyName != row.KeyName, keyName: cmp.Or(s.KeyName, row.KeyName, "the provider's key"),
		client: o.shared, mask: o.mask, maxBody: cmp.Or(s.MaxBodyBytes, DefaultMaxBody), cutRetries: defaultCutRetries,
		first: cmp.Or(s.FirstByte, row.FirstByte, 5*time.Minute), idle: cmp.Or(s.Idle, row.Idle, 2*time.Minute),
	}
	if s.CutRetries != nil {
		p.cutRetries = *s.CutRetries
	}
	if row.look != nil {
		p.states = &sync.Map{}
	}
	if row.Protocol == wire.Converse && p.keyName == row.KeyName {
		p.keyName += ", or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	}
	o.checkKind(name, s, row.Protocol)
	if i := strings.IndexFunc(s.Key, notInHeader); i >= 0 {
		o.problem("providers.%s: the value of %s has a blank, line break or other character at byte %d that no key has; check how it is set", name, p.keyName, i+1)
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

// checkKind refuses settings that only other kinds of providers have.
func (o *opener) checkKind(name string, s ProviderSettings, protocol string) {
	chat, oci, known := protocol == wire.Chat, protocol == wire.OCI, slices.Contains([]string{"", wire.APIChat, wire.APIResponses}, s.API)
	_, region := regions[protocol]
	for _, f := range []struct {
		field    string
		set, has bool
		who      string
	}{
		{"text_calls", s.TextCalls, chat, "that speak chat completions"}, {"api", s.API != "" && known, chat || oci, "that speak OpenAI's protocols"},
		{"region", s.Region != "", region, "of kind bedrock or oci"}, {"compartment", s.Compartment != "", oci, "of kind oci"}, {"auth", s.Auth != "", oci, "of kind oci"},
		{"auth_file", s.AuthFile != "", oci, "of kind oci"}, {"auth_profile", s.AuthProfile != "", oci, "of kind oci"},
	} {
		o.problemIf(f.set && !f.has, "providers.%s.%s: only providers %s have it; leave it out", name, f.field, f.who)
	}
	if !known {
		o.problem("providers.%s.api: %q is none of OpenAI's protocols; want %s or %s, or leave it out", name, textutil.Truncate(s.API, 60), wire.APIChat, wire.APIResponses)
	}
}

// regions are the addresses of the services that have regions.
var regions = map[string]struct{ before, after, example string }{
	wire.OCI:      {"https://inference.generativeai.", ".oci.oraclecloud.com", "us-chicago-1"},
	wire.Converse: {"https://bedrock-runtime.", ".amazonaws.com", "us-east-1"},
}

// openRegion makes a region an address, unless one is set.
func (o *opener) openRegion(name string, s ProviderSettings, p *provider) {
	address, has := regions[p.Protocol]
	if !has || s.Region == "" || s.BaseURL != "" {
		return
	}
	if strings.IndexFunc(s.Region, func(r rune) bool { return !(r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }) >= 0 {
		o.problem("providers.%s.region: %q is not a region; want for example %s", name, textutil.Truncate(s.Region, 60), address.example)
	}
	p.Base = address.before + s.Region + address.after
}

func kindNames() string {
	var names []string
	for _, row := range Providers {
		names = append(names, row.Name)
	}
	return strings.Join(names, ", ")
}

// baseURL checks a base URL and trims its final slash. Errors never quote user information or a query.
func (o *opener) baseURL(name, raw string, ollama bool) string {
	if ollama {
		raw = ollamaURL(raw)
	}
	field := "providers." + name + ".base_url"
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		o.problem("%s: no URL; want for example https://host/v1", field)
		return ""
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		o.problem("%s: %q is not an http or https URL; want for example https://host/v1", field, textutil.Truncate(u.Redacted(), 100))
		return ""
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		o.problem("%s: the URL of host %q has user information, a query or a fragment; want none: put the key into the key's variable and the rest into headers", field, u.Host)
		return ""
	}
	for _, end := range []string{"/chat/completions", "/responses", "/messages", "/actions/chat"} {
		if strings.HasSuffix(strings.TrimRight(u.Path, "/"), end) {
			o.problem("%s: %q ends in %s; leave that out, it is appended", field, textutil.Truncate(u.String(), 200), end)
			return ""
		}
	}
	return strings.TrimRight(u.String(), "/")
}

// ollamaURL completes what OLLAMA_HOST may hold: a host, host:port, or a URL.
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
	// A server is told to listen on all addresses; a client cannot dial them.
	if host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	u.Host = strings.TrimSuffix(net.JoinHostPort(host, port), ":")
	u.Path = cmp.Or(u.Path, "/v1")
	return u.String()
}

// headers checks the configured headers. Values are never repeated in a message.
func (o *opener) headers(name string, s ProviderSettings) http.Header {
	out := http.Header{}
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		canonical := http.CanonicalHeaderKey(key)
		switch {
		case !httpguts.ValidHeaderFieldName(key):
			o.problem("providers.%s.headers: %q is not the name of a header", name, key)
		case slices.Contains(reservedHeaders, canonical):
			o.problem("providers.%s.headers: %s is set by the engine; leave it out", name, canonical)
		case canonical == "Authorization" && s.Key != "":
			o.problem("providers.%s.headers: Authorization is set although there is a key; leave out one of them", name)
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
		o.problem("providers.%s.proxy: not a URL like http://host:port", name)
		return o.shared
	}
	return newClient(u)
}

// Price is the price of a million tokens, in any currency. The tags are those of worker/config.
type Price struct {
	Input      float64  `mapstructure:"input" doc:"price of a million input tokens, in any currency; NAME is provider/model, or a prefix of it followed by *"`
	Output     float64  `mapstructure:"output" doc:"price of a million output tokens"`
	Cached     *float64 `mapstructure:"cached" doc:"price of a million input tokens read from the provider's cache; default: as input"`
	CacheWrite *float64 `mapstructure:"cache_write" doc:"price of a million input tokens written to that cache; default: as input"`
	Reasoning  *float64 `mapstructure:"reasoning" doc:"price of a million output tokens that are reasoning; default: as output"`
	Image      float64  `mapstructure:"image" doc:"price of each image in a request, beside its tokens"`
}

type priceRow struct {
	model  string
	prefix bool
	Price
}

// pricesOf checks the price table and orders it, the longest key first.
func (o *opener) pricesOf(in map[string]Price) []priceRow {
	var out []priceRow
	for _, key := range slices.Sorted(maps.Keys(in)) {
		p := in[key]
		o.problemIf(!strings.Contains(key, "/"), "prices.%s: the key is not provider/model; want for example openai/gpt-5*", textutil.Truncate(key, 100))
		for _, v := range []*float64{&p.Input, &p.Output, p.Cached, p.CacheWrite, p.Reasoning, &p.Image} {
			if v != nil && (math.IsNaN(*v) || *v < 0 || *v > 1e6) {
				o.problem("prices.%s: %v is not a price; want 0 to 1000000", textutil.Truncate(key, 100), *v)
			}
		}
		model, prefix := strings.CutSuffix(key, "*")
		out = append(out, priceRow{model, prefix, p})
	}
	slices.SortStableFunc(out, func(a, b priceRow) int { return cmp.Compare(len(b.model), len(a.model)) })
	return out
}

// images counts those that a call shows its model.
func (m *Models) images(ref string, call *Call) int {
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

// price sets the cost of the usage of a call, in millionths, and counts calls of models without a price. The scripted
// model is free unless it has one.
func (m *Models) price(ref string, call *Call, u *contract.Usage) {
	if len(m.prices) == 0 {
		return
	}
	i := slices.IndexFunc(m.prices, func(r priceRow) bool {
		return r.model == ref || r.prefix && strings.HasPrefix(ref, r.model)
	})
	if i < 0 {
		if !m.script(ref) {
			u.Unpriced = u.Calls
		}
		return
	}
	p := m.prices[i]
	plain := max(0, u.Input-u.Cached-u.CacheWrite)
	thoughts := min(u.Reasoning, u.Output)
	cost := float64(plain)*p.Input + float64(u.Cached)**cmp.Or(p.Cached, &p.Input) + float64(u.CacheWrite)**cmp.Or(p.CacheWrite, &p.Input) +
		float64(u.Output-thoughts)*p.Output + float64(thoughts)**cmp.Or(p.Reasoning, &p.Output)
	if p.Image > 0 && u.Input > 0 {
		cost += p.Image * 1e6 * float64(m.images(ref, call)*u.Made())
	}
	u.Cost = int64(math.Round(cost))
}
