package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/transcript"
)

// transcriptLine is one message as -output jsonl prints it; N counts from 0.
type transcriptLine struct {
	Thread  string            `json:"thread"`
	N       int               `json:"n"`
	Message *contract.Message `json:"message"`
}

// transcript prints the conversations of a run, of its branches and sub-agents. It reads
// histories only, so it is the same with and without a worker, before and after the end.
func (a *app) transcript(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	read, err := transcript.Read(ctx, history.From(temporal.Client), args[0], about.run)
	if err != nil {
		return err
	}
	threads := read.Threads()
	if len(args) > 1 {
		var names []string
		for _, t := range threads {
			names = append(names, t.Thread)
		}
		i := slices.Index(names, args[1])
		if i < 0 {
			return bad("the run %q has no thread %q; it has: %s", args[0], args[1], plaintext.Line(strings.Join(names, ", "), 2000))
		}
		threads = threads[i : i+1]
	}
	for _, id := range read.Missing {
		a.say("warning: the history of %s is gone; what it held is not shown", plaintext.Line(id, 200))
	}
	a.show(threads)
	return nil
}

func (a *app) show(threads []transcript.Thread) {
	switch a.flags.output {
	case outputJSON:
		a.object(map[string]any{"threads": threads})
		return
	case outputLines:
		for _, t := range threads {
			for n, m := range t.Messages {
				a.object(transcriptLine{t.Thread, n, m})
			}
		}
		return
	}
	fmt.Fprint(a.stdout, transcript.Text(threads))
}
