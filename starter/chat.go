package main

import (
	"bufio"
	"context"
	"os"
	"strings"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/progress"
)

// canChat reports whether answers can be typed: text goes to a terminal, and comes from one.
func (a *app) canChat() bool {
	f, ok := a.stdin.(*os.File)
	return ok && !a.flags.asJSON() && terminal(f) && terminal(a.stderr)
}

// chat sends each typed line as the answer to the oldest open question, once there was one.
func (f *follower) chat(ctx context.Context) {
	if !f.app.canChat() {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-f.Asked():
	}
	stayInBackground()
	f.Once("chat", "type the answer here, in one line, or use the command")
	lines := make(chan string)
	go func() {
		defer f.app.caught()
		// Nothing ends a read of a terminal but a line, so this may outlive the run.
		for in := bufio.NewScanner(f.app.stdin); in.Scan(); {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-lines:
			f.answer(ctx, strings.TrimSpace(line))
		}
	}
}

// answer sends a line as an answer.
func (f *follower) answer(ctx context.Context, line string) {
	f.Lock()
	if l, ok := f.Report.(*progress.Live); ok {
		l.Entered()
	}
	f.Unlock()
	oldest := f.OldestQuestion()
	if oldest == nil && line != "" {
		f.Tell(progress.Notice{Event: progress.EventNote}, "nothing is asked now; to tell the run something: %smessage %s TEXT", f.app.self(), f.run.Quoted())
	}
	if oldest == nil || line == "" {
		return
	}
	_, err := f.run.Update(ctx, contract.RequestMessage, contract.MessageAnswer{ID: oldest.ID, Text: line, By: f.app.by()})
	if err != nil && ctx.Err() == nil {
		f.Tell(progress.Notice{Event: progress.EventNote}, "the answer was not taken: %s", plaintext.Line(contract.FailureOf(err).Error(), 500))
	}
}
