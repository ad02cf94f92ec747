package session

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/argument"
	words "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/subsession"
	"weft/workflows/wait"
)

// Serve registers the messages that a session takes, and its query. A run that is none refuses them.
func (s *Session) Serve(ctx workflow.Context) error {
	err := s.run.Requests.Receive(ctx,
		runtime.Message{Name: contract.UpdatePrompt, Shape: promptShape, Handler: prompts{s}},
		runtime.Message{Name: contract.UpdateCloseSession, Shape: closeShape, Handler: closing{s}})
	if err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, contract.QueryTurns, func() ([]contract.Turn, error) {
		if !s.On() {
			return nil, fmt.Errorf("this run is no session")
		}
		return s.shown(), nil
	})
}

// What a session's messages are.
const (
	promptShape = `{"prompt": "…"}, with "id" to make it repeatable, and "images"`
	closeShape  = `{} or {"reason": "…"}`
)

// prompts is the [runtime.MessageHandler] of the session's prompts.
type prompts struct{ s *Session }

func (p prompts) Admit(raw json.RawMessage) error {
	_, err := p.s.admit(raw)
	return err
}

// Take queues a prompt and waits for its turn.
func (p prompts) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	s := p.s
	in, err := s.admit(raw)
	if err != nil {
		return nil, err
	}
	if in.ID == "" {
		in.ID = workflow.GetCurrentUpdateInfo(ctx).ID
	}
	if old := s.find(in.ID); old == nil {
		s.state.Queue = append(s.state.Queue, *in)
	} else if old.Done() {
		s.run.Policy.Moved = true // a history can get long by repetitions alone
	}
	if err := wait.Until(ctx, func() bool {
		t := s.find(in.ID)
		return t == nil || t.Done() || s.leaving || s.endedAt != nil
	}); err != nil {
		return nil, err
	}
	t := s.find(in.ID)
	if t == nil {
		return nil, contract.Failf(contract.ClassUnknownRequest, "", "the turn %q is no longer kept", textutil.Cut(in.ID, 200))
	}
	out := *t
	out.Hash = ""
	// Several may have waited for the same long result, and one task does not hold all of it.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if s.run.Sizes.Admit(ctx, "the turn", out) != nil {
		out.OmittedBytes, out.ResultText, out.ResultData = subsession.ResultBytes(&out), nil, nil
	}
	return &out, nil
}

// Signalled queues a prompt. The session above, which cannot send an Update, is told what became of its own where no turn says
// so at once.
func (p prompts) Signalled(ctx workflow.Context, raw json.RawMessage) error {
	s := p.s
	prompt, err := s.admit(raw)
	if err == nil && s.find(prompt.ID) == nil {
		s.state.Queue = append(s.state.Queue, *prompt)
	}
	var in contract.PromptInput
	if s.state.Parent == "" || json.Unmarshal(raw, &in) != nil || in.ID == "" || in.By != contract.BoundID(s.state.Parent) ||
		err == nil && s.Idle && len(s.state.Queue) == 1 {
		return err
	}
	t := contract.Turn{ID: in.ID, Status: contract.TurnQueued}
	if err != nil {
		t.Status, t.Failure = contract.TurnFailed, contract.FailureOf(err).Bounded()
	}
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	s.run.Sizes.Accept(quiet, contract.Envelope)
	s.run.Requests.Send(ctx, s.state.Parent, contract.SignalTurn, contract.ChildTurn{Session: s.run.Transcript.Workflow, Turn: t})
	return err
}

func (p prompts) Refused(ctx workflow.Context, _ error) { p.s.host.Show(ctx, nil, nil) }

// closing is the [runtime.MessageHandler] of what ends the session.
type closing struct{ s *Session }

func (c closing) Admit(raw json.RawMessage) error {
	_, err := c.read(raw)
	return err
}

func (c closing) read(raw json.RawMessage) (*contract.CloseSessionInput, error) {
	in := &contract.CloseSessionInput{}
	err := argument.Strictly(raw, in)
	switch {
	case err == nil && !c.s.state.IsSession:
		err = fmt.Errorf("the run is no session; cancel it instead")
	case err == nil && (len(in.Reason) > runtime.MaxReason || len(in.By) > runtime.MaxName):
		err = fmt.Errorf("reason is longer than %d bytes, or by than %d", runtime.MaxReason, runtime.MaxName)
	}
	if err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "send "+closeShape, "close_session: %v", err)
	}
	return in, nil
}

func (c closing) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	return &contract.Receipt{ID: c.s.run.Transcript.Workflow, Status: "accepted"}, c.Signalled(ctx, raw)
}

// Signalled ends the turn under way and the session.
func (c closing) Signalled(_ workflow.Context, raw json.RawMessage) error {
	in, err := c.read(raw)
	if err != nil {
		return err
	}
	if c.s.state.Stop == nil {
		c.s.state.Stop = in
	}
	if c.s.end != nil {
		c.s.end()
	}
	return nil
}

