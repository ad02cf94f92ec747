package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"weft/starter/plaintext"
	"weft/worker/build"
)

// harmless are the flags whose values a report may show.
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

// plainWord is a command's name, or a placeholder for anything else.
func plainWord(s string) string {
	for _, c := range commands() {
		if first, _, _ := strings.Cut(c.name, " "); first == s {
			return s
		}
	}
	return "…"
}
