package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// The conformance suite runs the same tests for every provider, with fake servers
// of the vendor's format. `make conformance` prints its table, which is also in README.md.

// vendor is a fake server's implementation of one format, written from its public documentation
// and without code of this package.
type vendor interface {
	// parse parses a request, and rejects what the real server rejects.
	parse(r *http.Request, body []byte) (*parsedRequest, error)
	// unary and events encode an answer, as one body and as raw server-sent events.
	unary(s fakeAnswer) string
	events(s fakeAnswer) []string
	// errorBody returns the body of an error response.
	errorBody(status int, kind, message string) string
	// errorEvent returns an error as an event inside a stream.
	errorEvent(kind, message string) string
}

// Kinds of errors, which each vendor encodes in its own format.
const (
	faultPlain   = "plain"
	faultQuota   = "quota"
	faultContext = "context"
)

// fakeAnswer is an answer to encode. The thought is signed if the vendor signs reasoning.
type fakeAnswer struct {
	pieces  []string
	calls   []contract.ToolCall
	stop    string // stop, length, tool_calls, refused
	thought string
	usage   contract.Usage
}

func textAnswer(pieces ...string) fakeAnswer { return fakeAnswer{pieces: pieces, stop: "stop"} }

// parsedRequest is a request in a format common to all vendors.
type parsedRequest struct {
	model, key, system, choice string
	stream, json, strict       bool
	turns                      []parsedTurn
	tools                      []parsedTool
	schema                     any
	temperature, topP          *float64
	maxTokens                  int
	stop                       []string
	seed                       *int
	effort                     string
}

type parsedTurn struct {
	role, text string
	calls      []contract.ToolCall
	results    []parsedResult
	images     []string
	// thoughts are signatures or reasoning that were sent back.
	thoughts []string
}

type parsedResult struct {
	id, name, text string
	failed         bool
	images         []string
}

type parsedTool struct {
	name, description string
	schema            any
}

// providerCase is a provider under test. A model is set if its format differs.
type providerCase struct {
	row    Provider
	vendor vendor
	// name is the row's name in the table.
	name, model string
	// api is the provider's api setting.
	api string
}

// providerCases returns all providers under test.
func providerCases() []providerCase {
	var out []providerCase
	for _, row := range Providers {
		if row.Script {
			continue
		}
		own := providerCase{row: row, vendor: vendorOf(row), name: "`" + row.Name + "`"}
		if row.Protocol == wire.Converse {
			own.model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
		}
		out = append(out, own)
		if row.Protocol == wire.OCI {
			out = append(out, providerCase{row: row, vendor: fakeOCICohere{}, name: "`" + row.Name + "`, of Cohere", model: "cohere.command-a-03-2025"})
		}
		if row.Responses != nil {
			row.Params, row.ResultImages = []string{paramParallel, paramEffort}, true
			out = append(out, providerCase{row: row, vendor: fakeResponses{}, name: "`" + row.Name + "`, Responses", model: "gpt-4.1", api: wire.APIResponses})
		}
	}
	return out
}

// vendorOf returns the fake server of a provider.
func vendorOf(row Provider) vendor {
	switch row.Protocol {
	case wire.Claude:
		return fakeClaude{}
	case wire.Gemini:
		return fakeGemini{}
	case wire.OCI:
		return fakeOCI{}
	case wire.Converse:
		return fakeConverse{}
	case wire.Cohere:
		return fakeCohere{}
	}
	return fakeChat{kind: row.Name}
}

// endpoint is a running fake server.
type endpoint struct {
	*server
	providerCase
	mu   sync.Mutex
	last *parsedRequest
	err  error
}

// start starts a fake server that checks every request by its vendor's rules and then calls
// handle. If handle is nil, it responds with s, streamed if the request asks for it.
func (b providerCase) start(t *testing.T, s fakeAnswer, handle http.HandlerFunc) (*endpoint, *provider) {
	t.Helper()
	e := &endpoint{providerCase: b}
	e.server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		e.server.mu.Lock()
		body := e.bodies[len(e.bodies)-1]
		e.server.mu.Unlock()
		got, err := b.vendor.parse(r, []byte(body))
		e.mu.Lock()
		e.last, e.err = got, err
		e.mu.Unlock()
		switch {
		case err != nil:
			answer(400, b.vendor.errorBody(400, faultPlain, err.Error()))(w, r)
		case handle != nil:
			handle(w, r)
		case got.stream:
			b.stream(s)(w, r)
		default:
			answer(200, b.vendor.unary(s))(w, r)
		}
	})
	m := openModel(t, b.row.Name, e.URL, func(p *ProviderSettings) {
		p.API = b.api
		if b.row.Protocol == wire.OCI {
			p.Compartment, p.AuthFile = "ocid1.compartment.oc1..c", ociConfig(t)
		}
	})
	// Long timeouts, so that tests do not fail on a busy machine.
	m.firstByte, m.idle = 15*time.Second, 15*time.Second
	m.Name = cmp.Or(b.model, m.Name)
	return e, m
}

