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

// A model whose server has lost the session is informed once; models that did not use the session are not.
func TestLossIsReportedToTheModel(t *testing.T) {
	l := &legacy{}
	tools := open(t, Connection{URL: start(t, l).URL})
	ask := func(caller string) (string, bool) {
		t.Helper()
		text, isError, err := said(tools.Call(soon(t, time.Minute), call("x", `{}`), Meta{Caller: caller}))
		if err != nil {
			t.Fatal(err)
		}
		return text, isError
	}
	well := func(caller string) {
		t.Helper()
		if text, isError := ask(caller); text != "ok" || isError {
			t.Errorf("%s got %q, %v", caller, text, isError)
		}
	}
	told := func(caller string) {
		t.Helper()
		if text, isError := ask(caller); text != sessionLostText(false) || !isError {
			t.Errorf("%s got %q, %v", caller, text, isError)
		}
	}
	well("a")
	well("b")
	l.remove()
	told("a") // who finds out
	well("c") // who comes new
	told("b") // whose session went without it
	well("a")
	well("b")
	well("") // nobody to tell
	l.remove()
	well("")
	told("c")
	l.remove()
	text, _, err := said(tools.Call(soon(t, time.Minute), call("x", `{}`), Meta{Caller: "c", Repeated: true}))
	if err != nil || !strings.Contains(text, "an earlier attempt may have taken effect") || strings.Contains(text, "was not made.") {
		t.Errorf("a repeated call got %q, %v", text, err)
	}
	if sessions, calls := l.counts(); sessions != 4 || calls != 7 {
		t.Errorf("%d sessions and %d calls, want 4 and 7", sessions, calls)
	}
}

// A call whose server died before it answered has no state to lose: it is attempted again, and no
// loss is reported.
func TestNothingIsLostWithTheFirstCall(t *testing.T) {
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
		text, _, err := said(tools.Call(soon(t, time.Minute), call("x", `{}`), Meta{Caller: "a"}))
		if want == "" {
			fails(t, err, contract.ClassUnavailable)
			continue
		}
		if err != nil || text != want {
			t.Errorf("attempt %d: %q, %v; want %q", i+1, text, err, want)
		}
	}
}

func TestLossesForgetTheOldest(t *testing.T) {
	var l sessionLosses
	for i := range 3 * maxCallers {
		l.set(string(rune(i)), i)
	}
	if n := len(l.recent) + len(l.old); n > maxCallers {
		t.Errorf("%d are remembered", n)
	}
}

// TestSessionsContinue makes the calls of a run on several workers in turn.
func TestSessionsContinue(t *testing.T) {
	l := &legacy{many: true}
	web := start(t, l)
	worker := func() *Tools { return open(t, Connection{URL: web.URL}) }
	ask := func(tools *Tools, s SessionRef) (string, SessionRef) {
		t.Helper()
		out, err := tools.Call(soon(t, time.Minute), call("x", `{}`), Meta{Session: s})
		if err != nil {
			t.Fatal(err)
		}
		return out.Text, out.Session
	}
	first := worker()
	text, s := ask(first, SessionRef{})
	if text != "ok" || s.ID == "" {
		t.Fatalf("the first call gave %q and the session %+v", text, s)
	}
	first.Close()
	second := worker()
	if text, again := ask(second, s); text != "ok" || again != s {
		t.Errorf("another worker gave %q and the session %+v, want %+v", text, again, s)
	}
	if _, own := ask(second, SessionRef{}); own.ID == "" || own == s {
		t.Errorf("a call that goes on with none has the session %+v", own)
	}
	if text, again := ask(second, s); text != "ok" || again != s {
		t.Errorf("beside another session it gave %q and the session %+v, want %+v", text, again, s)
	}
	l.remove()
	text, fresh := ask(worker(), s)
	if text != sessionLostText(false) || fresh.ID == "" || fresh == s {
		t.Errorf("without the session it gave %q and the session %+v", text, fresh)
	}
	if text, again := ask(worker(), fresh); text != "ok" || again != fresh {
		t.Errorf("after the loss it gave %q and the session %+v, want %+v", text, again, fresh)
	}
}

// TestLostProcesses makes the calls of a run at a command of one worker, then of another.
func TestLostProcesses(t *testing.T) {
	var s SessionRef
	for i, want := range []bool{false, true, false} {
		tools := open(t, overStdio(t, "serve"))
		for range 2 {
			out, err := tools.Call(soon(t, time.Minute), call("x", `{}`), Meta{Session: s})
			if err != nil {
				t.Fatal(err)
			}
			if lost := out.Text == sessionLostText(false); lost != want || out.Session.ID == "" {
				t.Errorf("worker %d: the call says that its session is lost: %v, want %v; session %+v", i+1, lost, want, out.Session)
			}
			s, want = out.Session, false
		}
		if i == 1 {
			s = SessionRef{} // a run of its own
		}
	}
}

// TestHolds checks that sessions of commands and of SSE streams end with the worker.
func TestHolds(t *testing.T) {
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
