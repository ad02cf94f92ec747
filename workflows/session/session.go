package session

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
	plansession "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/subsession"
	"weft/workflows/wait"
)

// Limits of the data that a session stores.
const (
	maxQueued    = 100
	maxTurns     = 1000
	maxTurnBytes = 256 << 10
	// maxLeftText is the length to which the text of an old failure is cut.
	maxLeftText = 100
)

// Turns is the run in which a session takes its turns.
type Turns interface {
	// Begin resets the run to START, with the n-th prompt as its input.
	Begin(n int, prompt *contract.Prompt) error
	// Turn runs the flow from where it stopped to its end. prompt is set if the hook before the turn has yet to run.
	Turn(ctx workflow.Context, n int, prompt *contract.Prompt) error
	Result() (*contract.RunResult, error)
	// HandOver ends a run that stopped with err before its end. If err is nil, it continues as new; it returns nil if that is postponed.
	HandOver(ctx workflow.Context, err error) (*contract.RunResult, error)
	// Show publishes the session's status. ended is a turn that has just ended, with its result unless it failed, or nil.
	Show(ctx workflow.Context, ended *contract.Turn, out *contract.RunResult)
}

// Session manages the turns of a run.
type Session struct {
	// state is the session's state, except for its children. Unless IsSession, the run ends when no child's result is expected any more.
	state contract.SessionState
	run   *runtime.Run
	host  Turns
	// Children are the child sessions.
	Children *subsession.Children
	// Idle is set while no turn is running, leaving when this run of the session ends.
	Idle, leaving bool
	// endedAt is the time at which the session ended, or nil; prompts that were still queued then have no turn.
	endedAt *time.Time
	// end cancels the current turn.
	end workflow.CancelFunc
	// prompt is the prompt of a user's turn, until the hook before the turn has run.
	prompt *contract.Prompt
}

// New returns the session of a run from the run's input or the previous run's snapshot. It is off in most runs.
func New(r *runtime.Run, h Turns, in *contract.RunInput) *Session {
	s := &Session{run: r, host: h, state: contract.SessionState{IsSession: in.Session, Parent: in.Parent}}
	if in.Snapshot != nil && in.Snapshot.Session != nil {
		// It must be restored before the first Update is validated.
		s.state = *in.Snapshot.Session
		r.Requests.Rejected, r.Requests.RejectionReasons = s.state.Rejected, s.state.RejectionReasons
	}
	s.Children = subsession.New(r, s.state.Children, s.state.Callbacks)
	s.state.Children, s.state.Callbacks, s.state.Rejected, s.state.RejectionReasons = nil, nil, 0, nil
	return s
}

// Snapshot returns the state with which the session's next run continues.
func (s *Session) Snapshot() *contract.SessionState {
	c := s.state
	if !s.run.Requests.Owner {
		c.Rejected, c.RejectionReasons = s.run.Requests.Rejected, s.run.Requests.RejectionReasons
	}
	c.Children, c.Callbacks = s.Children.Snapshot(), s.Children.Callbacks
	return &c
}

// On reports whether the run may take several turns.
func (s *Session) On() bool {
	return s != nil && s.run.Flow != nil && (s.state.IsSession || s.run.Flow.StartsSessions())
}

// Conversing reports whether the run stays open between turns.
func (s *Session) Conversing() bool { return s.On() && s.state.IsSession }

// Prepare returns an error if the flow cannot be a session. It gives the session's agent the flow's conversation.
func (s *Session) Prepare() error {
	if !s.On() {
		return nil
	}
	lone := s.run.Flow.SingleAgent()
	if lone == nil && s.state.Parent == "" {
		return contract.Failf(contract.ClassBadRequest, "start it as a run, without session",
			"the flow %q cannot be a session: it is not a single agent", s.run.Flow.Name)
	}
	if lone == nil || lone.Agent.Conversation != "" {
		return nil
	}
	own := *lone.Agent
	own.Conversation = plan.ConversationFlow
	s.run.Flow.Nodes = slices.Clone(s.run.Flow.Nodes)
	s.run.Flow.Nodes[0].Agent = &own
	return nil
}

// Play takes turns until the session is stopped, or no more results are expected.
func (s *Session) Play(ctx workflow.Context) (*contract.RunResult, error) {
	s.Children.Serve(ctx)
	if s.state.Count == 0 {
		s.beginTurn(ctx, contract.Turn{})
	}
	var err error
	for more := true; more && err == nil; {
		if t := s.latest(); t != nil && !t.Done() {
			err = s.runTurn(ctx)
		}
		if err == nil {
			more, err = s.next(ctx)
		}
	}
	if err != nil {
		return s.leave(ctx, err)
	}
	return s.close(ctx)
}

