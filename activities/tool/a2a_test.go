package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/tool/a2a"
	"weft/workflows/plan"
)

func TestConverse(t *testing.T) {
	response := ""
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, response) }))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	converse := func(address string) (*a2a.Answer, error) {
		return tools.Converse(withTimeout(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: address}, a2a.Turn{Text: "hi", Key: "k", Poll: time.Millisecond})
	}
	task := func(state, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":%q,"message":{"role":"agent","parts":[{"kind":"text","text":"because"}]}}%s}}`, state, more)
	}
	tests := map[string]struct{ response, want, class, text string }{
		"message":              {response: `{"result":{"kind":"message","contextId":"c","parts":[{"kind":"text","text":"hello"},{"kind":"data","data":{"n":1}},{"kind":"file","file":{"name":"f","uri":"http://h/f?key=1"}}]}}`, want: "hello\n{\"n\":1}\n[file f http://h/f]"},
		"artifacts":            {response: task("completed", `,"artifacts":[{"parts":[{"kind":"text","text":"one"}]},{"parts":[{"kind":"text","text":"two"}]}]`), want: "one\ntwo"},
		"input required":       {response: task("input-required", ""), want: "because"},
		"rejected task":        {response: task("rejected", ""), class: contract.ClassRefused, text: "it rejected the task: because"},
		"failed task":          {response: task("failed", ""), class: contract.ClassToolErrors, text: "its task failed: because"},
		"credentials required": {response: task("auth-required", ""), class: contract.ClassDenied, text: "it requires credentials"},
		"unknown state":        {response: task("dreaming", ""), class: contract.ClassBadRequest, text: `"dreaming"`},
		"invalid request":      {response: `{"error":{"code":-32602,"message":"no such skill"}}`, class: contract.ClassBadRequest, text: "error -32602 in response to message/send: no such skill"},
		"internal error":       {response: `{"error":{"code":-32603,"message":"oops"}}`, class: contract.ClassUnavailable, text: "oops"},
		"agent card":           {response: `{"name":"agent","url":"http://x"}`, class: contract.ClassConnection, text: "check agent_url"},
		"not JSON":             {response: `<html>`, class: contract.ClassConnection, text: "Agent2Agent"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			response = tc.response
			got, err := converse(web.URL)
			if tc.class != "" {
				wantFailure(t, err, tc.class, tc.text)
				return
			}
			if err != nil || got.Text != tc.want || got.Asks != (name == "input required") || !a2a.IsSession(got.Session, web.URL) || a2a.IsSession(got.Session, "http://other") {
				t.Errorf("got %+v, %v; want %q", got, err, tc.want)
			}
		})
	}
	_, err := converse("http://169.254.169.254/a2a")
	wantFailure(t, err, contract.ClassConnection, "the cloud's metadata address")
}

// TestMessageOutcome checks failures of sending a message and of polling its task: only sending may have an unknown outcome.
func TestMessageOutcome(t *testing.T) {
	reset := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	working := func(w http.ResponseWriter) {
		fmt.Fprint(w, `{"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}}`)
	}
	unlisted := func(w http.ResponseWriter) { fmt.Fprint(w, `{"error":{"code":-32601,"message":"no such method"}}`) }
	busy := func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }
	tests := map[string]struct {
		responses []func(http.ResponseWriter)
		task      string
		class     string
		unknown   bool
	}{
		"connection reset while sending":                 {responses: []func(http.ResponseWriter){reset, unlisted}, class: contract.ClassUnavailable, unknown: true},
		"rate limited while sending":                     {responses: []func(http.ResponseWriter){busy}, class: contract.ClassRateLimited},
		"connection reset while polling":                 {responses: []func(http.ResponseWriter){working, reset}, class: contract.ClassUnavailable},
		"connection reset while polling an earlier task": {responses: []func(http.ResponseWriter){reset}, task: "t", class: contract.ClassUnavailable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tc.responses[n.Add(1)-1](w) }))
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
			_, err := tools.Converse(withTimeout(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, a2a.Turn{Text: "hi", Key: "k", Task: tc.task, Poll: time.Millisecond})
			if f := wantFailure(t, err, tc.class); f.OutcomeUnknown != tc.unknown || int(n.Load()) != len(tc.responses) {
				t.Errorf("%d requests, outcome unknown = %v: %v", n.Load(), f.OutcomeUnknown, f)
			}
		})
	}
}

