package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"weft/activities/contract"
)

// transcribed is a thread as -output json prints it. In a message the texts are in place
// that the stored one refers to; a message that history does not hold is null.
type transcribed struct {
	Thread   string              `json:"thread"`
	Messages []*contract.Message `json:"messages"`
	// Switched are the models that could not give an answer, before another did.
	Switched []transcribedSwitch `json:"switched,omitempty"`
}

// transcribedSwitch says which message another model was asked for first, by its number.
type transcribedSwitch struct {
	N int `json:"n"`
	contract.Switch
}

// transcribedLine is one message as -output jsonl prints it; N counts from 0.
type transcribedLine struct {
	Thread  string            `json:"thread"`
	N       int               `json:"n"`
	Message *contract.Message `json:"message"`
}

// transcript prints the conversations of a run, of its branches and sub-agents. It reads
// history alone, so it is the same with and without a worker, before and after the end.
func (a *app) transcript(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	kept, err := readArchive(ctx, temporal.Client, args[0], about.run)
	if err != nil {
		return err
	}
	threads := kept.transcripts()
	if len(args) > 1 {
		var names []string
		for _, t := range threads {
			names = append(names, t.Thread)
		}
		i := slices.Index(names, args[1])
		if i < 0 {
			return bad("the run %q has no thread %q; it has: %s", args[0], args[1], clean(strings.Join(names, ", "), 2000))
		}
		threads = threads[i : i+1]
	}
	for _, id := range kept.gone {
		a.say("warning: the history of %s is gone; what it held is not shown", clean(id, 200))
	}
	a.show(threads)
	return nil
}

func (a *archive) transcripts() []transcribed {
	out := []transcribed{}
	for _, t := range a.threads {
		x := transcribed{Thread: t.name, Messages: []*contract.Message{}}
		for _, sha := range t.all() {
			for _, s := range a.switched[sha] {
				x.Switched = append(x.Switched, transcribedSwitch{len(x.Messages), s})
			}
			x.Messages = append(x.Messages, a.message(sha))
		}
		out = append(out, x)
	}
	return out
}

func (a *app) show(threads []transcribed) {
	switch a.flags.output {
	case outputJSON:
		a.object(map[string]any{"threads": threads})
		return
	case outputLines:
		for _, t := range threads {
			for n, m := range t.Messages {
				a.object(transcribedLine{t.Thread, n, m})
			}
		}
		return
	}
	for i, t := range threads {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		fmt.Fprintf(a.stdout, "== %s\n", clean(t.Thread, 200))
		for n, m := range t.Messages {
			for _, s := range t.Switched {
				if s.N == n {
					fmt.Fprintf(a.stdout, "(switched from %s to %s: %s: %s)\n", clean(s.Model, 100), clean(s.To, 100), clean(s.Class, 40), clean(s.Text, 300))
				}
			}
			fmt.Fprint(a.stdout, spoken(m))
		}
	}
}

// spoken shows a message: who, then the text, indented.
func spoken(m *contract.Message) string {
	if m == nil {
		return "?\n  (a message that is not in the history, or that cannot be read here)\n"
	}
	var b strings.Builder
	b.WriteString(clean(m.Role, 20))
	if m.Name != "" {
		b.WriteString(" " + clean(m.Name, 64))
	}
	if m.Error {
		b.WriteString(", error")
	}
	b.WriteByte('\n')
	if m.Text != "" {
		for _, line := range strings.Split(strings.TrimRight(printable(m.Text), "\n"), "\n") {
			b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
		}
	}
	for _, c := range m.Calls {
		fmt.Fprintf(&b, "  → %s %s\n", clean(c.Name, 64), printable(strings.ReplaceAll(c.Arguments, "\n", " ")))
	}
	return b.String()
}

// printable drops what could move the cursor and keeps lines and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