func (s *Session) latest() *contract.Turn {
	if len(s.state.Turns) == 0 {
		return nil
	}
	return &s.state.Turns[len(s.state.Turns)-1]
}

// beginTurn records the beginning of a turn, and notifies the parent session.
func (s *Session) beginTurn(ctx workflow.Context, t contract.Turn) {
	s.state.Count++
	t.N, t.Status, t.StartedAt = s.state.Count, contract.TurnRunning, new(workflow.Now(ctx).UTC())
	s.run.Shared.Turn, s.state.Spent = s.state.Count, s.run.Budget.Usage
	s.run.Budget.BeginTurn()
	s.state.Turns = append(s.state.Turns, t)
	s.trim()
	s.Idle = false
	s.host.Show(ctx, nil, nil)
	s.report(ctx, &t)
}

// runTurn runs the current turn. It returns an error if the run cannot continue with another turn.
func (s *Session) runTurn(ctx workflow.Context) error {
	turnCtx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	s.end = cancel
	if s.state.Stop != nil {
		cancel()
	}
	prompt := s.prompt
	s.prompt = nil
	err := s.host.Turn(turnCtx, s.state.Count, prompt)
	if err == nil && ctx.Err() == nil {
		err = turnCtx.Err()
	}
	s.end = nil
	if err != nil && (errors.Is(err, runtime.ErrYield) || workflow.IsContinueAsNewError(err) || ctx.Err() != nil) {
		return err
	}
	var out *contract.RunResult
	if err == nil {
		out, err = s.host.Result()
	}
	if err != nil && !s.state.IsSession {
		return err
	}
	s.finishTurn(ctx, out, err)
	return nil
}

// finishTurn records the outcome of the current turn.
func (s *Session) finishTurn(ctx workflow.Context, out *contract.RunResult, err error) {
	t := s.latest()
	t.EndedAt, t.Usage = new(workflow.Now(ctx).UTC()), new(s.run.Budget.Usage.Less(s.state.Spent))
	switch {
	case err == nil:
		t.Status, t.ResultText, t.ResultData = contract.TurnCompleted, out.ResultText, out.ResultData
	case s.state.Stop != nil && contract.Cancelled(err):
		t.Status, t.Failure = contract.TurnStopped, &contract.Failure{Class: contract.ClassCancelled, Text: plansession.Stopped}
	default:
		t.Status, t.Failure = contract.TurnFailed, contract.FailureOf(err).Bounded()
	}
	s.run.Policy.Progressed = true
	s.report(ctx, t)
	if s.state.IsSession {
		s.host.Show(ctx, t, out)
	}
	s.trim()
}

// trim drops old data beyond the limits: results of old turns and most of their failures' texts, then turns.
func (s *Session) trim() {
	all := 0
	for i := len(s.state.Turns) - 1; i >= 0; i-- {
		t := &s.state.Turns[i]
		n := subsession.ResultBytes(t)
		if t.Failure != nil {
			n, _ = contract.Size(t.Failure)
		}
		if all += n; all <= maxTurnBytes || i == len(s.state.Turns)-1 || n == 0 {
			continue
		}
		if all -= n; t.Failure != nil {
			t.Failure = &contract.Failure{Class: t.Failure.Class, Text: textutil.Cut(t.Failure.Text, maxLeftText)}
			continue
		}
		t.ResultText, t.ResultData, t.OmittedBytes = nil, nil, n
	}
	s.state.Turns = s.state.Turns[max(0, len(s.state.Turns)-maxTurns):]
}

// next waits for a prompt or a child's result and begins the next turn with it. It returns false if the session has ended.
func (s *Session) next(ctx workflow.Context) (bool, error) {
	s.Idle = true
	for {
		s.Children.ReceiveTurns()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case s.state.Stop != nil:
			return false, nil
		case len(s.state.Queue) > 0 || len(s.Children.Callbacks) > 0:
			return true, s.beginNext(ctx)
		case s.hasWork(): // no result is expected
			return false, nil
		}
		s.host.Show(ctx, nil, nil)
		err := wait.Until(ctx, func() bool { return s.hasWork() || s.blocksParent() || s.run.Policy.ShouldYield(ctx, s.weight()) })
		if err == nil && !s.hasWork() {
			err = s.continueIdle(ctx)
		}
		if err != nil {
			return false, err
		}
	}
}

// hasWork reports whether an idle session has to begin a turn or end.
func (s *Session) hasWork() bool {
	return s.state.Stop != nil || len(s.state.Queue) > 0 || len(s.Children.Callbacks) > 0 || !s.state.IsSession && !s.Children.Expects()
}

