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

// typedLines reads lines from the terminal until Ctrl-D. Only a line ends a read, so that the goroutine
// may outlive ctx.
func (a *app) typedLines(ctx context.Context) <-chan string {
	stayInBackground()
	lines := make(chan string)
	go func() {
		defer a.caught()
		defer close(lines)
		for in := bufio.NewScanner(a.stdin); in.Scan(); {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
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
	f.Once("chat", "type the answer here, in one line, or use the command")
	lines := f.app.typedLines(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case line, open := <-lines:
			if !open {
				lines = nil // it ends when the run does
				continue
			}
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
		f.Notify(progress.Notice{Event: progress.EventNote}, "no open question; send the run a message with: %smessage %s TEXT", f.app.self(), f.run.Quoted())
	}
	if oldest == nil || line == "" {
		return
	}
	_, err := f.run.Update(ctx, contract.RequestMessage, contract.MessageAnswer{ID: oldest.ID, Text: line, By: f.app.by()})
	if err != nil && ctx.Err() == nil {
		f.Notify(progress.Notice{Event: progress.EventNote}, "the answer was rejected: %s", plaintext.Line(contract.FailureOf(err).Error(), 500))
	}
}
