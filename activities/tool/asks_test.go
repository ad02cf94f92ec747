package tool

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/tests/programs"
)

// Requests of a server.
const (
	asksPerson = `{"method":"elicitation/create","params":{"message":"For how many?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}}`
	asksURL    = `{"method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"https://example.com/in","elicitationId":"e1"}}`
	asksModel  = `{"method":"sampling/createMessage","params":{"systemPrompt":"Be brief.","messages":[{"role":"user","content":{"type":"text","text":"How many?"}}],"maxTokens":9000}}`
	asksRoots  = `{"method":"roots/list"}`
	opened     = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`
)

// TestServerAsksInACall checks requests of servers during a call, over every transport. Those that are not allowed are refused
// at once, so that the call continues, and their capability is not announced.
func TestServerAsksInACall(t *testing.T) {
	for name, tc := range map[string]struct {
		asks    []string
		allowed Connection
		note    string
		// answers, if set, answers requests; if nil, they are not supported.
		answers func(ctx context.Context, q contract.ToolQuestion) (*contract.ServerAnswer, error)
		want    string
		// announced holds the client's capabilities.
		announced string
	}{
		"a person, whom nobody can ask": {asks: []string{asksPerson}, want: `"code":-32600`},
		"a person": {asks: []string{asksPerson, asksPerson}, answers: says(`{"action":"decline"}`), want: `{"action":"decline"}` + "\n" + `{"action":"decline"}`,
			announced: `{"elicitation":{"form":{},"url":{}}}`},
		"a URL that is opened": {asks: []string{asksURL}, note: opened, want: `{"action":"accept"}`,
			answers: func(ctx context.Context, _ contract.ToolQuestion) (*contract.ServerAnswer, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
		"no model":         {asks: []string{asksModel}, answers: says(`{}`), want: "sampling_tokens"},
		"the model":        {asks: []string{asksModel}, allowed: Connection{SamplingTokens: 100}, answers: samples, want: `{"system":"Be brief.","messages":[{"role":"user","text":"How many?"}],"max_tokens":100}`, announced: `{"elicitation":{"form":{},"url":{}},"sampling":{}}`},
		"no model in time": {asks: []string{asksModel}, allowed: Connection{SamplingTokens: 100, Elicitation: time.Second}, answers: never, want: "did not answer in time"},
		"the model with tools": {asks: []string{strings.Replace(asksModel, `"maxTokens"`, `"tools":[{"name":"x"}],"maxTokens"`, 1)}, allowed: Connection{SamplingTokens: 100},
			answers: samples, want: "tools are not supported"},
		"no roots": {asks: []string{asksRoots}, want: `"code":-32601`},
		"roots": {asks: []string{asksRoots}, allowed: Connection{Roots: []string{"file:///srv/a", "b=file:///srv/b"}}, want: `{"roots":[{"uri":"file:///srv/a"},{"uri":"file:///srv/b","name":"b"}]}`,
			announced: `{"elicitation":{"form":{},"url":{}},"roots":{}}`},
		"another method": {asks: []string{`{"method":"weather/get"}`}, want: `"code":-32601`},
	} {
		for _, transport := range []string{"http", "session", "sse", "stdio"} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				t.Parallel()
				s := &programs.AskingServer{Asks: tc.asks, InSession: transport == "session", Note: tc.note}
				c := tc.allowed
				switch transport {
				case "stdio":
					asks, _ := json.Marshal(s) // texts
					c.Command, c.Env = os.Args[0], map[string]string{helperMode: "asks", "ASKS": string(asks)}
				case "sse":
					c.Transport, c.URL = TransportSSE, start(t, s).URL+"/sse"
				default:
					c.URL, c.Stream = start(t, s).URL, s.InSession
				}
				m := Meta{}
				if tc.answers != nil {
					m.Ask = func(ctx context.Context, _ int, q contract.ToolQuestion, _ time.Duration) (*contract.ServerAnswer, error) {
						return tc.answers(ctx, q)
					}
				} else if transport == "session" {
					m.Ask = func(context.Context, int, contract.ToolQuestion, time.Duration) (*contract.ServerAnswer, error) {
						return &contract.ServerAnswer{Problem: "nobody"}, nil
					}
				}
				got, err := open(t, c).Call(soon(t, 20*time.Second), call("book", `{}`), m)
				if err != nil || !strings.Contains(got.Text, tc.want) {
					t.Errorf("the server was answered %q, %v; want %q", got.Text, err, tc.want)
				}
				if transport != "stdio" && tc.announced != "" && s.Capabilities() != tc.announced {
					t.Errorf("the server is told of %s", s.Capabilities())
				}
			})
		}
	}
}

func says(result string) func(context.Context, contract.ToolQuestion) (*contract.ServerAnswer, error) {
	return func(context.Context, contract.ToolQuestion) (*contract.ServerAnswer, error) {
		return &contract.ServerAnswer{Result: json.RawMessage(result)}, nil
	}
}

func samples(_ context.Context, q contract.ToolQuestion) (*contract.ServerAnswer, error) {
	raw, err := json.Marshal(q.Sampling)
	return &contract.ServerAnswer{Result: raw}, err
}

func never(ctx context.Context, _ contract.ToolQuestion) (*contract.ServerAnswer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestServerRequiresInput checks servers of protocol 2026-07-28 that require input before they answer.
func TestServerRequiresInput(t *testing.T) {
	for name, tc := range map[string]struct {
		asks    []string
		allowed Connection
		want    string
		asked   int
	}{
		"all":                           {asks: []string{asksPerson, asksModel, asksRoots}, allowed: Connection{SamplingTokens: 100, Roots: []string{"file:///srv/a"}}, want: "requires more input from its caller", asked: 3},
		"a model that may not be asked": {asks: []string{asksPerson, asksModel}, want: "sampling_tokens"},
		"roots that there are not":      {asks: []string{asksRoots}, want: "roots of the server's connection is not set"},
		"a URL that is none":            {asks: []string{strings.Replace(asksURL, "https://", "file://", 1)}, want: "not a http or https URL"},
		"too much at once":              {asks: many(asksPerson, 17), want: "at most 16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &programs.AskingServer{Asks: tc.asks, Modern: true}
			c := tc.allowed
			c.URL = start(t, s).URL
			got, err := open(t, c).Call(soon(t, 20*time.Second), call("book", `{}`), Meta{})
			if err != nil || !got.Failed || !strings.Contains(got.Text, tc.want) {
				t.Errorf("got %+v, %v; want %q", got, err, tc.want)
			}
			if n := 0; got.Input != nil {
				if n = len(got.Input.Questions); n != tc.asked || got.Input.Questions[1].Sampling == nil || got.Input.Questions[2].Answer == nil {
					t.Errorf("the questions are %+v", got.Input.Questions)
				}
			}
			for _, capability := range []string{"sampling", "roots"} {
				if strings.Contains(s.Capabilities(), capability) != (tc.asked == 3) {
					t.Errorf("the server is told of %s", s.Capabilities())
				}
			}
		})
	}
}

func many(text string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = text
	}
	return out
}

// TestURLsRequired checks a server that refuses a call until the user has opened a URL.
func TestURLsRequired(t *testing.T) {
	for name, tc := range map[string]struct {
		data  string
		input bool
	}{
		"a URL":  {`{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/in","message":"Log in"}]}`, true},
		"a form": {`{"elicitations":[{"mode":"form","message":"?","requestedSchema":{"type":"object"}}]}`, false},
		"none":   {`{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &programs.AskingServer{URLs: tc.data, Refusals: 1}
			tools := open(t, Connection{URL: start(t, s).URL})
			got, err := tools.Call(soon(t, 20*time.Second), call("book", `{}`), Meta{})
			if err != nil || !got.Failed || !strings.Contains(got.Text, "log in first") || (got.Input != nil) != tc.input {
				t.Fatalf("got %+v, %v", got, err)
			}
			if tc.input && (!got.Input.RepeatCall || got.Input.Questions[0].URL != "https://example.com/in") {
				t.Errorf("asked is %+v", got.Input)
			}
			if text := must(t, tools, "book", `{}`); text != "booked" {
				t.Errorf("the call then gives %q", text)
			}
		})
	}
}
