package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

func TestConverse(t *testing.T) {
	answer := ""
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	ask := func(address string) (*Answer, error) {
		return tools.Converse(soon(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: address}, Turn{Text: "hi", Key: "k"})
	}
	task := func(state, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":%q,"message":{"role":"agent","parts":[{"kind":"text","text":"because"}]}}%s}}`, state, more)
	}
	tests := map[string]struct{ answer, said, class, wrong string }{
		"a message":             {answer: `{"result":{"kind":"message","contextId":"c","parts":[{"kind":"text","text":"hello"},{"kind":"data","data":{"n":1}},{"kind":"file","file":{"name":"f","uri":"http://h/f?key=1"}}]}}`, said: "hello\n{\"n\":1}\n[file f http://h/f]"},
		"artifacts":             {answer: task("completed", `,"artifacts":[{"parts":[{"kind":"text","text":"one"}]},{"parts":[{"kind":"text","text":"two"}]}]`), said: "one\ntwo"},
		"a question":            {answer: task("input-required", ""), said: "because"},
		"a refusal":             {answer: task("rejected", ""), class: contract.ClassRefused, wrong: "it refuses: because"},
		"a failure":             {answer: task("failed", ""), class: contract.ClassToolErrors, wrong: "its task failed: because"},
		"credentials":           {answer: task("auth-required", ""), class: contract.ClassDenied, wrong: "it requires credentials"},
		"a state of nobody's":   {answer: task("dreaming", ""), class: contract.ClassBadRequest, wrong: `"dreaming"`},
		"an error":              {answer: `{"error":{"code":-32602,"message":"no such skill"}}`, class: contract.ClassBadRequest, wrong: "error -32602 to message/send: no such skill"},
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
			if err != nil || said.Text != tc.said || said.Asks != (name == "a question") || !Spoke(said.Session, web.URL) || Spoke(said.Session, "http://other") {
				t.Errorf("%+v, %v", said, err)
			}
		})
	}
	_, err := ask("http://169.254.169.254/a2a")
	fails(t, err, contract.ClassConnection, "the cloud's metadata address")
}

// TestMessageOutcome fails at a message, and at looking at its task: only the message may have an unknown outcome.
func TestMessageOutcome(t *testing.T) {
	reset := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	works := func(w http.ResponseWriter) {
		fmt.Fprint(w, `{"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}}`)
	}
	busy := func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }
	tests := map[string]struct {
		answers []func(http.ResponseWriter)
		task    string
		class   string
		unknown bool
	}{
		"at the message":         {answers: []func(http.ResponseWriter){reset}, class: contract.ClassUnavailable, unknown: true},
		"the message is refused": {answers: []func(http.ResponseWriter){busy}, class: contract.ClassRateLimited},
		"at the task":            {answers: []func(http.ResponseWriter){works, reset}, class: contract.ClassUnavailable},
		"at an earlier task":     {answers: []func(http.ResponseWriter){reset}, task: "t", class: contract.ClassUnavailable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tc.answers[n.Add(1)-1](w) }))
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
			_, err := tools.Converse(soon(t, time.Minute), plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, Turn{Text: "hi", Key: "k", Task: tc.task, Poll: time.Millisecond})
			if f := fails(t, err, tc.class); f.OutcomeUnknown != tc.unknown || int(n.Load()) != len(tc.answers) {
				t.Errorf("%d requests, unknown %v: %v", n.Load(), f.OutcomeUnknown, f)
			}
		})
	}
}

// A call that is cancelled cancels the task; one whose time is over leaves it to the next.
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
			_, err := tools.Converse(ctx, plan.Connection{ID: "a", Kind: plan.ConnectionA2A, URL: web.URL}, Turn{Key: "k", Poll: time.Millisecond, Started: func(task string) { began <- task }})
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
