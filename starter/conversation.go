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
	// lines are those that are typed; closed at Ctrl-D.
	lines <-chan string
	// ended receives why the session is not followed any more, nil at its end; silent is closed after its last output.
	ended  chan error
	silent chan struct{}
	// shown are the turns that have been shown, events how many had come when others were last looked for.
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
	following, leave := context.WithCancel(ctx)
	defer func() {
		leave()
		<-t.silent
	}()
	t.report = &conversationReport{app: a, streams: a.onTerminal()}
	t.f = a.followerWith(r, t.report)
	t.f.Resume(follow.After(r.RunID, r.Events))
	go func() {
		defer a.caught()
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
		return nil // the session is still there
	}
	in := contract.PromptInput{ID: newTurnID(), Prompt: prompt, By: t.app.by()}
	type outcome struct {
		turn *contract.Turn
		err  error
	}
	came := make(chan outcome, 1)
	go func() {
		defer t.app.caught()
		turn, err := t.run.Resume(ctx, in, false)
		came <- outcome{turn, err}
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
				lines = nil // it ends when the turn does
				continue
			}
			t.locked(t.report.lineEntered)
			t.f.answer(ctx, strings.TrimSpace(line))
		case out := <-came:
			switch {
			case ctx.Err() != nil:
				t.app.say("the turn continues; its result will be in: %sstatus %s", t.app.self(), t.run.Quoted())
				t.leave()
				return exitCode(exitDetached)
			case out.err != nil:
				err := t.app.refused(ctx, t.run, contract.UpdatePrompt, out.err)
				if runs.Is[exitCode](err) {
					return nil // why has been said, and the session is still there
				}
				return err
			}
			t.showOthers(ctx, in.ID) // what came before it
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
			t.app.say("turn %d, on results of %s:", o.N, plaintext.Line(strings.Join(o.Callbacks, ", "), 300))
		} else {
			t.app.say("turn %d, of another client:", o.N)
		}
		if t.conclude(o) == nil && mine == "" {
			t.locked(t.report.ask)
		}
	}
}

// conclude shows a turn's result, or why there is none: the session is still open then.
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

// conversationReport shows a conversation: on standard output what the model says, while it does where that
// is a terminal, and a line on standard error for what happens beside. A follower's mu guards it.
type conversationReport struct {
	app     *app
	streams bool
	// call and attempt name the answer that is shown, text is what was shown; whole is false if some of it was missed.
	call    string
	attempt int32
	text    string
	whole   bool
	// open says that the last line on the terminal has no end yet, asking that it is the prompt's.
	open, asking bool
}

func (s *conversationReport) ReadsText() bool { return s.streams }

func (s *conversationReport) Notify(n progress.Notice) {
	switch n.Event {
	case progress.EventText:
		// Sub-agents' answers are for the agent that asked them.
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
		s.call, s.attempt, s.text, s.whole = n.Call, n.Attempt, "", true
	}
	s.whole = s.whole && !n.Skipped
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

// finish shows the rest of an answer, or all of it if something else was shown.
func (s *conversationReport) finish(result string) {
	rest, started := strings.CutPrefix(result, s.text)
	if s.asking || s.text == "" || !s.whole || !started {
		s.end()
		rest = result
	}
	s.print(rest)
	s.reset()
}

// reset forgets what was shown of an answer: all of it is shown again, below a line of its own.
func (s *conversationReport) reset() {
	s.end()
	s.call, s.attempt, s.text, s.whole = "", 0, "", true
}

// lineEntered takes note of a line that was typed: the terminal has ended it.
func (s *conversationReport) lineEntered() {
	s.open, s.asking = false, false
}

func (s *conversationReport) ask() {
	s.end()
	fmt.Fprint(s.app.stderr, promptSign)
	s.asking = true
}
