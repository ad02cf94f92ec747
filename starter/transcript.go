package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/transcript"
	"weft/starter/usage"
)

// transcriptLine is one message as -output jsonl prints it; N counts from 0.
type transcriptLine struct {
	Thread  string            `json:"thread"`
	N       int               `json:"n"`
	Message *contract.Message `json:"message"`
}

func (a *app) transcript(ctx context.Context, r *runs.Run, args []string) error {
	read, err := transcript.Read(ctx, history.From(r.Client), r.ID, r.RunID)
	if err != nil {
		return err
	}
	threads := read.Threads()
	if len(args) > 0 {
		var names []string
		for _, t := range threads {
			names = append(names, t.Thread)
		}
		i := slices.Index(names, args[0])
		if i < 0 {
			return usage.Errorf("the run %q has no thread %q; it has: %s", r.ID, args[0], plaintext.Line(strings.Join(names, ", "), 2000))
		}
		threads = threads[i : i+1]
	}
	for _, id := range read.Missing {
		a.say("warning: the history of %s is gone; what it held is not shown", plaintext.Line(id, 200))
	}
	var lines []transcriptLine
	for _, t := range threads {
		for n, m := range t.Messages {
			lines = append(lines, transcriptLine{t.Thread, n, m})
		}
	}
	emit(a, map[string]any{"threads": threads}, lines, func() { fmt.Fprint(a.stdout, transcript.Text(threads)) })
	return nil
}