// remoteAgent is an A2A server that may die after it has accepted a message.
type remoteAgent struct {
	mu sync.Mutex
	// dies writes the truncated response to the first message; lists: the agent lists its tasks; forgets: it loses the first
	// message; down is the number of requests that fail after the first message.
	dies           func(http.ResponseWriter)
	lists, forgets bool
	down           int
	// sent holds the ids of received messages, tasks those with a task.
	sent, tasks []string
}

func (a *remoteAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Method string
		Params struct {
			ID, PageToken string
			Message       struct{ MessageID string }
		}
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.sent) > 0 && a.down > 0 {
		a.down--
		panic(http.ErrAbortHandler)
	}
	switch in.Method {
	case "message/send":
		if a.sent = append(a.sent, in.Params.Message.MessageID); !a.forgets || len(a.sent) > 1 {
			a.tasks = append(a.tasks, in.Params.Message.MessageID)
		}
		if a.dies != nil && len(a.sent) == 1 {
			a.dies(w)
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"result":{"kind":"task","id":"task of %s","status":{"state":"working"}}}`, in.Params.Message.MessageID)
	case "tasks/list":
		switch {
		case !a.lists:
			fmt.Fprint(w, `{"error":{"code":-32601,"message":"no such method"}}`)
		case in.Params.PageToken == "":
			fmt.Fprint(w, `{"result":{"tasks":[{"id":"other","history":[{"messageId":"other"}]}],"nextPageToken":"2"}}`)
		default:
			page := `{"result":{"tasks":[`
			for i, id := range a.tasks {
				page += strings.Repeat(",", min(i, 1)) + fmt.Sprintf(`{"id":"task of %[1]s","history":[{"messageId":"more"},{"messageId":%[1]q}]}`, id)
			}
			fmt.Fprint(w, page+`]}}`)
		}
	case "tasks/get":
		fmt.Fprintf(w, `{"result":{"kind":"task","id":%[1]q,"status":{"state":"completed"},"artifacts":[{"parts":[{"kind":"text","text":"answer of %[1]s"}]}]}}`, in.Params.ID)
	}
}

// TestMessageSentOnce checks that the task of a message is found after a failure: by the same attempt, by a later one, and by
// a retry that an operator requests.
func TestMessageSentOnce(t *testing.T) {
	cut := func(http.ResponseWriter) {}
	truncated := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"result":{"kind":"task","id":"ta`)
		_ = http.NewResponseController(w).Flush()
	}
	for name, tc := range map[string]struct {
		agent *remoteAgent
		turn  a2a.Turn
		// before is the id of the message that an earlier attempt has sent.
		before  string
		want    string
		unknown bool
		none    bool
		sent    int
	}{
		"answered":                                {agent: &remoteAgent{}, turn: a2a.Turn{Key: "k/model/1"}, want: "answer of task of k/model/1", sent: 1},
		"lost response, task listed":              {agent: &remoteAgent{dies: cut, lists: true}, turn: a2a.Turn{Key: "k/model/1"}, want: "answer of task of k/model/1", sent: 1},
		"truncated response, task listed":         {agent: &remoteAgent{dies: truncated, lists: true}, turn: a2a.Turn{Key: "k/model/1"}, want: "answer of task of k/model/1", sent: 1},
		"restart, task listed":                    {agent: &remoteAgent{dies: cut, lists: true, down: 3}, turn: a2a.Turn{Key: "k/model/1"}, want: "answer of task of k/model/1", sent: 1},
		"agent stays down":                        {agent: &remoteAgent{dies: cut, lists: true, down: 1000}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"task not listed":                         {agent: &remoteAgent{dies: cut, lists: true, forgets: true}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"truncated response, listing unsupported": {agent: &remoteAgent{dies: truncated}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"lost response, listing unsupported":      {agent: &remoteAgent{dies: cut}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"later attempt, task listed":              {agent: &remoteAgent{lists: true}, before: "k/model/1", turn: a2a.Turn{Key: "k/model/1", Lost: true}, want: "answer of task of k/model/1"},
		"later attempt, task not listed":          {agent: &remoteAgent{lists: true}, before: "k/model/2", turn: a2a.Turn{Key: "k/model/1", Lost: true}, none: true},
		"later attempt, listing unsupported":      {agent: &remoteAgent{}, before: "k/model/1", turn: a2a.Turn{Key: "k/model/1", Lost: true}, none: true},
		"operator's retry":                        {agent: &remoteAgent{lists: true}, before: "k/model/1", turn: a2a.Turn{Key: "k/model/1~2", Again: true}, want: "answer of task of k/model/1"},
		"operator's retry for a group member":     {agent: &remoteAgent{lists: true}, before: "a:b~1/model/1", turn: a2a.Turn{Key: "a:b~2/model/1~2", Again: true}, want: "answer of task of a:b~2/model/1~2", sent: 1},
		"operator's retry, task not listed":       {agent: &remoteAgent{lists: true}, turn: a2a.Turn{Key: "k/model/1~2", Again: true}, want: "answer of task of k/model/1~2", sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.before != "" {
				tc.agent.tasks = []string{tc.before}
			}
			web := start(t, tc.agent)
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
			tc.turn.Text, tc.turn.Poll = "hi", time.Millisecond
			got, err := tools.Converse(withTimeout(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, tc.turn)
			switch {
			case tc.none:
				if !errors.Is(err, a2a.ErrNoTask) {
					t.Errorf("got %+v, %v", got, err)
				}
			case tc.unknown:
				if f := wantFailure(t, err, contract.ClassUnavailable); !f.OutcomeUnknown {
					t.Errorf("failure without unknown outcome: %v", f)
				}
			case err != nil || got.Text != tc.want:
				t.Errorf("got %+v, %v", got, err)
			}
			if n := len(tc.agent.sent); n != tc.sent {
				t.Errorf("%d messages sent, want %d", n, tc.sent)
			}
		})
	}
}

// TestConverseInterrupted checks that a cancelled call cancels the task, and that one that times out leaves it to the next attempt.
func TestConverseInterrupted(t *testing.T) {
	methods := make(chan string, 1000)
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Method string }
		raw, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(raw, &in); err != nil {
			t.Error(err)
		}
		methods <- in.Method
		fmt.Fprint(w, `{"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}}`)
	}))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	for _, cancelled := range []bool{true, false} {
		ctx, cancel := context.WithCancel(context.Background())
		if !cancelled {
			ctx, cancel = context.WithTimeout(context.Background(), 2*time.Second)
		}
		started := make(chan string, 1000)
		done := make(chan error, 1)
		go func() {
			_, err := tools.Converse(ctx, plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, a2a.Turn{Key: "k", Poll: time.Millisecond, Started: func(task string) { started <- task }})
			done <- err
		}()
		if task := <-started; task != "t" {
			t.Errorf("task %q, want t", task)
		}
		if cancelled {
			cancel()
		}
		if err := <-done; err == nil || err != ctx.Err() {
			t.Errorf("cancelled = %v: error is %v", cancelled, err)
		}
		cancel()
		var all []string
		for len(methods) > 0 {
			all = append(all, <-methods)
		}
		if got := strings.Contains(strings.Join(all, " "), "tasks/cancel"); got != cancelled {
			t.Errorf("cancelled = %v: requests %v", cancelled, all)
		}
	}
}
