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
	answer := ""
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	ask := func(address string) (*a2a.Answer, error) {
		return tools.Converse(soon(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: address}, a2a.Turn{Text: "hi", Key: "k", Poll: time.Millisecond})
	}
	task := func(state, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":%q,"message":{"role":"agent","parts":[{"kind":"text","text":"because"}]}}%s}}`, state, more)
	}
	tests := map[string]struct{ answer, said, class, wrong string }{
		"a message":             {answer: `{"result":{"kind":"message","contextId":"c","parts":[{"kind":"text","text":"hello"},{"kind":"data","data":{"n":1}},{"kind":"file","file":{"name":"f","uri":"http://h/f?key=1"}}]}}`, said: "hello\n{\"n\":1}\n[file f http://h/f]"},
		"artifacts":             {answer: task("completed", `,"artifacts":[{"parts":[{"kind":"text","text":"one"}]},{"parts":[{"kind":"text","text":"two"}]}]`), said: "one\ntwo"},
		"a question":            {answer: task("input-required", ""), said: "because"},
		"a refusal":             {answer: task("rejected", ""), class: contract.ClassRefused, wrong: "it rejected the task: because"},
		"a failure":             {answer: task("failed", ""), class: contract.ClassToolErrors, wrong: "its task failed: because"},
		"credentials":           {answer: task("auth-required", ""), class: contract.ClassDenied, wrong: "it requires credentials"},
		"a state of nobody's":   {answer: task("dreaming", ""), class: contract.ClassBadRequest, wrong: `"dreaming"`},
		"an error":              {answer: `{"error":{"code":-32602,"message":"no such skill"}}`, class: contract.ClassBadRequest, wrong: "error -32602 in response to message/send: no such skill"},
		"an error of the agent": {answer: `{"error":{"code":-32603,"message":"oops"}}`, class: contract.ClassUnavailable, wrong: "oops"},
		"a card":                {answer: `{"name":"agent","url":"http://x"}`, class: contract.ClassConnection, wrong: "check agent_url"},
		"no JSON":               {answer: `<html>`, class: contract.ClassConnection, wrong: "Agent2Agent"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			answer = tc.answer
			said, err := ask(web.URL)
			if tc.class != "" {
				fails(t, err, tc.class, tc.wrong)
				return
			}
			if err != nil || said.Text != tc.said || said.Asks != (name == "a question") || !a2a.IsSession(said.Session, web.URL) || a2a.IsSession(said.Session, "http://other") {
				t.Errorf("%+v, %v", said, err)
			}
		})
	}
	_, err := ask("http://169.254.169.254/a2a")
	fails(t, err, contract.ClassConnection, "the cloud's metadata address")
}

// TestMessageOutcome checks failures of sending a message and of polling its task: only sending may have an unknown outcome.
func TestMessageOutcome(t *testing.T) {
	reset := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	works := func(w http.ResponseWriter) {
		fmt.Fprint(w, `{"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}}`)
	}
	unlisted := func(w http.ResponseWriter) { fmt.Fprint(w, `{"error":{"code":-32601,"message":"no such method"}}`) }
	busy := func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }
	tests := map[string]struct {
		answers []func(http.ResponseWriter)
		task    string
		class   string
		unknown bool
	}{
		"at the message":         {answers: []func(http.ResponseWriter){reset, unlisted}, class: contract.ClassUnavailable, unknown: true},
		"the message is refused": {answers: []func(http.ResponseWriter){busy}, class: contract.ClassRateLimited},
		"at the task":            {answers: []func(http.ResponseWriter){works, reset}, class: contract.ClassUnavailable},
		"at an earlier task":     {answers: []func(http.ResponseWriter){reset}, task: "t", class: contract.ClassUnavailable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tc.answers[n.Add(1)-1](w) }))
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
			_, err := tools.Converse(soon(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, a2a.Turn{Text: "hi", Key: "k", Task: tc.task, Poll: time.Millisecond})
			if f := fails(t, err, tc.class); f.OutcomeUnknown != tc.unknown || int(n.Load()) != len(tc.answers) {
				t.Errorf("%d requests, unknown %v: %v", n.Load(), f.OutcomeUnknown, f)
			}
		})
	}
}

