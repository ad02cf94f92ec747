package tool

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
)

// A model whose server has lost the session hears of it, once; who had no part in the session does not.
func TestLossIsToldToTheModel(t *testing.T) {
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
		if text, isError := ask(caller); text != sessionLost(false) || !isError {
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

// A call that ended with its server, before it had an answer, has left nothing to build on: the next
// attempt is made, and nobody is told of a loss.
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
	for i, want := range []string{"", "ok", "", sessionLost(false), "ok"} {
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
	for i := range 3 * mostUsers {
		l.note(string(rune(i)), i)
	}
	if n := len(l.recent) + len(l.old); n > mostUsers {
		t.Errorf("%d are remembered", n)
	}
}