// stream returns a handler that streams s.
func (b providerCase) stream(s fakeAnswer) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range b.vendor.events(s) {
			_, _ = io.WriteString(w, e)
		}
	}
}

// lastRequest returns the last request. It fails the test if the vendor rejected it.
func (e *endpoint) lastRequest(t *testing.T) *parsedRequest {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		t.Fatalf("server rejected the request: %v\n%s", e.err, e.bodies[len(e.bodies)-1])
	}
	if e.last == nil {
		t.Fatal("no request received")
	}
	return e.last
}

// generate makes a call that must succeed.
func (e *endpoint) generate(t *testing.T, m *provider, call *Call, in wire.Request, opts ...llms.CallOption) *Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	a, err := generate(ctx, m, newCall(call, in, nil, opts...))
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		t.Fatalf("%v (server: %v)", err, e.err)
	}
	e.lastRequest(t)
	return a
}

// transcriptOf returns a request with a conversation.
func transcriptOf(system string, in ...contract.Message) wire.Request {
	return wire.Request{System: system, Messages: in}
}

func user(s string) contract.Message { return contract.Message{Role: "user", Text: s} }

// checkEqual fails the test if two values differ as JSON.
func checkEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) != string(w) {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}

// feature is a column of the table. Its test returns how the provider supports it: "yes", or "-" if
// the provider lacks the feature and calls succeed without it.
type feature struct {
	name string
	test func(t *testing.T, b providerCase) string
}

var features = []feature{
	{"sign-in", conformSignIn}, {"text", conformText}, {"streams", conformStreams}, {"parallel calls", conformCalls}, {"tool schemas", conformToolSchemas},
	{"tool choice", conformChoice}, {"JSON schema", conformSchema}, {"images", conformImages}, {"images in results", conformResultImages}, {"parameters", conformParameters}, {"seed", conformSeed},
	{"reasoning sent back", conformReasoning}, {"usage", conformUsage}, {"cached tokens", conformCached}, {"stop reasons", conformStops},
	{"broken streams", conformBrokenStreams}, {"errors", conformErrors}, {"time and size", conformBounds},
}

// conformance holds the results by provider and feature.
type conformance struct {
	mu      sync.Mutex
	results map[string]map[string]string
}

func TestGoldenConformance(t *testing.T) {
	table := conformance{results: map[string]map[string]string{}}
	t.Run("providers", func(t *testing.T) {
		for _, b := range providerCases() {
			for _, f := range features {
				t.Run(strings.ReplaceAll(b.name, "`", "")+"/"+f.name, func(t *testing.T) {
					if f.name != "sign-in" { // which sets environment variables
						t.Parallel()
					}
					result := f.test(t, b)
					if t.Failed() {
						result = "FAILS"
					}
					table.put(b.name, f.name, result)
				})
			}
		}
	})
	if table.complete() && !t.Failed() {
		got := table.markdown()
		if os.Getenv("CONFORMANCE") != "" {
			fmt.Println(got)
		}
		checkReadme(t, "conformance", got)
	}
}

func (c *conformance) put(provider, feature, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.results[provider] == nil {
		c.results[provider] = map[string]string{}
	}
	c.results[provider][feature] = result
}

// complete reports whether every test ran, which -run can prevent.
func (c *conformance) complete() bool {
	for _, b := range providerCases() {
		if len(c.results[b.name]) != len(features) {
			return false
		}
	}
	return true
}

