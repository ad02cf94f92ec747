package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// turnPause is how long a follower waits between two looks at a session's turn.
const turnPause = 500 * time.Millisecond

// resume gives a session its next prompt and waits for the turn's result; without a prompt it
// talks on, on a terminal.
func (a *app) resume(ctx context.Context, args []string) error {
	if a.wantsPrompt() {
		if a.flags.key == "" && len(a.flags.images) == 0 && !a.flags.detach && a.talks() {
			return a.converse(ctx, args[0])
		}
		return bad("resume wants a prompt; write -prompt TEXT; on a terminal, without -key, -image, -detach and -output, it asks for one after the other")
	}
	in, err := a.nextPrompt()
	if err != nil {
		return err
	}
	temporal, about, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	ctx, stop := a.listening(ctx)
	defer stop()
	done := a.whileSilent(ctx, temporal, about)
	t, err := resumeRun(ctx, temporal, args[0], in, a.flags.detach)
	done()
	switch {
	case err != nil && ctx.Err() != nil:
		a.say("the turn goes on; wait for it with the same command and -key %s", plaintext.ShellQuote(in.ID))
		return coded(exitDetached)
	case err != nil:
		return a.refused(ctx, temporal, about, args[0], contract.UpdatePrompt, err)
	case a.flags.detach:
		if a.flags.asJSON() {
			a.object(map[string]string{"run": args[0], "id": in.ID, "status": contract.TurnQueued})
		} else {
			_ = a.exactly([]byte(in.ID + "\n"))
		}
		return nil
	}
	return a.concludeTurn(args[0], t)
}

// nextPrompt is the prompt of the flags, with its images and an id.
func (a *app) nextPrompt() (in contract.PromptInput, err error) {
	in = contract.PromptInput{ID: a.flags.key, By: a.by()}
	if in.Prompt, err = a.textOf("-prompt", a.flags.prompt); err != nil {
		return in, err
	}
	if in.Prompt == "" {
		return in, bad("-prompt is empty, want a text")
	}
	if in.ID == "" {
		in.ID = "turn-" + strings.ToLower(rand.Text()[:12])
	}
	in.Images, err = a.readImages()
	return in, err
}

// resumeRun sends a prompt and waits for its turn, or with detach until the session has taken
// it. The session may continue as new meanwhile: the same prompt is then asked about again.
func resumeRun(ctx context.Context, t *config.Temporal, run string, in contract.PromptInput, detach bool) (*contract.Turn, error) {
	stage := client.WorkflowUpdateStageCompleted
	if detach {
		stage = client.WorkflowUpdateStageAccepted
	}
	for try := 1; ; try++ {
		limited, cancel := within(ctx, receiptTimeout)
		h, err := t.Client.UpdateWorkflow(limited, client.UpdateWorkflowOptions{
			WorkflowID: run, UpdateID: fmt.Sprintf("%s/%.8s/%d", in.ID, in.Hash(), try), UpdateName: contract.UpdatePrompt, Args: []any{in}, WaitForStage: stage})
		turn := contract.Turn{ID: in.ID, Status: contract.TurnQueued}
		if err == nil && detach {
			cancel()
			return &turn, refusedAtOnce(ctx, h)
		}
		for err == nil {
			if err = h.Get(limited, &turn); err == nil || limited.Err() == nil || ctx.Err() != nil {
				break
			}
			// It was taken: the turn lasts.
			cancel()
			limited, cancel = within(ctx, receiptTimeout)
			err = nil
		}
		late := limited.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && late:
			return nil, errNoReceipt
		case err != nil:
			return nil, err
		case turn.Done():
			return &turn, nil
		}
	}
}

// refusedAtOnce is why an Update was not taken: a handle has that without asking the server, and
// gives nothing else to a context that has ended.
func refusedAtOnce(ctx context.Context, h client.WorkflowUpdateHandle) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	var refused *temporal.ApplicationError
	if err := h.Get(ctx, nil); errors.As(err, &refused) {
		return err
	}
	return nil
}

// stop ends a session.
func (a *app) stop(ctx context.Context, args []string) error {
	temporal, about, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	return a.send(ctx, temporal, about, args[0], contract.UpdateCloseSession, "", contract.CloseSessionInput{Reason: a.flags.reason, By: a.by()})
}

