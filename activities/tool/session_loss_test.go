package tool

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestSessionLossReported checks that each model that used a lost session is informed once, and no other model.
func TestSessionLossReported(t *testing.T) {
	l := &legacy{}
	tools := open(t, Connection{URL: start(t, l).URL})
	send := func(caller string) (string, bool) {
		t.Helper()
		text, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{Caller: caller}))
		if err != nil {
			t.Fatal(err)
		}
		return text, isError
	}
	wantOK := func(caller string) {
		t.Helper()
		if text, isError := send(caller); text != "ok" || isError {
			t.Errorf("%s got %q, %v", caller, text, isError)
		}
	}
	wantLoss := func(caller string) {
		t.Helper()
		if text, isError := send(caller); text != sessionLostText(false) || !isError {
			t.Errorf("%s got %q, %v", caller, text, isError)
		}
	}
	wantOK("a")
	wantOK("b")
	l.remove()
	wantLoss("a") // its call detects the loss
	wantOK("c")   // had not used the session
	wantLoss("b")
	wantOK("a")
	wantOK("b")
	wantOK("") // no model to inform
	l.remove()
	wantOK("")
	wantLoss("c")
	l.remove()
	text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{Caller: "c", Repeated: true}))
	if err != nil || !strings.Contains(text, "an earlier attempt may have taken effect") || strings.Contains(text, "was not made.") {
		t.Errorf("repeated call: got %q, %v", text, err)
	}
	if sessions, calls := l.counts(); sessions != 4 || calls != 7 {
		t.Errorf("%d sessions and %d calls, want 4 and 7", sessions, calls)
	}
}

// TestNoLossOnFirstCall checks that no loss is reported if the server died during the first call of a session: there was no
// state to lose.
func TestNoLossOnFirstCall(t *testing.T) {
	l := &legacy{}
	l.onCall = func(w http.ResponseWriter, id json.RawMessage, n int) {
		switch n {
		case 1, 3:
			l.remove()
			panic(http.ErrAbortHandler)
		default:
			result(w, id, `{"content":[{"type":"text","text":"ok"}]}`)
		}
	}
	tools := open(t, Connection{URL: start(t, l).URL})
	for i, want := range []string{"", "ok", "", sessionLostText(false), "ok"} {
		text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{Caller: "a"}))
		if want == "" {
			wantFailure(t, err, contract.ClassUnavailable)
			continue
		}
		if err != nil || text != want {
			t.Errorf("attempt %d: %q, %v; want %q", i+1, text, err, want)
		}
	}
}

func TestSessionLossesBounded(t *testing.T) {
	var l sessionLosses
	for i := range 3 * maxCallers {
		l.set(string(rune(i)), i)
	}
	if n := len(l.recent) + len(l.old); n > maxCallers {
		t.Errorf("%d callers stored, want at most %d", n, maxCallers)
	}
}

// TestSessionAcrossWorkers checks calls of a run that execute on several workers in turn.
func TestSessionAcrossWorkers(t *testing.T) {
	l := &legacy{many: true}
	web := start(t, l)
	worker := func() *Tools { return open(t, Connection{URL: web.URL}) }
	send := func(tools *Tools, s SessionRef) (string, SessionRef) {
		t.Helper()
		out, err := tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{Session: s})
		if err != nil {
			t.Fatal(err)
		}
		return out.Text, out.Session
	}
	first := worker()
	text, s := send(first, SessionRef{})
	if text != "ok" || s.ID == "" {
		t.Fatalf("first call: got %q, session %+v", text, s)
	}
	first.Close()
	second := worker()
	if text, next := send(second, s); text != "ok" || next != s {
		t.Errorf("second worker: got %q, session %+v, want %+v", text, next, s)
	}
	if _, own := send(second, SessionRef{}); own.ID == "" || own == s {
		t.Errorf("call without a session: session %+v, want a new one", own)
	}
	if text, next := send(second, s); text != "ok" || next != s {
		t.Errorf("after a call in another session: got %q, session %+v, want %+v", text, next, s)
	}
	l.remove()
	text, fresh := send(worker(), s)
	if text != sessionLostText(false) || fresh.ID == "" || fresh == s {
		t.Errorf("lost session: got %q, session %+v", text, fresh)
	}
	if text, next := send(worker(), fresh); text != "ok" || next != fresh {
		t.Errorf("after the loss: got %q, session %+v, want %+v", text, next, fresh)
	}
}

// TestProcessOfAnotherWorker checks calls of a run whose server is a command: a session of one worker is lost on another.
func TestProcessOfAnotherWorker(t *testing.T) {
	var s SessionRef
	for i, want := range []bool{false, true, false} {
		tools := open(t, overStdio(t, "serve"))
		for range 2 {
			out, err := tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{Session: s})
			if err != nil {
				t.Fatal(err)
			}
			if lost := out.Text == sessionLostText(false); lost != want || out.Session.ID == "" {
				t.Errorf("worker %d: loss reported = %v, want %v; session %+v", i+1, lost, want, out.Session)
			}
			s, want = out.Session, false
		}
		if i == 1 {
			s = SessionRef{} // another run
		}
	}
}

// TestOwnsSessions checks that a worker owns the sessions of commands and SSE streams, which end with it.
func TestOwnsSessions(t *testing.T) {
	tools, err := Open(Settings{Connections: map[string]Connection{"http": {URL: "https://a.example/mcp"}, "sse": {URL: "https://a.example/sse", Transport: TransportSSE},
		"command": {Transport: TransportStdio, Command: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	for id, want := range map[string]bool{"http": false, "sse": true, "command": true, "none": false} {
		if got := tools.OwnsSessions(plan.Connection{ID: id, Kind: plan.ConnectionMCP}); got != want {
			t.Errorf("%s: %t, want %t", id, got, want)
		}
	}
}
