package tool

import (
	"testing"
	"time"
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
		if text, isError := ask(caller); text != lostText || !isError {
			t.Errorf("%s got %q, %v", caller, text, isError)
		}
	}
	well("a")
	well("b")
	l.forget()
	told("a") // who finds out
	well("c") // who comes new
	told("b") // whose session went without it
	well("a")
	well("b")
	well("") // nobody to tell
	l.forget()
	well("")
	told("c")
	if sessions, calls := l.counts(); sessions != 3 || calls != 7 {
		t.Errorf("%d sessions and %d calls, want 3 and 7", sessions, calls)
	}
}

func TestLossesForgetTheOldest(t *testing.T) {
	var l losses
	for i := range 3 * mostUsers {
		l.note(string(rune(i)), i)
	}
	if n := len(l.recent) + len(l.old); n > mostUsers {
		t.Errorf("%d are remembered", n)
	}
}