// errSilent is the error of a session for which no worker answers.
var errSilent = errors.New("no worker answers")

// turnsOf asks a session for its turns. The error is [errSilent] where nobody answers in time.
func turnsOf(ctx context.Context, t *config.Temporal, id string, patience time.Duration) ([]contract.Turn, error) {
	limited, cancel := within(ctx, patience)
	defer cancel()
	value, err := t.Client.QueryWorkflow(limited, id, "", contract.QueryTurns)
	var refused *serviceerror.QueryFailed
	var missing *serviceerror.NotFound
	var unavailable *serviceerror.Unavailable
	switch {
	case err == nil:
	case ctx.Err() != nil || errors.As(err, &refused) || errors.As(err, &missing) || errors.As(err, &unavailable):
		return nil, err
	default:
		// The server may know that no worker is there, or have waited as long, and says so in
		// various words.
		return nil, errSilent
	}
	var out []contract.Turn
	err = value.Get(&out)
	return out, err
}

// latestTurn is the last turn of an open session that has ended, or nil.
func latestTurn(ctx context.Context, t *config.Temporal, id string) *contract.Turn {
	turns, err := turnsOf(ctx, t, id, callTimeout)
	if err != nil {
		return nil
	}
	for i := len(turns) - 1; i >= 0; i-- {
		if turns[i].Done() {
			return &turns[i]
		}
	}
	return nil
}

// concludeTurn prints a turn's result, or why it has none.
func (a *app) concludeTurn(id string, t *contract.Turn) error {
	if a.flags.asJSON() {
		a.object(struct {
			Run string `json:"run"`
			*contract.Turn
		}{id, t})
	}
	if t.Status != contract.TurnCompleted {
		f := t.Failure
		if f == nil {
			f = &contract.Failure{Class: contract.ClassCancelled, Text: "the session was stopped"}
		}
		a.explain(id, f)
		if t.Status == contract.TurnStopped {
			return coded(exitCancelled)
		}
		return coded(exitFailed)
	}
	if !a.flags.asJSON() {
		a.printResult(t.ResultText, t.ResultData)
	}
	return nil
}

// toTurn follows a session until a turn of it has ended, and prints what that gave.
func (f *follower) toTurn(ctx context.Context, n int) error {
	ctx, stop := f.app.listening(ctx)
	defer stop()
	following, leave := context.WithCancel(ctx)
	defer leave()
	var turn *contract.Turn
	until := func(ctx context.Context) {
		for ctx.Err() == nil {
			turns, err := turnsOf(ctx, f.temporal, f.id, callTimeout)
			for i := range turns {
				if t := &turns[i]; err == nil && t.N == n && t.Done() {
					pause(ctx, turnPause) // its last events are on their way
					turn = t
					leave()
					return
				}
			}
			pause(ctx, turnPause)
		}
	}
	run, err := f.Follow(following, f.chat, until)
	f.Close()
	switch {
	case turn != nil:
		dev := ""
		if f.app.dev != nil {
			dev = " -dev"
		}
		f.app.say("the session is open; go on with: starter%s resume %s -prompt TEXT, or without -prompt on a terminal; end it with: starter%s stop %s", dev, plaintext.ShellQuote(f.id), dev, plaintext.ShellQuote(f.id))
		return f.app.concludeTurn(f.id, turn)
	case ctx.Err() != nil:
		f.app.say("%s", f.app.detachedText(f.id))
		return coded(exitDetached)
	case err != nil:
		return err
	}
	return f.app.conclude(ctx, f.temporal, f.id, run)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// printSession shows a session's turns and the sessions that it has started.
func printSession(s *contract.SessionStatus, line func(label, format string, args ...any)) {
	if s == nil {
		return
	}
	text := fmt.Sprintf("%d", s.Turns)
	if s.Turn != nil {
		text += ", the last one " + s.Turn.Status
	}
	if s.Queued > 0 {
		text += fmt.Sprintf(", %d prompts queued", s.Queued)
	}
	if s.Callbacks > 0 {
		text += fmt.Sprintf(", %d callbacks waiting", s.Callbacks)
	}
	line("turns", "%s", text)
	for i := range s.Children {
		c := &s.Children[i]
		line("session", "%s: %s, %s", plaintext.Line(c.ID, 300), plaintext.Line(c.Agent, 100), c.Status)
	}
}
