package session

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/argument"
	plansession "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/subsession"
	"weft/workflows/wait"
)

// Serve registers the messages of a session and its query. A run that is not a session refuses them.
func (s *Session) Serve(ctx workflow.Context) error {
	err := s.run.Requests.Receive(ctx,
		runtime.Message{Name: contract.UpdatePrompt, Shape: promptShape, Handler: prompts{s}},
		runtime.Message{Name: contract.UpdateCloseSession, Shape: closeShape, Handler: closing{s}})
	if err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, contract.QueryTurns, func() ([]contract.Turn, error) {
		if !s.On() {
			return nil, fmt.Errorf("the run is not a session")
		}
		return s.allTurns(), nil
	})
}

// The JSON of a session's messages, for users.
const (
	promptShape = `{"prompt": "…"}, optionally with "id" for idempotency, and "images"`
	closeShape  = `{} or {"reason": "…"}`
)

// prompts is the [runtime.MessageHandler] of the session's prompts.
type prompts struct{ s *Session }

func (p prompts) Admit(raw json.RawMessage) error {
	_, err := p.s.admit(raw)
	return err
}

// Take queues a prompt and waits until its turn has ended.
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
		s.run.Policy.Progressed = true // repeated prompts alone can make a history long
	}
	if err := wait.Until(ctx, func() bool {
		t := s.find(in.ID)
		return t == nil || t.Done() || s.leaving || s.endedAt != nil
	}); err != nil {
		return nil, err
	}
	t := s.find(in.ID)
	if t == nil {
		return nil, contract.Failf(contract.ClassUnknownRequest, "", "the turn %q is no longer stored", textutil.Cut(in.ID, 200))
	}
	out := *t
	out.Hash = ""
	// Several Updates may have waited for the same long result, which one workflow task cannot hold several times.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if s.run.Sizes.Admit(ctx, "the turn", out) != nil {
		out.OmittedBytes, out.ResultText, out.ResultData = subsession.ResultBytes(&out), nil, nil
	}
	return &out, nil
}

// Signalled queues a prompt. The parent session, which cannot send an Update, is notified of its own prompt unless the turn begins
// at once.
func (p prompts) Signalled(ctx workflow.Context, raw json.RawMessage) error {
	s := p.s
	prompt, err := s.admit(raw)
	if err == nil && s.find(prompt.ID) == nil {
		s.state.Queue = append(s.state.Queue, *prompt)
	}
	var in contract.PromptInput
	if s.state.Parent == "" || json.Unmarshal(raw, &in) != nil || in.ID == "" || in.By != contract.ShortenID(s.state.Parent) ||
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

// closing is the [runtime.MessageHandler] of close_session.
type closing struct{ s *Session }

func (c closing) Admit(raw json.RawMessage) error {
	_, err := c.read(raw)
	return err
}

func (c closing) read(raw json.RawMessage) (*contract.CloseSessionInput, error) {
	in := &contract.CloseSessionInput{}
	err := argument.DecodeStrict(raw, in)
	switch {
	case err == nil && !c.s.state.IsSession:
		err = fmt.Errorf("the run is not a session; cancel it instead")
	case err == nil && (len(in.Reason) > runtime.MaxReason || len(in.By) > runtime.MaxName):
		err = fmt.Errorf("reason is longer than %d bytes, or by is longer than %d bytes", runtime.MaxReason, runtime.MaxName)
	}
	if err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "send "+closeShape, "close_session: %v", err)
	}
	return in, nil
}

func (c closing) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	return &contract.Receipt{ID: c.s.run.Transcript.Workflow, Status: "accepted"}, c.Signalled(ctx, raw)
}

// Signalled ends the current turn and the session.
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