// remoteAgent is an A2A server that may die after it has accepted a message.
type remoteAgent struct {
	mu sync.Mutex
	// dies is how the answer of the first message is cut; lists: it lists its tasks; forgets: it has not taken the message;
	// down is for how many requests it is not there then.
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

// TestMessagesAreSentOnce checks that the task of a message is found after the agent died: by the same attempt, by a later one,
// and by a retry that an operator requests.
func TestMessagesAreSentOnce(t *testing.T) {
	cut := func(http.ResponseWriter) {}
	half := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"result":{"kind":"task","id":"ta`)
		_ = http.NewResponseController(w).Flush()
	}
	for name, tc := range map[string]struct {
		agent *remoteAgent
		turn  a2a.Turn
		// before is what an earlier attempt has sent.
		before  string
		said    string
		unknown bool
		none    bool
		sent    int
	}{
		"it answers":                           {agent: &remoteAgent{}, turn: a2a.Turn{Key: "k/model/1"}, said: "answer of task of k/model/1", sent: 1},
		"it dies, and knows the task":          {agent: &remoteAgent{dies: cut, lists: true}, turn: a2a.Turn{Key: "k/model/1"}, said: "answer of task of k/model/1", sent: 1},
		"its answer is cut":                    {agent: &remoteAgent{dies: half, lists: true}, turn: a2a.Turn{Key: "k/model/1"}, said: "answer of task of k/model/1", sent: 1},
		"it starts again, and knows the task":  {agent: &remoteAgent{dies: cut, lists: true, down: 3}, turn: a2a.Turn{Key: "k/model/1"}, said: "answer of task of k/model/1", sent: 1},
		"it does not come back":                {agent: &remoteAgent{dies: cut, lists: true, down: 1000}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"it has forgotten the message":         {agent: &remoteAgent{dies: cut, lists: true, forgets: true}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"its answer is cut, and no tasks":      {agent: &remoteAgent{dies: half}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"it does not list tasks":               {agent: &remoteAgent{dies: cut}, turn: a2a.Turn{Key: "k/model/1"}, unknown: true, sent: 1},
		"a later attempt":                      {agent: &remoteAgent{lists: true}, before: "k/model/1", turn: a2a.Turn{Key: "k/model/1", Lost: true}, said: "answer of task of k/model/1"},
		"a later attempt, nothing known":       {agent: &remoteAgent{lists: true}, before: "k/model/2", turn: a2a.Turn{Key: "k/model/1", Lost: true}, none: true},
		"a later attempt, no list":             {agent: &remoteAgent{}, before: "k/model/1", turn: a2a.Turn{Key: "k/model/1", Lost: true}, none: true},
		"an operator's retry":                  {agent: &remoteAgent{lists: true}, before: "k/model/1", turn: a2a.Turn{Key: "k/model/1~2", Again: true}, said: "answer of task of k/model/1"},
		"an operator's retry of a member's":    {agent: &remoteAgent{lists: true}, before: "a:b~1/model/1", turn: a2a.Turn{Key: "a:b~2/model/1~2", Again: true}, said: "answer of task of a:b~2/model/1~2", sent: 1},
		"an operator's retry of what was lost": {agent: &remoteAgent{lists: true}, turn: a2a.Turn{Key: "k/model/1~2", Again: true}, said: "answer of task of k/model/1~2", sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.before != "" {
				tc.agent.tasks = []string{tc.before}
			}
			web := start(t, tc.agent)
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
			tc.turn.Text, tc.turn.Poll = "hi", time.Millisecond
			got, err := tools.Converse(soon(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, tc.turn)
			switch {
			case tc.none:
				if !errors.Is(err, a2a.ErrNoTask) {
					t.Errorf("%+v, %v", got, err)
				}
			case tc.unknown:
				if f := fails(t, err, contract.ClassUnavailable); !f.OutcomeUnknown {
					t.Errorf("the outcome is known: %v", f)
				}
			case err != nil || got.Text != tc.said:
				t.Errorf("%+v, %v", got, err)
			}
			if n := len(tc.agent.sent); n != tc.sent {
				t.Errorf("%d messages were sent, want %d", n, tc.sent)
			}
		})
	}
}

// A cancelled call cancels the task; a call that times out leaves it to the next attempt.
func TestConverseGivesUp(t *testing.T) {
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
		began := make(chan string, 1000)
		done := make(chan error, 1)
		go func() {
			_, err := tools.Converse(ctx, plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, a2a.Turn{Key: "k", Poll: time.Millisecond, Started: func(task string) { began <- task }})
			done <- err
		}()
		if task := <-began; task != "t" {
			t.Errorf("the task %q", task)
		}
		if cancelled {
			cancel()
		}
		if err := <-done; err == nil || err != ctx.Err() {
			t.Errorf("cancelled %v: %v", cancelled, err)
		}
		cancel()
		var all []string
		for len(methods) > 0 {
			all = append(all, <-methods)
		}
		if got := strings.Contains(strings.Join(all, " "), "tasks/cancel"); got != cancelled {
			t.Errorf("cancelled %v: asked %v", cancelled, all)
		}
	}
}
