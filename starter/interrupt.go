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

// stage is the progress of a command, which determines the effect of Ctrl-C.
type stage struct {
	mu sync.Mutex
	// text describes what happens to the run, "" if there is none.
	text string
	// cancel, if set, cancels a command that ends by itself then.
	cancel context.CancelFunc
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

func (a *app) interruptible(ctx context.Context) (cancellable context.Context, stop func()) {
	if a.stage == nil {
		return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	}
	ctx, cancel := context.WithCancel(ctx)
	a.stage.change(func(s *stage) { s.cancel = cancel })
	return ctx, func() {
		a.stage.change(func(s *stage) { s.cancel = nil })
		cancel()
	}
}

// handleInterrupts exits the process at an interrupt, or at the second one if the first cancels the command. Ignored signals remain ignored.
func (a *app) handleInterrupts() {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		defer a.handlePanic()
		for range signals {
			a.interrupted()
		}
	}()
}

func (a *app) interrupted() {
	var cancel context.CancelFunc
	a.stage.change(func(s *stage) { cancel, s.cancel = s.cancel, nil })
	if cancel != nil {
		cancel()
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

// reportedFlags are the flags whose values panic reports contain.
var reportedFlags = []string{"output", "profile", "dialect", "limit", "max-steps", "model"}

// handlePanic is deferred by every goroutine. After a panic it prints a report and exits with code 70.
func (a *app) handlePanic() {
	p := recover()
	if p == nil {
		return
	}
	stack := debug.Stack()
	a.say("starter: internal error of starter, not of your flow: %s", plaintext.Line(fmt.Sprint(p), 500))
	a.say("  version: %s", build.String())
	a.say("  system:  %s/%s, %s", runtime.GOOS, runtime.GOARCH, runtime.Version())
	a.say("  command: %s", a.redactedCommand())
	if file := writeStack(stack); file != "" {
		a.say("  stack:   %s", file)
	} else {
		a.say("  stack:\n%s", stack)
	}
	a.say("  please report these lines, with the stack; a run that was started continues")
	if a.quit != nil {
		a.quit(exitDefect)
	}
}

func writeStack(stack []byte) string {
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

// redactedCommand returns the command line without the values that may be confidential.
func (a *app) redactedCommand() string {
	kinds := map[string]bool{}
	for _, v := range (&flags{}).declare() {
		kinds[v.Names()[0]] = v.(cli.DocGenerationFlag).TakesValue()
	}
	words := []string{"starter"}
	for i := 0; i < len(a.args); i++ {
		name, value, joined := strings.Cut(strings.TrimLeft(a.args[i], "-"), "=")
		takesValue, isFlag := kinds[name]
		switch {
		case !strings.HasPrefix(a.args[i], "-") || !isFlag:
			words = append(words, redactedArgument(a.args[i]))
			continue
		case !takesValue:
			words = append(words, "-"+name)
			continue
		case !joined && i+1 < len(a.args):
			i++
			value = a.args[i]
		}
		if !slices.Contains(reportedFlags, name) {
			value = "…"
		}
		words = append(words, "-"+name, plaintext.Line(value, 100))
	}
	return strings.Join(words, " ")
}

func redactedArgument(s string) string {
	for _, c := range commands() {
		if first, _, _ := strings.Cut(c.name, " "); first == s {
			return s
		}
	}
	return "…"
}
