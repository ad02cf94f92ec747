package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v3"

	"weft/starter/plaintext"
	"weft/worker/build"
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
	a.say("starter: interrupted%s", plaintext.If(text != "", "; %s", text))
}

var harmless = []string{"output", "profile", "dialect", "limit", "max-steps", "model"}

// caught is deferred by every goroutine. After a panic it prints what to report and exits with code 70.
func (a *app) caught() {
	p := recover()
	if p == nil {
		return
	}
	stack := debug.Stack()
	a.say("starter: this is a defect of starter, not of your flow: %s", plaintext.Line(fmt.Sprint(p), 500))
	a.say("  version: %s", build.String())
	a.say("  system:  %s/%s, %s", runtime.GOOS, runtime.GOARCH, runtime.Version())
	a.say("  command: %s", a.harmlessCommand())
	if file := keepStack(stack); file != "" {
		a.say("  stack:   %s", file)
	} else {
		a.say("  stack:\n%s", stack)
	}
	a.say("  please report these lines, with the file of the stack; a started run continues")
	if a.quit != nil {
		a.quit(exitDefect)
	}
}

func keepStack(stack []byte) string {
	f, err := os.CreateTemp("", "weft-starter-*.txt")
	if err != nil {
		return ""
	}
	_, err = f.Write(stack)
	if closed := f.Close(); err != nil || closed != nil {
		os.Remove(f.Name())
		return ""
	}
	return f.Name()
}

func (a *app) harmlessCommand() string {
	kinds := map[string]bool{}
	for _, v := range (&flags{}).declare() {
		kinds[v.Names()[0]] = v.(cli.DocGenerationFlag).TakesValue()
	}
	words := []string{"starter"}
	for i := 0; i < len(a.args); i++ {
		name, value, joined := strings.Cut(strings.TrimLeft(a.args[i], "-"), "=")
		takes, known := kinds[name]
		switch {
		case !strings.HasPrefix(a.args[i], "-") || !known:
			words = append(words, plainWord(a.args[i]))
			continue
		case !takes:
			words = append(words, "-"+name)
			continue
		case !joined && i+1 < len(a.args):
			i++
			value = a.args[i]
		}
		if !slices.Contains(harmless, name) {
			value = "…"
		}
		words = append(words, "-"+name, plaintext.Line(value, 100))
	}
	return strings.Join(words, " ")
}

func plainWord(s string) string {
	for _, c := range commands() {
		if first, _, _ := strings.Cut(c.name, " "); first == s {
			return s
		}
	}
	return "…"
}
