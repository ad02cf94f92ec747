package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/specadapter/inputs"
	"weft/starter/follow"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/workflows/plan"
)

// resume sends the next prompt to a session and waits for the result; without a prompt it starts a chat on the terminal.
func (a *app) resume(ctx context.Context, args []string) error {
	if !a.flags.has("prompt") && len(a.flags.Param) == 0 && a.flags.Params == "" {
		if a.flags.key == "" && len(a.flags.Images)+len(a.flags.Documents)+len(a.flags.Audio) == 0 && !a.flags.detach && a.canChat() {
			return a.converse(ctx, args[0])
		}
		return usage.Errorf("missing prompt; use -prompt TEXT; on a terminal, without -key, -image, -detach and -output, resume prompts for them")
	}
	in, params, err := a.nextPrompt()
	if err != nil {
		return err
	}
	r, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	if in.Prompt, err = a.promptOf(ctx, r, params, in.Prompt); err != nil {
		return err
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	done := a.warnIfSilent(ctx, r)
	t, err := r.Resume(ctx, in, a.flags.detach)
	done()
	switch {
	case err != nil && ctx.Err() != nil:
		a.say("the turn continues; wait for it with the same command and -key %s", plaintext.ShellQuote(in.ID))
		return exitCode(exitDetached)
	case err != nil:
		return a.refused(ctx, r, contract.UpdatePrompt, err)
	case a.flags.detach:
		a.show(map[string]string{"run": r.ID, "id": in.ID, "status": contract.TurnQueued}, func() { _ = a.writeUnmasked([]byte(in.ID + "\n")) })
		return nil
	}
	return a.concludeTurn(r.ID, t)
}

func newTurnID() string { return "turn-" + strings.ToLower(rand.Text()[:12]) }

func (a *app) nextPrompt() (in contract.PromptInput, params json.RawMessage, err error) {
	in = contract.PromptInput{ID: cmp.Or(a.flags.key, newTurnID()), By: a.by()}
	if a.flags.prompt == "-" && a.flags.Params == "-" {
		return in, nil, usage.Errorf("-prompt and -params cannot both read standard input; use a file for one of them")
	}
	if in.Prompt, err = a.reader().Text("-prompt", a.flags.prompt); err != nil {
		return in, nil, err
	}
	if params, err = a.reader().Params(&a.flags.Flags); err != nil {
		return in, nil, err
	}
	if in.Prompt == "" && a.flags.has("prompt") {
		return in, nil, usage.Errorf("-prompt is empty; set the text of the prompt")
	}
	in.Media, err = a.reader().Media(&a.flags.Flags)
	return in, params, err
}

// promptOf returns the text of a session's next prompt: text, or the parameters of a start in a session that was started with the
// profile documented. It returns an error if the parameters do not match the flow.
func (a *app) promptOf(ctx context.Context, r *runs.Run, params json.RawMessage, text string) (string, error) {
	patient := *r
	patient.QueryTimeout = runs.ReceiptTimeout
	flow, err := patient.Plan(ctx)
	switch {
	case err != nil:
		return "", err
	case flow.Inputs == nil && params == nil:
		return text, nil
	case flow.Inputs == nil:
		return "", usage.Errorf("the flow of the run %q declares no inputs; remove -param and -params", r.ID)
	}
	declared := inputs.OfTurn(flow.Inputs)
	values, err := inputs.For(declared, params, text)
	if err == nil {
		_, text, err = inputs.Start(ctx, &plan.Flow{Name: flow.Name, Inputs: declared}, inputs.Values{Params: values})
	}
	if err != nil {
		return "", a.mismatch(err, "-prompt")
	}
	return text, nil
}

func (a *app) stop(ctx context.Context, r *runs.Run, _ []string) error {
	return a.send(ctx, r, contract.UpdateCloseSession, "", contract.CloseSessionInput{Reason: a.flags.reason, By: a.by()})
}

func (a *app) concludeTurn(id string, t *contract.Turn) error {
	if a.flags.asJSON() {
		a.object(struct {
			Run string `json:"run"`
			*contract.Turn
		}{id, t})
	}
	switch t.Status {
	case contract.TurnCompleted:
		if !a.flags.asJSON() {
			a.printResult(t.ResultText, t.ResultData)
		}
		return nil
	case contract.TurnStopped:
		a.explain(id, runs.TurnFailure(t))
		return exitCode(exitCancelled)
	}
	a.explain(id, runs.TurnFailure(t))
	return exitCode(exitFailed)
}

// canChat reports whether answers can be typed: output is text, and standard input and error are a terminal.
func (a *app) canChat() bool {
	return !a.flags.asJSON() && a.interactive()
}

// interactive reports whether standard input and error are a terminal.
func (a *app) interactive() bool { return terminal(a.stdin) && terminal(a.stderr) }

// ask prompts for a line on the terminal; it returns "" without a terminal.
func (a *app) ask(question string) string {
	if !a.interactive() {
		return ""
	}
	fmt.Fprint(a.stderr, question)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}

// typedLines reads lines from the terminal until Ctrl-D. Its goroutine may outlive ctx, because reads cannot be
// cancelled.
func (a *app) typedLines(ctx context.Context) <-chan string {
	stayInBackground()
	lines := make(chan string)
	go func() {
		defer a.handlePanic()
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

// chat waits for the first question, then sends each typed line as the answer to the oldest open one.
func (f *follower) chat(ctx context.Context) {
	if !f.app.canChat() {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-f.Asked():
	}
	f.Once("chat", "type the answer here, on one line, or use the command")
	lines := f.app.typedLines(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case line, open := <-lines:
			if !open {
				lines = nil // chat returns when ctx is done
				continue
			}
			f.answer(ctx, strings.TrimSpace(line))
		}
	}
}

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
	_, err := f.run.Update(ctx, contract.RequestMessage, contract.MessageAnswer{ID: oldest.ID, Text: line, Author: contract.Author{By: f.app.by()}})
	if err != nil && ctx.Err() == nil {
		f.Notify(progress.Notice{Event: progress.EventNote}, "the answer was rejected: %s", plaintext.Line(contract.FailureOf(err).Error(), 500))
	}
}

type follower struct {
	*follow.Follower
	app *app
	run *runs.Run
}

func (a *app) newFollower(r *runs.Run) *follower { return a.followerWith(r, a.newReport()) }

func (a *app) followerWith(r *runs.Run, to progress.Report) *follower {
	return &follower{Follower: follow.New(r, to), app: a, run: r}
}

func (f *follower) toTheEnd(ctx context.Context) error {
	ctx, stop := f.app.interruptible(ctx)
	defer stop()
	last, err := f.Follow(ctx, f.chat)
	return f.conclude(ctx, last, err)
}

// conclude prints the outcome of the last run that was followed, unless following it failed or was interrupted.
func (f *follower) conclude(ctx context.Context, runID string, err error) error {
	f.Close()
	if err == nil {
		last := *f.run
		last.RunID = runID
		err = f.app.conclude(ctx, &last)
	}
	if ctx.Err() != nil {
		f.app.say("%s", f.app.detachedText(f.run.ID))
		return exitCode(exitDetached)
	}
	return err
}

// toFirstTurn follows a session to the end of its first turn.
func (f *follower) toFirstTurn(ctx context.Context) error {
	ctx, stop := f.app.interruptible(ctx)
	defer stop()
	following, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	var turn *contract.Turn
	last, err := f.Follow(following, f.chat, func(ctx context.Context) {
		if turn = f.run.AwaitFirstTurn(ctx); turn != nil {
			stopFollowing()
		}
	})
	if turn == nil {
		return f.conclude(ctx, last, err)
	}
	f.Close()
	self, id := f.app.self(), f.run.Quoted()
	f.app.say("the session is open; continue with: %sresume %s -prompt TEXT, or without -prompt on a terminal; close it with: %sstop %s", self, id, self, id)
	return f.app.concludeTurn(f.run.ID, turn)
}