func (c closing) Refused(ctx workflow.Context, _ error) { c.s.host.Show(ctx, nil, nil) }

// admit looks at a prompt before it is taken.
func (s *Session) admit(raw json.RawMessage) (*contract.Prompt, error) {
	var in contract.PromptInput
	err := argument.Strictly(raw, &in)
	const remedy = `send {"prompt": "…"} and nothing else but an id and images`
	switch {
	case err != nil:
		return nil, contract.Failf(contract.ClassBadRequest, remedy, "the prompt: %v", err)
	case !s.state.IsSession:
		return nil, contract.Failf(contract.ClassBadRequest, "start it with session: true", "the run is no session and takes no prompts")
	case in.Prompt == "":
		return nil, contract.Failf(contract.ClassBadRequest, remedy, "the prompt is empty")
	case len(in.Prompt) > runtime.MaxMessage:
		return nil, contract.Failf(contract.ClassTooLarge, "shorten it", "the prompt is %d bytes, at most %d are allowed", len(in.Prompt), runtime.MaxMessage)
	case len(in.ID) > runtime.MaxName || len(in.By) > runtime.MaxName:
		return nil, contract.Failf(contract.ClassBadRequest, "shorten it", "id or by is longer than %d bytes", runtime.MaxName)
	}
	if err := contract.CheckMedia(in.Media); err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "send PNG, JPEG, GIF or WebP files in base64", "the prompt: %v", err)
	}
	p := &contract.Prompt{ID: in.ID, Text: in.Prompt, Hash: in.Hash(), Media: in.Media}
	return p, s.takes(p)
}

// takes looks whether the session takes a prompt now.
func (s *Session) takes(p *contract.Prompt) error {
	queued := p.Size()
	for i := range s.state.Queue {
		queued += s.state.Queue[i].Size()
	}
	old := s.find(p.ID)
	switch {
	case s.run.Flow != nil && s.run.Flow.LoneAgent() == nil:
		return contract.Failf(contract.ClassBadRequest, "start another session", "the agent %q takes no prompts: procedural_agent_no_resume", s.run.Flow.Name)
	case old != nil && old.Hash != p.Hash:
		return contract.Failf(contract.ClassAlreadyAnswered, "give every prompt an id of its own", "another prompt has the id %q", textutil.Cut(p.ID, 200))
	case old != nil:
		return nil
	case s.state.Stop != nil || s.endedAt != nil:
		return contract.Failf(contract.ClassBadRequest, "start another session", "the session is stopped")
	case len(s.state.Queue) >= maxQueued || len(s.state.Queue) > 0 && queued > runtime.MaxUnreadSize:
		return contract.Failf(contract.ClassTooLarge, "wait until some have had their turn", "%d prompts are queued already", len(s.state.Queue))
	}
	return nil
}

// find is the turn of a prompt's id, or nil. One that is queued has no number.
func (s *Session) find(id string) *contract.Turn {
	if id == "" {
		return nil
	}
	if i := slices.IndexFunc(s.state.Turns, func(t contract.Turn) bool { return t.ID == id }); i >= 0 {
		return &s.state.Turns[i]
	}
	if i := slices.IndexFunc(s.state.Queue, func(p contract.Prompt) bool { return p.ID == id }); i >= 0 {
		return s.queuedTurn(i)
	}
	return nil
}

// shown are the turns for people, and behind them the prompts that wait for theirs.
func (s *Session) shown() []contract.Turn {
	out := append([]contract.Turn{}, s.state.Turns...)
	for i := range s.state.Queue {
		out = append(out, *s.queuedTurn(i))
	}
	for i := range out {
		out[i].Hash = ""
	}
	return out
}

// queuedTurn is the turn of a prompt that is queued, or that was when the session ended.
func (s *Session) queuedTurn(i int) *contract.Turn {
	t := &contract.Turn{ID: s.state.Queue[i].ID, Hash: s.state.Queue[i].Hash, Status: contract.TurnQueued}
	if s.endedAt != nil {
		t.Status, t.EndedAt = contract.TurnStopped, s.endedAt
		t.Failure = &contract.Failure{Class: contract.ClassCancelled, Text: words.Stopped}
	}
	return t
}

// Status is the session's part of the query's answer.
func (s *Session) Status() *contract.SessionStatus {
	out := &contract.SessionStatus{Turns: s.state.Count, Queued: len(s.state.Queue), Callbacks: len(s.Below.Callbacks), Children: s.Below.Status()}
	if t := s.latest(); t != nil {
		lean := *t
		lean.ResultText, lean.ResultData, lean.Hash = nil, nil, ""
		out.Turn = &lean
	}
	return out
}
