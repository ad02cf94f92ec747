package tool

import (
	"syscall"
	"testing"
	"time"
)

// A model whose server has lost the session hears of it, once; who had no part in the session does not.
func TestLossIsToldToTheModel(t *testing.T) {
	l := &legacy{}
	tools := open(t, Connection{URL: start(t, l).URL})
	ask := func(caller string) (string, bool) {
		t.Helper()
		text, isError, err := tools.Call(soon(t, time.Minute), call("x", `{}`), Meta{Caller: caller})
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

// A command that is started again has forgotten everything, too.
func TestLossOfACommand(t *testing.T) {
	tools := open(t, overStdio(t, "serve"))
	m := Meta{Caller: "a"}
	ask := func() bool {
		t.Helper()
		_, isError, err := tools.Call(soon(t, time.Minute), call("echo", `{}`), m)
		if err != nil {
			t.Fatal(err)
		}
		return isError
	}
	if ask() {
		t.Error("the first call is an error")
	}
	child, _ := spawn(t, tools)
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, child)
	// The worker may need a moment to see it; a call in between fails as unavailable.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text, isError, err := tools.Call(soon(t, time.Minute), call("echo", `{}`), m); err == nil {
			if !isError || text != lostText {
				t.Errorf("got %q, %v", text, isError)
			}
			break
		}
	}
	if ask() {
		t.Error("it is told twice")
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