// admit decodes and validates a prompt.
func (s *Session) admit(raw json.RawMessage) (*contract.Prompt, error) {
	var in contract.PromptInput
	err := argument.DecodeStrict(raw, &in)
	const remedy = `send {"prompt": "…"}, optionally with id and images`
	switch {
	case err != nil:
		return nil, contract.Failf(contract.ClassBadRequest, remedy, "invalid prompt: %v", err)
	case !s.state.IsSession:
		return nil, contract.Failf(contract.ClassBadRequest, "start it with session: true", "the run is not a session and accepts no prompts")
	case in.Prompt == "":
		return nil, contract.Failf(contract.ClassBadRequest, remedy, "the prompt is empty")
	case len(in.Prompt) > runtime.MaxMessage:
		return nil, contract.Failf(contract.ClassTooLarge, "shorten it", "the prompt is %d bytes, at most %d are allowed", len(in.Prompt), runtime.MaxMessage)
	case len(in.ID) > runtime.MaxName || len(in.By) > runtime.MaxName:
		return nil, contract.Failf(contract.ClassBadRequest, "shorten it", "id or by is longer than %d bytes", runtime.MaxName)
	}
	if err := contract.CheckMedia(in.Media); err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "send PNG, JPEG, GIF or WebP files in base64", "invalid prompt: %v", err)
	}
	p := &contract.Prompt{ID: in.ID, Text: in.Prompt, Hash: in.Hash(), Media: in.Media}
	return p, s.accepts(p)
}

// accepts returns an error if the session cannot accept a prompt now.
func (s *Session) accepts(p *contract.Prompt) error {
	queued := p.Size()
	for i := range s.state.Queue {
		queued += s.state.Queue[i].Size()
	}
	old := s.find(p.ID)
	switch {
	case s.run.Flow != nil && s.run.Flow.SingleAgent() == nil:
		return contract.Failf(contract.ClassBadRequest, "start another session", "the agent %q accepts no prompts: procedural_agent_no_resume", s.run.Flow.Name)
	case old != nil && old.Hash != p.Hash:
		return contract.Failf(contract.ClassAlreadyAnswered, "give every prompt a unique id", "another prompt has the id %q", textutil.Cut(p.ID, 200))
	case old != nil:
		return nil
	case s.state.Stop != nil || s.endedAt != nil:
		return contract.Failf(contract.ClassBadRequest, "start another session", "the session is stopped")
	case len(s.state.Queue) >= maxQueued || len(s.state.Queue) > 0 && queued > runtime.MaxUnreadSize:
		return contract.Failf(contract.ClassTooLarge, "wait until some have been processed", "%d prompts are already queued", len(s.state.Queue))
	}
	return nil
}

// find returns the turn of a prompt's id, or nil. The turn of a queued prompt has no number.
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

// allTurns returns the turns, followed by those of queued prompts, for users.
func (s *Session) allTurns() []contract.Turn {
	out := append([]contract.Turn{}, s.state.Turns...)
	for i := range s.state.Queue {
		out = append(out, *s.queuedTurn(i))
	}
	for i := range out {
		out[i].Hash = ""
	}
	return out
}

// queuedTurn returns the turn of the i-th queued prompt; if the session has ended, it is stopped.
func (s *Session) queuedTurn(i int) *contract.Turn {
	t := &contract.Turn{ID: s.state.Queue[i].ID, Hash: s.state.Queue[i].Hash, Status: contract.TurnQueued}
	if s.endedAt != nil {
		t.Status, t.EndedAt = contract.TurnStopped, s.endedAt
		t.Failure = &contract.Failure{Class: contract.ClassCancelled, Text: plansession.Stopped}
	}
	return t
}

// Status returns the session's part of a run's status.
func (s *Session) Status() *contract.SessionStatus {
	out := &contract.SessionStatus{Turns: s.state.Count, Queued: len(s.state.Queue), Callbacks: len(s.Children.Callbacks), Children: s.Children.Status()}
	if t := s.latest(); t != nil {
		current := *t
		current.ResultText, current.ResultData, current.Hash = nil, nil, ""
		out.Turn = &current
	}
	return out
}
