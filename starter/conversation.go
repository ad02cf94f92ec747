package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/usage"
)

const promptSign = "> "

type conversation struct {
	app    *app
	run    *runs.Run
	f      *follower
	report *conversationReport
	// lines receives the typed lines; it is closed at Ctrl-D.
	lines <-chan string
	// ended receives the error that stopped following, nil if the session closed; silent is closed after the last output.
	ended  chan error
	silent chan struct{}
	// shown are the numbers of the turns that have been shown, events the follower's change count when they were last read.
	shown  map[int]bool
	events int64
}

func (a *app) converse(ctx context.Context, id string) error {
	r, err := a.findOpen(ctx, id)
	if err != nil {
		return err
	}
	turns, err := r.Turns(ctx)
	switch {
	case runs.Is[*runs.NoAnswerError](err):
		return err
	case err != nil:
		return usage.Errorf("the run %q accepts no prompts: %v; start a session with: %s-flow FILE -session", id, err, a.self())
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	t := &conversation{app: a, run: r, ended: make(chan error, 1), silent: make(chan struct{}), shown: map[int]bool{}}
	done := 0
	for i := range turns {
		if turns[i].Done() {
			t.shown[turns[i].N] = true
			done++
		}
	}
	following, stopFollowing := context.WithCancel(ctx)
	defer func() {
		stopFollowing()
		<-t.silent
	}()
	t.report = &conversationReport{app: a, streams: a.onTerminal()}
	t.f = a.followerWith(r, t.report)
	t.f.Resume(follow.After(r.RunID, r.Events))
	go func() {
		defer a.handlePanic()
		defer close(t.silent)
		_, err := t.f.Follow(following)
		t.ended <- err
	}()
	t.lines = a.typedLines(following)
	a.say("session %s: %d turn%s so far%s; type a prompt on one line; Ctrl-D exits, and the session stays open", plaintext.Line(id, 200), done,
		plaintext.If(done != 1, "s"), plaintext.If(len(turns) > done, ", and one is running"))
	return t.converse(ctx)
}

func (t *conversation) locked(change func()) {
	t.f.Lock()
	defer t.f.Unlock()
	change()
}

func (t *conversation) converse(ctx context.Context) error {
	ticker := time.NewTicker(runs.TurnInterval)
	defer ticker.Stop()
	t.locked(t.report.ask)
	for {
		select {
		case <-ctx.Done():
			t.leave()
			return exitCode(exitDetached)
		case err := <-t.ended:
			t.locked(t.report.end)
			switch {
			case ctx.Err() != nil:
				t.leave()
				return exitCode(exitDetached)
			case err != nil:
				return err
			}
			t.app.say("the session has ended; its last result is in: %sresult %s", t.app.self(), t.run.Quoted())
			return nil
		case <-ticker.C:
			t.showOthers(ctx, "")
		case line, open := <-t.lines:
			if !open {
				t.leave()
				return nil
			}
			t.locked(t.report.lineEntered)
			if line = strings.TrimSpace(line); line != "" {
				if err := t.turn(ctx, line); err != nil {
					return err
				}
			}
			t.locked(t.report.ask)
		}
	}
}

// turn sends a prompt and waits for its turn. Lines typed meanwhile answer the turn's questions.
func (t *conversation) turn(ctx context.Context, prompt string) error {
	prompt, err := t.app.promptOf(ctx, t.run, nil, prompt)
	if err != nil {
		t.app.say("starter: %v", err)
		return nil // the session is still open
	}
	in := contract.PromptInput{ID: newTurnID(), Prompt: prompt, By: t.app.by()}
	type outcome struct {
		turn *contract.Turn
		err  error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		defer t.app.handlePanic()
		turn, err := t.run.Resume(ctx, in, false)
		outcomes <- outcome{turn, err}
	}()
	ticker := time.NewTicker(runs.TurnInterval)
	defer ticker.Stop()
	lines := t.lines
	for {
		var answers <-chan string
		if t.f.OldestQuestion() != nil {
			answers = lines
		}
		select {
		case <-ticker.C:
			t.showOthers(ctx, in.ID)
		case line, open := <-answers:
			if !open {
				lines = nil // turn returns when the turn ends
				continue
			}
			t.locked(t.report.lineEntered)
			t.f.answer(ctx, strings.TrimSpace(line))
		case out := <-outcomes:
			switch {
			case ctx.Err() != nil:
				t.app.say("the turn continues; its result will be in: %sstatus %s", t.app.self(), t.run.Quoted())
				t.leave()
				return exitCode(exitDetached)
			case out.err != nil:
				err := t.app.refused(ctx, t.run, contract.UpdatePrompt, out.err)
				if runs.Is[exitCode](err) {
					return nil // the reason has been printed, and the session is still open
				}
				return err
			}
			t.showOthers(ctx, in.ID) // turns that ended before it
			return t.conclude(out.turn)
		}
	}
}

// showOthers shows turns of callbacks and of other clients; the turn mine is shown by its sender.
func (t *conversation) showOthers(ctx context.Context, mine string) {
	now := t.f.Changes()
	if now == t.events {
		return
	}
	turns, err := t.run.Turns(ctx)
	if err != nil {
		return
	}
	t.events = now
	for i := range turns {
		o := &turns[i]
		if !o.Done() || o.N == 0 || t.shown[o.N] || mine != "" && o.ID == mine {
			continue
		}
		t.locked(t.report.reset)
		if len(o.Callbacks) > 0 {
			t.app.say("turn %d, started by results of %s:", o.N, plaintext.Line(strings.Join(o.Callbacks, ", "), 300))
		} else {
			t.app.say("turn %d, from another client:", o.N)
		}
		if t.conclude(o) == nil && mine == "" {
			t.locked(t.report.ask)
		}
	}
}

// conclude shows a turn's result or failure. It returns an error only if the session was stopped.
func (t *conversation) conclude(turn *contract.Turn) error {
	t.shown[turn.N] = true
	if turn.Status == contract.TurnCompleted {
		result := string(turn.ResultData)
		if turn.OmittedBytes > 0 {
			result = fmt.Sprintf("(a result of %d bytes, which the session does not store; it is in the transcript)", turn.OmittedBytes)
		} else if turn.ResultText != nil {
			result = *turn.ResultText
		}
		t.locked(func() { t.report.finish(result) })
		return nil
	}
	t.locked(t.report.end)
	err := t.app.concludeTurn(t.run.ID, turn)
	if turn.Status == contract.TurnStopped {
		return err
	}
	return nil
}

func (t *conversation) leave() {
	t.locked(t.report.end)
	t.app.say("the session is open; continue with: %sresume %s; close it with: %sstop %s", t.app.self(), t.run.Quoted(), t.app.self(), t.run.Quoted())
}

// conversationReport shows a conversation: the model's answers on standard output, streamed if that
// is a terminal, and a line on standard error for each other event. The follower's lock guards it.
type conversationReport struct {
	app     *app
	streams bool
	// call and attempt identify the answer in progress, text is the shown part; complete is false if part of it was missed.
	call     string
	attempt  int32
	text     string
	complete bool
	// open reports that the last line on the terminal is not terminated, asking that it is the prompt.
	open, asking bool
}

func (s *conversationReport) ReadsText() bool { return s.streams }

func (s *conversationReport) Notify(n progress.Notice) {
	switch n.Event {
	case progress.EventText:
		// The answers of sub-agents are sent to their parent agent.
		if !strings.Contains(n.Node, " › ") {
			s.partial(n)
		}
	case progress.EventTool, progress.EventCall, progress.EventAttempt, progress.EventFailed, progress.EventRequest, progress.EventAnswered, progress.EventNote, progress.EventWarning:
		s.end()
		text := plaintext.If(n.Node != "", "%s  ", n.Node) + n.Text
		s.app.say("  %s", text)
	}
}

func (s *conversationReport) partial(n progress.Notice) {
	if n.Call != s.call || n.Attempt != s.attempt {
		s.end()
		s.call, s.attempt, s.text, s.complete = n.Call, n.Attempt, "", true
	}
	s.complete = s.complete && !n.Skipped
	if s.asking {
		s.end()
	}
	s.text += n.Text
	s.print(n.Text)
}

func (s *conversationReport) print(text string) {
	if text != "" {
		fmt.Fprint(s.app.stdout, plaintext.Lines(text))
		s.open = !strings.HasSuffix(text, "\n")
	}
}

func (s *conversationReport) end() {
	switch {
	case s.asking:
		fmt.Fprintln(s.app.stderr)
	case s.open:
		fmt.Fprintln(s.app.stdout)
	}
	s.open, s.asking = false, false
}

// finish prints the rest of an answer, or the entire answer if it differs from the streamed text.
func (s *conversationReport) finish(result string) {
	rest, started := strings.CutPrefix(result, s.text)
	if s.asking || s.text == "" || !s.complete || !started {
		s.end()
		rest = result
	}
	s.print(rest)
	s.reset()
}

// reset discards the answer in progress, so that it is shown again from the start, on a new line.
func (s *conversationReport) reset() {
	s.end()
	s.call, s.attempt, s.text, s.complete = "", 0, "", true
}

// lineEntered records that a line was typed, which the terminal has terminated.
func (s *conversationReport) lineEntered() {
	s.open, s.asking = false, false
}

func (s *conversationReport) ask() {
	s.end()
	fmt.Fprint(s.app.stderr, promptSign)
	s.asking = true
}
