package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stage is how far a command has come: what Ctrl-C means to a run depends on that. The zero
// value is that of a command that leaves nothing behind.
type stage struct {
	mu sync.Mutex
	// text says what becomes of a run; "" where there is none.
	text string
	// listening says that the command ends by itself when it is asked to.
	listening bool
}

// reached notes what an interrupt means from here on.
func (a *app) reached(text string) {
	a.stage.change(func(s *stage) { s.text = text })
}

// change changes a stage, if there is one.
func (s *stage) change(how func(*stage)) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		how(s)
	}
}

// listening gives a context that an interrupt ends: the command says itself then what that
// means. stop ends that.
func (a *app) listening(ctx context.Context) (listened context.Context, stop func()) {
	ctx, quiet := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	a.stage.change(func(s *stage) { s.listening = true })
	return ctx, func() {
		a.stage.change(func(s *stage) { s.listening = false })
		quiet()
	}
}

// heedInterrupts ends the process at an interrupt, with what that means to a run; a command
// that listens has until the second one to end by itself. What the starter of the process
// wants ignored, as a shell does for what runs in the background, is ignored.
func (a *app) heedInterrupts() {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		defer a.caught()
		for range signals {
			a.interrupted()
		}
	}()
}

func (a *app) interrupted() {
	var text string
	var listening bool
	a.stage.change(func(s *stage) { text, listening, s.listening = s.text, s.listening, false })
	if listening {
		return
	}
	if text != "" {
		text = "; " + text
	}
	a.say("starter: interrupted%s", text)
	a.quit(exitDetached)
}
