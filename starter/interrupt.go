package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stage is how far a command has come, on which the meaning of Ctrl-C depends.
type stage struct {
	mu sync.Mutex
	// text says what becomes of a run, "" if there is none.
	text string
	// listens, if set, asks a command to end that does so by itself.
	listens context.CancelFunc
}

func (a *app) setStage(text string) {
	a.stage.change(func(s *stage) { s.text = text })
}

func (s *stage) change(how func(*stage)) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		how(s)
	}
}

func (a *app) interruptible(ctx context.Context) (listened context.Context, stop func()) {
	if a.stage == nil {
		return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	}
	ctx, cancel := context.WithCancel(ctx)
	a.stage.change(func(s *stage) { s.listens = cancel })
	return ctx, func() {
		a.stage.change(func(s *stage) { s.listens = nil })
		cancel()
	}
}

// handleInterrupts ends the process at an interrupt, or at the second one while a command listens. Ignored signals stay ignored.
func (a *app) handleInterrupts() {
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
	var listens context.CancelFunc
	a.stage.change(func(s *stage) { listens, s.listens = s.listens, nil })
	if listens != nil {
		listens()
		return
	}
	a.sayInterrupted()
	a.quit(exitDetached)
}

func (a *app) sayInterrupted() {
	var text string
	a.stage.change(func(s *stage) { text = s.text })
	if text != "" {
		text = "; " + text
	}
	a.say("starter: interrupted%s", text)
}
