package session

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
	words "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/subsession"
	"weft/workflows/wait"
)

// Bounds of what a session keeps.
const (
	maxQueued    = 100
	maxTurns     = 1000
	maxTurnBytes = 256 << 10
	// maxLeftText is what is left of the text of an old failure.
	maxLeftText = 100
)

// Turns are what a session makes of its run.
type Turns interface {
	// Begin makes the run begin at START again, with the n-th prompt as its input.
	Begin(n int, prompt *contract.Prompt) error
	// Turn runs the flow from where it stands to its end. prompt is what somebody asked for and no hook has seen, else nil.
	Turn(ctx workflow.Context, n int, prompt *contract.Prompt) error
	Result() (*contract.RunResult, error)
	// HandOver ends a run that stopped with err before its end. With nil it continues as new; its error is nil if that is put off.
	HandOver(ctx workflow.Context, err error) (*contract.RunResult, error)
	// Show shows how the session stands. ended is a turn that has ended now, with its result unless it failed, or nil.
	Show(ctx workflow.Context, ended *contract.Turn, out *contract.RunResult)
}

// Session makes several turns of a run.
type Session struct {
	// state is what the session carries, but for its children. Unless IsSession, it ends with the turn after which nothing is expected.
	state contract.SessionState
	run   *runtime.Run
	host  Turns
	// Below are the sessions that this one has started.
	Below *subsession.Children
	// Idle says that no turn is under way; leaving, that this run of the session ends.
	Idle, leaving bool
	// endedAt is when the session ended, or nil; prompts that are queued then have no turn.
	endedAt *time.Time
	// end cancels the turn under way.
	end workflow.CancelFunc
	// prompt is that of a turn that somebody asked for, until its hook has seen it.
	prompt *contract.Prompt
}

// New is the session of a run, as the run was started or as the one before left it. It is off in most runs.
func New(r *runtime.Run, h Turns, in *contract.RunInput) *Session {
	s := &Session{run: r, host: h, state: contract.SessionState{IsSession: in.Session, Parent: in.Parent}}
	if in.Snapshot != nil && in.Snapshot.Session != nil {
		// Before the first Update is looked at.
		s.state = *in.Snapshot.Session
		r.Requests.Rejected, r.Requests.RejectionReasons = s.state.Rejected, s.state.RejectionReasons
	}
	s.Below = subsession.New(r, s.state.Children, s.state.Callbacks)
	s.state.Children, s.state.Callbacks, s.state.Rejected, s.state.RejectionReasons = nil, nil, 0, nil
	return s
}

// Snapshot is what the session's next run goes on with.
func (s *Session) Snapshot() *contract.SessionState {
	c := s.state
	if !s.run.Requests.Owner {
		c.Rejected, c.RejectionReasons = s.run.Requests.Rejected, s.run.Requests.RejectionReasons
	}
	c.Children, c.Callbacks = s.Below.Snapshot(), s.Below.Callbacks
	return &c
}

// On reports whether the run takes turns at all.
func (s *Session) On() bool {
	return s != nil && s.run.Flow != nil && (s.state.IsSession || s.run.Flow.StartsSessions())
}

// Conversing reports whether the run stays open between turns.
func (s *Session) Conversing() bool { return s.On() && s.state.IsSession }