func (c *conformance) markdown() string {
	var b strings.Builder
	head, line := "| kind |", "| --- |"
	for _, f := range features {
		head, line = head+" "+f.name+" |", line+" --- |"
	}
	b.WriteString(head + "\n" + line + "\n")
	for _, row := range providerCases() {
		b.WriteString("| " + row.name + " |")
		for _, f := range features {
			b.WriteString(" " + c.results[row.name][f.name] + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func conformText(t *testing.T, b providerCase) string {
	e, m := b.start(t, textAnswer("Hello ", "world"), nil)
	a := e.generate(t, m, &Call{}, transcriptOf("Be good.", user("hi <&> ünïcode"), contract.Message{Role: "assistant", Text: "yes?"}, user("go")))
	checkEqual(t, "answer", a.Message, contract.Message{Role: "assistant", Text: "Hello world"})
	checkEqual(t, "stop", a.Stop, "stop")
	if !strings.HasPrefix(a.Model, "fake/") {
		t.Errorf("model %q", a.Model)
	}
	got := e.lastRequest(t)
	checkEqual(t, "key", got.key, testKey)
	checkEqual(t, "model", got.model, m.Name)
	checkEqual(t, "system", got.system, "Be good.")
	if len(got.turns) != 3 || got.turns[0].text != "hi <&> ünïcode" || got.turns[1].text != "yes?" || got.turns[1].role != "assistant" || got.turns[2].text != "go" {
		t.Errorf("turns %+v", got.turns)
	}
	// An empty user message must be accepted.
	e.generate(t, m, &Call{}, transcriptOf("Just begin.", user("")))
	return "yes"
}

func conformStreams(t *testing.T, b providerCase) string {
	var pieces []string
	for i := range 3_000 {
		pieces = append(pieces, fmt.Sprintf("word%d ", i))
	}
	long := strings.Repeat("x", 300_000) // one line, longer than common buffers
	pieces = append(pieces, long)
	e, m := b.start(t, textAnswer(pieces...), nil)
	partial, calls := "", 0
	a := e.generate(t, m, &Call{Partial: func(s string) { partial, calls = s, calls+1 }}, transcriptOf("", user("go")))
	if want := strings.Join(pieces, ""); a.Message.Text != want || partial != want {
		t.Errorf("text of %d bytes, partial text of %d, want %d", len(a.Message.Text), len(partial), len(want))
	}
	if calls < 1_000 {
		t.Errorf("%d partial texts, want at least 1000", calls)
	}
	return "yes"
}

// sampleCalls returns calls with what is easily lost: no arguments, big numbers, order.
func sampleCalls() []contract.ToolCall {
	return []contract.ToolCall{
		{ID: "call_1", Name: "get", Arguments: `{"k":"a","n":12345678901234567}`},
		{ID: "call_2", Name: "put", Arguments: `{"list":[1,{"x":null}],"t":"quote \" and ünï"}`},
		{ID: "call_3", Name: "get", Arguments: `{}`},
	}
}

func conformCalls(t *testing.T, b providerCase) string {
	calls := sampleCalls()
	e, m := b.start(t, fakeAnswer{pieces: []string{"Let me see."}, calls: calls, stop: "tool_calls"}, nil)
	a := e.generate(t, m, &Call{}, transcriptOf("", user("go")), llms.WithTools(tools()))
	checkEqual(t, "stop", a.Stop, "tool_calls")
	checkEqual(t, "text", a.Message.Text, "Let me see.")
	checkEqual(t, "calls", a.Message.Calls, calls)
	// The turn is sent back unchanged with all results, one of them an error.
	e.generate(t, m, &Call{}, transcriptOf("", user("go"), a.Message,
		contract.Message{Role: "tool", CallID: "call_1", Name: "get", Text: "1"},
		contract.Message{Role: "tool", CallID: "call_2", Name: "put", Text: "no such key", Error: true},
		contract.Message{Role: "tool", CallID: "call_3", Name: "get", Text: ""},
		user("and now?")), llms.WithTools(tools()))
	got := e.lastRequest(t)
	if len(got.turns) < 3 {
		t.Fatalf("turns %+v", got.turns)
	}
	back := got.turns[1]
	checkEqual(t, "text of the turn", back.text, "Let me see.")
	if len(back.calls) != 3 || back.calls[0].Arguments != calls[0].Arguments || back.calls[1].Arguments != calls[1].Arguments || back.calls[2].Arguments != "{}" {
		t.Fatalf("calls sent back: %+v", back.calls)
	}
	var results []parsedResult
	last := ""
	for _, turn := range got.turns[2:] {
		results = append(results, turn.results...)
		if turn.role == "user" {
			last += turn.text
		}
	}
	if len(results) != 3 || results[0].text != "1" || results[1].text != "no such key" || last != "and now?" {
		t.Fatalf("results %+v, then %q", results, last)
	}
	if marksErrors := slices.Contains([]string{wire.Claude, wire.Gemini, wire.Converse}, b.row.Protocol); results[1].failed != marksErrors || results[0].failed {
		t.Errorf("results %+v, want only the second one to be an error", results)
	}
	for i, r := range results {
		if r.id != back.calls[i].ID || r.id == "" {
			t.Errorf("result %d has call id %q, want %q", i+1, r.id, back.calls[i].ID)
		}
	}
	conformHostileCalls(t, b)
	return "yes"
}

// conformHostileCalls sends back calls as models really write them: long ids with special
// characters, arguments that are not JSON.
func conformHostileCalls(t *testing.T, b providerCase) {
	t.Helper()
	e, m := b.start(t, textAnswer("ok"), nil)
	long := strings.Repeat("toolu:01/", 20)
	in := transcriptOf("", user("go"),
		contract.Message{Role: "assistant", Calls: []contract.ToolCall{{ID: long, Name: "get", Arguments: "{k: 1"}, {ID: "b", Name: "put", Arguments: "[1]"}}},
		contract.Message{Role: "tool", CallID: long, Name: "get", Text: "no JSON", Error: true},
		contract.Message{Role: "tool", CallID: "b", Name: "put", Text: "no object", Error: true})
	e.generate(t, m, &Call{}, in, llms.WithTools(tools()))
	got := e.lastRequest(t)
	if call := got.turns[1].calls[0]; !strings.Contains(call.Arguments, "{k: 1") {
		t.Errorf("arguments that are not JSON sent as %q", call.Arguments)
	}
}