// continueIdle continues an idle session in a new run; it returns nil if that is postponed.
func (s *Session) continueIdle(ctx workflow.Context) error {
	if !s.blocksParent() {
		_, err := s.host.HandOver(ctx, nil)
		if err != nil || s.run.Requests.Owner || !s.run.Policy.Asked {
			return err
		}
	}
	return contract.Failf(contract.ClassStateTooLarge, "give the workers a store (store.dir), or split the work into several sessions",
		"the parent session continues as new, and this session's conversation of %d bytes is too large for its snapshot", s.weight())
}

// blocksParent reports whether the parent waits for this session to yield, which it cannot because its conversation is too large.
func (s *Session) blocksParent() bool {
	return !s.run.Requests.Owner && s.run.Policy.Asked && s.weight() > s.run.Sizes.Limit()/4*3
}

// weight returns the minimum size of an idle session's snapshot.
func (s *Session) weight() int {
	if t := s.run.Conversation.Thread; t != nil {
		return t.Bytes
	}
	return 0
}

// beginNext begins a turn with the next queued prompt or, if there is none, with the results of child sessions.
func (s *Session) beginNext(ctx workflow.Context) error {
	var t contract.Turn
	var prompt contract.Prompt
	if len(s.state.Queue) > 0 {
		prompt, s.state.Queue = s.state.Queue[0], s.state.Queue[1:]
		t.ID, t.Hash = prompt.ID, prompt.Hash
		s.prompt = &prompt
	} else {
		t.Callbacks, prompt.Text = s.Children.TakeCallbacks()
	}
	err := s.host.Begin(s.state.Count+1, &prompt)
	if err == nil {
		s.beginTurn(ctx, t)
	}
	return err
}

// leave ends this run of the session: it continues as new, yields or fails.
func (s *Session) leave(ctx workflow.Context, err error) (*contract.RunResult, error) {
	s.leaving = true
	out, err := s.host.HandOver(ctx, err)
	if err != nil && !workflow.IsContinueAsNewError(err) {
		s.finish(ctx)
	}
	s.awaitHandlers(ctx)
	return out, err
}

// close ends the session with its result.
func (s *Session) close(ctx workflow.Context) (*contract.RunResult, error) {
	s.finish(ctx)
	s.awaitHandlers(ctx)
	out, err := s.host.Result()
	if !s.state.IsSession {
		return out, err
	}
	if err != nil {
		out = &contract.RunResult{ExitOutputs: []contract.ExitOutput{}, Usage: s.run.Budget.Usage, FlowHash: s.run.Hash, Model: s.run.Shared.Model}
	}
	out.Status, out.Turns = "stopped", s.allTurns()
	if s.run.Sizes.Fits("", out) != nil {
		out.Turns = nil
	}
	return out, nil
}

// finish records the end of the session, and ends its child sessions.
func (s *Session) finish(ctx workflow.Context) {
	s.endedAt = new(workflow.Now(ctx).UTC())
	s.Children.Release(ctx)
}

// awaitHandlers waits until all Update handlers have finished.
func (s *Session) awaitHandlers(ctx workflow.Context) {
	wait.UntilIgnoringCancel(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// report notifies the parent session of a turn's status.
func (s *Session) report(ctx workflow.Context, t *contract.Turn) {
	if s.state.Parent == "" {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	report := contract.ChildTurn{Session: s.run.Transcript.Workflow, Turn: *t, Usage: s.run.Budget.Usage, Expects: s.Children.Expects() || len(s.Children.Callbacks) > 0}
	report.Turn.Hash = ""
	// The parent's history may receive the results of many sessions, so each is cut to a share.
	subsession.Shorten(&report.Turn)
	if s.run.Sizes.Admit(ctx, "the turn's result", report) != nil {
		report.Turn.ResultText, report.Turn.ResultData, report.Turn.Status = nil, nil, contract.TurnFailed
		report.Turn.Failure = &contract.Failure{Class: contract.ClassTooLarge, Text: "the result is too large for the parent session"}
	}
	s.run.Requests.Send(ctx, s.state.Parent, contract.SignalTurn, report)
}

// LaunchAll starts the child sessions that are not running, from their snapshots.
func (s *Session) LaunchAll() {
	if s.On() {
		s.leaving = false
		s.Children.Launch()
	}
}

// Gather asks all child sessions to yield, and waits for them and for all Update handlers.
func (s *Session) Gather(ctx workflow.Context) {
	if !s.On() {
		return
	}
	s.leaving = true
	s.Children.AskToYield()
	wait.UntilIgnoringCancel(ctx, func() bool { return workflow.AllHandlersFinished(ctx) && s.Children.Stopped() })
	s.run.Policy.AwaitYieldRequests(ctx)
	s.Children.ReceiveTurns()
}
