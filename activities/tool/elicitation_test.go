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

// Requests that servers send to their client.
const (
	elicitForm      = `{"method":"elicitation/create","params":{"message":"For how many?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}}`
	elicitURL       = `{"method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"https://example.com/in","elicitationId":"e1"}}`
	requestSampling = `{"method":"sampling/createMessage","params":{"systemPrompt":"Be brief.","messages":[{"role":"user","content":{"type":"text","text":"How many?"}}],"maxTokens":9000}}`
	requestRoots    = `{"method":"roots/list"}`
	urlCompleted    = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`
)

// TestServerRequestsDuringCall checks requests of servers during a call, over every transport. Those that are not allowed are refused
// at once, so that the call continues, and their capability is not announced.
func TestServerRequestsDuringCall(t *testing.T) {
	for name, tc := range map[string]struct {
		requests     []string
		allowed      Connection
		notification string
		// answers responds to requests; if nil, they are not supported.
		answers func(ctx context.Context, q contract.ToolQuestion) (*contract.ServerAnswer, error)
		want    string
		// announced holds the client's capabilities.
		announced string
	}{
		"elicitation without a user": {requests: []string{elicitForm}, want: `"code":-32600`},
		"elicitation": {requests: []string{elicitForm, elicitForm}, answers: answerWith(`{"action":"decline"}`), want: `{"action":"decline"}` + "\n" + `{"action":"decline"}`,
			announced: `{"elicitation":{"form":{},"url":{}}}`},
		"URL completed by the server": {requests: []string{elicitURL}, notification: urlCompleted, want: `{"action":"accept"}`,
			answers: func(ctx context.Context, _ contract.ToolQuestion) (*contract.ServerAnswer, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
		"sampling not allowed": {requests: []string{requestSampling}, answers: answerWith(`{}`), want: "sampling_tokens"},
		"sampling":             {requests: []string{requestSampling}, allowed: Connection{SamplingTokens: 100}, answers: answerSampling, want: `{"system":"Be brief.","messages":[{"role":"user","text":"How many?"}],"max_tokens":100}`, announced: `{"elicitation":{"form":{},"url":{}},"sampling":{}}`},
		"sampling timeout":     {requests: []string{requestSampling}, allowed: Connection{SamplingTokens: 100, Elicitation: time.Second}, answers: neverAnswer, want: "did not answer in time"},
		"sampling with tools": {requests: []string{strings.Replace(requestSampling, `"maxTokens"`, `"tools":[{"name":"x"}],"maxTokens"`, 1)}, allowed: Connection{SamplingTokens: 100},
			answers: answerSampling, want: "tools are not supported"},
		"roots not allowed": {requests: []string{requestRoots}, want: `"code":-32601`},
		"roots": {requests: []string{requestRoots}, allowed: Connection{Roots: []string{"file:///srv/a", "b=file:///srv/b"}}, want: `{"roots":[{"uri":"file:///srv/a"},{"uri":"file:///srv/b","name":"b"}]}`,
			announced: `{"elicitation":{"form":{},"url":{}},"roots":{}}`},
		"unknown method": {requests: []string{`{"method":"weather/get"}`}, want: `"code":-32601`},
	} {
		for _, transport := range []string{"http", "session", "sse", "stdio"} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				t.Parallel()
				s := &programs.RequestingServer{Requests: tc.requests, InSession: transport == "session", Note: tc.notification}
				c := tc.allowed
				switch transport {
				case "stdio":
					config, _ := json.Marshal(s) // cannot fail
					c.Command, c.Env = os.Args[0], map[string]string{helperMode: "asks", "ASKS": string(config)}
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
				got, err := open(t, c).Call(withTimeout(t, 20*time.Second), call("book", `{}`), m)
				if err != nil || !strings.Contains(got.Text, tc.want) {
					t.Errorf("response to the server: %q, %v; want %q", got.Text, err, tc.want)
				}
				if transport != "stdio" && tc.announced != "" && s.Capabilities() != tc.announced {
					t.Errorf("announced capabilities: %s", s.Capabilities())
				}
			})
		}
	}
}

func answerWith(result string) func(context.Context, contract.ToolQuestion) (*contract.ServerAnswer, error) {
	return func(context.Context, contract.ToolQuestion) (*contract.ServerAnswer, error) {
		return &contract.ServerAnswer{Result: json.RawMessage(result)}, nil
	}
}

func answerSampling(_ context.Context, q contract.ToolQuestion) (*contract.ServerAnswer, error) {
	raw, err := json.Marshal(q.Sampling)
	return &contract.ServerAnswer{Result: raw}, err
}

func neverAnswer(ctx context.Context, _ contract.ToolQuestion) (*contract.ServerAnswer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestServerRequiresInput checks servers of protocol 2026-07-28 that require input before they answer.
func TestServerRequiresInput(t *testing.T) {
	for name, tc := range map[string]struct {
		requests  []string
		allowed   Connection
		want      string
		questions int
	}{
		"all":                  {requests: []string{elicitForm, requestSampling, requestRoots}, allowed: Connection{SamplingTokens: 100, Roots: []string{"file:///srv/a"}}, want: "requires more input from its caller", questions: 3},
		"sampling not allowed": {requests: []string{elicitForm, requestSampling}, want: "sampling_tokens"},
		"roots not configured": {requests: []string{requestRoots}, want: "roots of the server's connection is not set"},
		"invalid URL":          {requests: []string{strings.Replace(elicitURL, "https://", "file://", 1)}, want: "not a http or https URL"},
		"too many requests":    {requests: repeat(elicitForm, 17), want: "at most 16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &programs.RequestingServer{Requests: tc.requests, Modern: true}
			c := tc.allowed
			c.URL = start(t, s).URL
			got, err := open(t, c).Call(withTimeout(t, 20*time.Second), call("book", `{}`), Meta{})
			if err != nil || !got.Failed || !strings.Contains(got.Text, tc.want) {
				t.Errorf("got %+v, %v; want %q", got, err, tc.want)
			}
			if n := 0; got.Input != nil {
				if n = len(got.Input.Questions); n != tc.questions || got.Input.Questions[1].Sampling == nil || got.Input.Questions[2].Answer == nil {
					t.Errorf("questions are %+v", got.Input.Questions)
				}
			}
			for _, capability := range []string{"sampling", "roots"} {
				if strings.Contains(s.Capabilities(), capability) != (tc.questions == 3) {
					t.Errorf("announced capabilities: %s", s.Capabilities())
				}
			}
		})
	}
}

func repeat(text string, n int) []string {
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
		"URL":  {`{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/in","message":"Log in"}]}`, true},
		"form": {`{"elicitations":[{"mode":"form","message":"?","requestedSchema":{"type":"object"}}]}`, false},
		"none": {`{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &programs.RequestingServer{URLs: tc.data, Refusals: 1}
			tools := open(t, Connection{URL: start(t, s).URL})
			got, err := tools.Call(withTimeout(t, 20*time.Second), call("book", `{}`), Meta{})
			if err != nil || !got.Failed || !strings.Contains(got.Text, "log in first") || (got.Input != nil) != tc.input {
				t.Fatalf("got %+v, %v", got, err)
			}
			if tc.input && (!got.Input.RepeatCall || got.Input.Questions[0].URL != "https://example.com/in") {
				t.Errorf("requested input is %+v", got.Input)
			}
			if text := mustCall(t, tools, "book", `{}`); text != "booked" {
				t.Errorf("after the URL was opened: got %q, want booked", text)
			}
		})
	}
}