// Settle refuses a session of a flow that cannot converse, and gives its agent the flow's conversation.
func (s *Session) Settle() error {
	if !s.On() {
		return nil
	}
	lone := s.run.Flow.LoneAgent()
	if lone == nil && s.state.Parent == "" {
		return contract.Failf(contract.ClassBadRequest, "start it as a run, without session",
			"the flow %q cannot be a session: it is not one agent alone", s.run.Flow.Name)
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

// Play takes turns until the session is stopped, or nothing more is expected.
func (s *Session) Play(ctx workflow.Context) (*contract.RunResult, error) {
	s.Below.Serve(ctx)
	if s.state.Count == 0 {
		s.begin(ctx, contract.Turn{})
	}
	var err error
	for more := true; more && err == nil; {
		if t := s.latest(); t != nil && !t.Done() {
			err = s.turn(ctx)
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

// begin notes that a turn begins, and tells the session above.
func (s *Session) begin(ctx workflow.Context, t contract.Turn) {
	s.state.Count++
	t.N, t.Status, t.StartedAt = s.state.Count, contract.TurnRunning, new(workflow.Now(ctx).UTC())
	s.run.Shared.Turn, s.state.Spent = s.state.Count, s.run.Budget.Usage
	s.run.Budget.BeginTurn()
	s.state.Turns = append(s.state.Turns, t)
	s.trim()
	s.Idle = false
	s.host.Show(ctx, nil, nil)
	s.tell(ctx, &t)
}

// turn plays the turn under way. It fails where the run cannot go on with another.
func (s *Session) turn(ctx workflow.Context) error {
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	s.end = cancel
	if s.state.Stop != nil {
		cancel()
	}
	given := s.prompt
	s.prompt = nil
	err := s.host.Turn(tctx, s.state.Count, given)
	if err == nil && ctx.Err() == nil {
		err = tctx.Err()
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
	s.ended(ctx, out, err)
	return nil
}

// ended keeps what a turn gave.
func (s *Session) ended(ctx workflow.Context, out *contract.RunResult, err error) {
	t := s.latest()
	t.EndedAt, t.Usage = new(workflow.Now(ctx).UTC()), new(s.run.Budget.Usage.Less(s.state.Spent))
	switch {
	case err == nil:
		t.Status, t.ResultText, t.ResultData = contract.TurnCompleted, out.ResultText, out.ResultData
	case s.state.Stop != nil && contract.Cancelled(err):
		t.Status, t.Failure = contract.TurnStopped, &contract.Failure{Class: contract.ClassCancelled, Text: words.Stopped}
	default:
		t.Status, t.Failure = contract.TurnFailed, contract.FailureOf(err).Bounded()
	}
	s.run.Policy.Moved = true
	s.tell(ctx, t)
	if s.state.IsSession {
		s.host.Show(ctx, t, out)
	}
	s.trim()
}

// trim drops what is too much to keep: results of old turns and all but the class of their failures, then the turns.
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

// next waits for something to do and begins the next turn with it. It gives false where the session has come to its end.
func (s *Session) next(ctx workflow.Context) (bool, error) {
	s.Idle = true
	for {
		s.Below.ReceiveTurns()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case s.state.Stop != nil:
			return false, nil
		case len(s.state.Queue) > 0 || len(s.Below.Callbacks) > 0:
			return true, s.again(ctx)
		case s.news(): // nothing is expected
			return false, nil
		}
		s.host.Show(ctx, nil, nil)
		err := wait.Until(ctx, func() bool { return s.news() || s.heavy() || s.run.Policy.ShouldYield(ctx, s.weight()) })
		if err == nil && !s.news() {
			err = s.goOn(ctx)
		}
		if err != nil {
			return false, err
		}
	}
}

// news reports whether an idle session has something to do.
func (s *Session) news() bool {
	return s.state.Stop != nil || len(s.state.Queue) > 0 || len(s.Below.Callbacks) > 0 || !s.state.IsSession && !s.Below.Expects()
}

// goOn has an idle session go on in a new run; it gives nil where that is put off.
func (s *Session) goOn(ctx workflow.Context) error {
	if !s.heavy() {
		_, err := s.host.HandOver(ctx, nil)
		if err != nil || s.run.Requests.Owner || !s.run.Policy.Asked {
			return err
		}
	}
	return contract.Failf(contract.ClassStateTooLarge, "set a store in the worker's settings, or give the work to several sessions",
		"the session above goes on in a new run, and this one's conversation of %d bytes is too large to go with it", s.weight())
}

// heavy reports whether the session above waits for this one to yield, which carries too much to: no wait would ever end that.
func (s *Session) heavy() bool {
	return !s.run.Requests.Owner && s.run.Policy.Asked && s.weight() > s.run.Sizes.Limit()/4*3
}

// weight is what an idle session would carry at least.
func (s *Session) weight() int {
	if t := s.run.Conversation.Thread; t != nil {
		return t.Bytes
	}
	return 0
}

// again begins a turn with the next prompt: one that somebody sent, else the results of children that have ended since.
func (s *Session) again(ctx workflow.Context) error {
	var t contract.Turn
	var prompt contract.Prompt
	if len(s.state.Queue) > 0 {
		prompt, s.state.Queue = s.state.Queue[0], s.state.Queue[1:]
		t.ID, t.Hash = prompt.ID, prompt.Hash
		s.prompt = &prompt
	} else {
		t.Callbacks, prompt.Text = s.Below.Called()
	}
	err := s.host.Begin(s.state.Count+1, &prompt)
	if err == nil {
		s.begin(ctx, t)
	}
	return err
}

// leave is where this run of the session ends and the session does not, or cannot go on.
func (s *Session) leave(ctx workflow.Context, err error) (*contract.RunResult, error) {
	s.leaving = true
	out, err := s.host.HandOver(ctx, err)
	if err != nil && !workflow.IsContinueAsNewError(err) {
		s.finish(ctx)
	}
	s.quiet(ctx)
	return out, err
}

// close ends the session with its result.
func (s *Session) close(ctx workflow.Context) (*contract.RunResult, error) {
	s.finish(ctx)
	s.quiet(ctx)
	out, err := s.host.Result()
	if !s.state.IsSession {
		return out, err
	}
	if err != nil {
		out = &contract.RunResult{ExitOutputs: []contract.ExitOutput{}, Usage: s.run.Budget.Usage, FlowHash: s.run.Hash, Model: s.run.Shared.Model}
	}
	out.Status, out.Turns = "stopped", s.shown()
	if s.run.Sizes.Fits("", out) != nil {
		out.Turns = nil
	}
	return out, nil
}

// finish notes that the session is over, and lets those below go.
func (s *Session) finish(ctx workflow.Context) {
	s.endedAt = new(workflow.Now(ctx).UTC())
	s.Below.Release(ctx)
}

// quiet waits until Updates under way have their answers.
func (s *Session) quiet(ctx workflow.Context) {
	wait.Uncancelled(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// tell tells the session above how a turn stands.
func (s *Session) tell(ctx workflow.Context, t *contract.Turn) {
	if s.state.Parent == "" {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	report := contract.ChildTurn{Session: s.run.Transcript.Workflow, Turn: *t, Usage: s.run.Budget.Usage, Expects: s.Below.Expects() || len(s.Below.Callbacks) > 0}
	report.Turn.Hash = ""
	// Results of many sessions meet in the history above, which is given no more of each than this.
	subsession.Shorten(&report.Turn)
	if s.run.Sizes.Admit(ctx, "the turn's result", report) != nil {
		report.Turn.ResultText, report.Turn.ResultData, report.Turn.Status = nil, nil, contract.TurnFailed
		report.Turn.Failure = &contract.Failure{Class: contract.ClassTooLarge, Text: "the result is too large for the session above"}
	}
	s.run.Requests.Send(ctx, s.state.Parent, contract.SignalTurn, report)
}

// LaunchAll starts the sessions below that are not running, with what they go on with.
func (s *Session) LaunchAll() {
	if s.On() {
		s.leaving = false
		s.Below.Launch()
	}
}

// Gather asks all sessions below to come back with what they go on with, and waits for them and for the Updates under way.
func (s *Session) Gather(ctx workflow.Context) {
	if !s.On() {
		return
	}
	s.leaving = true
	s.Below.AskToYield()
	wait.Uncancelled(ctx, func() bool { return workflow.AllHandlersFinished(ctx) && s.Below.Stopped() })
	s.run.Policy.AwaitYieldRequests(ctx)
	s.Below.ReceiveTurns()
}
