package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	words "weft/workflows/plan/session"
)

// A session is a run that stays open when its agent has answered: the next prompt is another
// turn in the same conversation. A turn is the whole flow once more, from START. While it is
// idle the run waits for an Update or a signal, without a timer. A run whose agent has started
// sessions of others takes turns, too, until it has heard of all of them.

// Bounds of what a session keeps.
const (
	maxQueued    = 100
	maxTurns     = 1000
	maxTurnBytes = 256 << 10
	// maxLeftText is what is left of the text of an old failure.
	maxLeftText = 100
	// maxCallback is how much of children's results one turn is given.
	maxCallback = 256 << 10
)

// turns are what a session makes of its run.
type turns interface {
	// begin makes the run begin at START again, with the n-th prompt as its input.
	begin(n int, prompt *contract.Prompt) error
	// turn runs the flow from where it stands to its end. prompt is what somebody asked for and no hook has
	// seen, else nil.
	turn(ctx workflow.Context, n int, prompt *contract.Prompt) error
	result() (*contract.RunResult, error)
	// continueAsNew ends this run with what the next one goes on with. It gives nil where that is put off.
	continueAsNew(ctx workflow.Context) error
	// handOver decides what becomes of a run that stopped with err where it did not end.
	handOver(ctx workflow.Context, err error) (*contract.RunResult, error)
}

// shower shows how a session stands.
type shower interface {
	changed(ctx workflow.Context)
	// ended is called with each turn that has ended; out is nil where it failed.
	ended(ctx workflow.Context, t *contract.Turn, out *contract.RunResult)
}

// session makes several turns of a run.
type session struct {
	run  *run
	host turns
	view shower
	// stays says that the run is open until it is stopped. Otherwise it ends with the turn
	// after which nothing is expected.
	stays  bool
	parent string
	// turns are the last ones, count all of them.
	turns     []contract.Turn
	count     int
	queue     []contract.Prompt
	callbacks []contract.ChildTurn
	spent     contract.Usage
	children  []*childSession
	stop      *contract.StopInput
	// idle says that no turn is under way; leaving, that this run of the session ends; over,
	// that the session does.
	idle, leaving, over bool
	// gone is when it did; prompts that are queued then have no turn.
	endedAt *time.Time
	// end cancels the turn under way. kids is the context of the sessions below.
	end workflow.CancelFunc
	// above is the context of the run itself.
	kids, above workflow.Context
	endKids     workflow.CancelFunc
	// prompt is that of a turn that somebody asked for, until its hook has seen it.
	prompt      *contract.Prompt
	turnSignals workflow.ReceiveChannel
	asked       []askedBy
}

func newSession(r *run, h turns, v shower, in *contract.RunInput) *session {
	s := &session{run: r, host: h, view: v, stays: in.Session, parent: in.Parent}
	if in.Carry != nil && in.Carry.Session != nil {
		// Before the first Update is looked at.
		s.restore(in.Carry.Session)
	}
	return s
}

// on reports whether the run takes turns at all.
func (s *session) on() bool {
	return s != nil && s.run.flow != nil && (s.stays || s.run.flow.StartsSessions())
}

// conversing reports whether the run stays open between turns.
func (s *session) conversing() bool { return s.on() && s.stays }

// settle refuses a session of a flow that cannot converse, and gives its agent the flow's
// conversation.
func (s *session) settle() error {
	if !s.on() {
		return nil
	}
	lone := s.run.flow.LoneAgent()
	if lone == nil && s.parent == "" {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the flow %q cannot be a session: it is not one agent alone", s.run.flow.Name),
			Remedy: "start it as a run, without session"}
	}
	if lone == nil || lone.Agent.Conversation != "" {
		return nil
	}
	own := *lone.Agent
	own.Conversation = plan.ConversationFlow
	s.run.flow.Nodes = slices.Clone(s.run.flow.Nodes)
	s.run.flow.Nodes[0].Agent = &own
	return nil
}

// play takes turns until the session is stopped, or nothing more is expected.
func (s *session) play(ctx workflow.Context) (*contract.RunResult, error) {
	s.above = ctx
	s.kids, s.endKids = workflow.WithCancel(ctx)
	s.listen(ctx)
	s.launchAll()
	if s.count == 0 {
		s.begin(ctx, contract.Turn{})
	}
	for {
		if t := s.latest(); t != nil && !t.Done() {
			if err := s.turn(ctx); err != nil {
				return s.leave(ctx, err)
			}
		}
		more, err := s.next(ctx)
		if err != nil {
			return s.leave(ctx, err)
		}
		if !more {
			return s.close(ctx)
		}
	}
}

func (s *session) latest() *contract.Turn {
	if len(s.turns) == 0 {
		return nil
	}
	return &s.turns[len(s.turns)-1]
}

// begin notes that a turn begins, and tells the session above.
func (s *session) begin(ctx workflow.Context, t contract.Turn) {
	now := workflow.Now(ctx).UTC()
	s.count++
	t.N, t.Status, t.Begun = s.count, contract.TurnRunning, &now
	s.run.shared.Turn, s.spent = s.count, s.run.budget.usage
	s.turns = append(s.turns, t)
	s.trim()
	s.idle = false
	s.view.changed(ctx)
	s.tell(ctx, &t)
}

// turn plays the turn under way. It fails where the run cannot go on with another.
func (s *session) turn(ctx workflow.Context) error {
	tctx, cancel := workflow.WithCancel(ctx)
	s.end = cancel
	if s.stop != nil {
		cancel()
	}
	given := s.prompt
	s.prompt = nil
	err := s.host.turn(tctx, s.count, given)
	if err == nil && tctx.Err() != nil && ctx.Err() == nil {
		err = tctx.Err()
	}
	s.end = nil
	defer cancel()
	if err != nil && (isYield(err) || workflow.IsContinueAsNewError(err) || ctx.Err() != nil) {
		return err
	}
	var out *contract.RunResult
	if err == nil {
		out, err = s.host.result()
	}
	if err != nil && !s.stays {
		return err
	}
	s.ended(ctx, out, err)
	return nil
}

// ended keeps what a turn gave.
func (s *session) ended(ctx workflow.Context, out *contract.RunResult, err error) {
	t, now := s.latest(), workflow.Now(ctx).UTC()
	used := s.run.budget.usage.Less(s.spent)
	t.Ended, t.Usage = &now, &used
	switch {
	case err == nil:
		t.Status, t.ResultText, t.ResultData = contract.TurnCompleted, out.ResultText, out.ResultData
	case s.stop != nil && contract.Cancelled(err):
		t.Status = contract.TurnStopped
		t.Failure = &contract.Failure{Class: contract.ClassCancelled, Text: words.Stopped}
	default:
		t.Status, t.Failure = contract.TurnFailed, contract.FailureOf(err).Bounded()
	}
	s.run.policy.moved = true
	s.tell(ctx, t)
	if s.stays {
		s.view.ended(ctx, t, out)
	}
	s.trim()
}

// trim drops what is too much to keep: results of old turns and all but the class of their failures,
// then the turns.
func (s *session) trim() {
	all := 0
	for i := len(s.turns) - 1; i >= 0; i-- {
		t := &s.turns[i]
		n := len(t.ResultData)
		if t.ResultText != nil {
			n += len(*t.ResultText)
		}
		if t.Failure != nil {
			n, _ = size(t.Failure)
		}
		if all += n; all <= maxTurnBytes || i == len(s.turns)-1 || n == 0 {
			continue
		}
		if all -= n; t.Failure != nil {
			t.Failure = &contract.Failure{Class: t.Failure.Class, Text: cut(t.Failure.Text, maxLeftText)}
			continue
		}
		t.ResultText, t.ResultData, t.LeftOut = nil, nil, n
	}
	s.turns = s.turns[max(0, len(s.turns)-maxTurns):]
}

// next waits for something to do and begins the next turn with it. It gives false where
// the session has come to its end.
func (s *session) next(ctx workflow.Context) (bool, error) {
	s.idle = true
	for {
		s.hear()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case s.stop != nil:
			return false, nil
		case len(s.queue) > 0 || len(s.callbacks) > 0:
			return true, s.again(ctx)
		case !s.stays && !s.expects():
			return false, nil
		}
		s.view.changed(ctx)
		err := workflow.Await(ctx, func() bool { return s.news() || s.heavy() || s.run.policy.shouldYield(ctx, s.weight()) })
		if err != nil {
			return false, err
		}
		if s.news() {
			continue
		}
		if err := s.goOn(ctx); err != nil {
			return false, err
		}
	}
}

// goOn has an idle session go on in a new run; it gives nil where that is put off.
func (s *session) goOn(ctx workflow.Context) error {
	if s.heavy() {
		return s.tooHeavy()
	}
	err := s.host.continueAsNew(ctx)
	if err == nil && !s.run.requests.owner && s.run.policy.asked {
		return s.tooHeavy() // it turned out to be too much
	}
	return err
}

// news reports whether an idle session has something to do.
func (s *session) news() bool {
	return s.stop != nil || len(s.queue) > 0 || len(s.callbacks) > 0 || !s.stays && !s.expects()
}

// heavy says that the session above waits for this one to come back with what it goes on with,
// and that this is too much: nothing that the idle session could wait for would ever end that.
func (s *session) heavy() bool {
	return !s.run.requests.owner && s.run.policy.asked && s.weight() > s.run.policy.room()/4*3
}

func (s *session) tooHeavy() error {
	return &contract.Failure{Class: contract.ClassStateTooLarge,
		Text:   fmt.Sprintf("the session above goes on in a new run, and this one's conversation of %d bytes is too large to go with it", s.weight()),
		Remedy: "set a store in the worker's settings, or give the work to several sessions"}
}

// weight is what an idle session would carry at least.
func (s *session) weight() int {
	n := 0
	if t := s.run.conversation.thread; t != nil {
		n = t.bytes
	}
	return n
}

// again begins a turn with the next prompt: one that somebody sent, else the results of
// children that have ended since.
func (s *session) again(ctx workflow.Context) error {
	var t contract.Turn
	var prompt contract.Prompt
	if len(s.queue) > 0 {
		prompt = s.queue[0]
		s.queue = s.queue[1:]
		t.ID, t.Hash = prompt.ID, prompt.Hash
		s.prompt = &prompt
	} else {
		t.Callbacks, prompt.Text = s.called()
	}
	if err := s.host.begin(s.count+1, &prompt); err != nil {
		return err
	}
	s.begin(ctx, t)
	return nil
}

// leave is where this run of the session ends and the session does not, or cannot go on.
func (s *session) leave(ctx workflow.Context, err error) (*contract.RunResult, error) {
	s.leaving = true
	out, err := s.host.handOver(ctx, err)
	if err != nil && !workflow.IsContinueAsNewError(err) {
		s.finish(ctx)
	}
	return out, s.quiet(ctx, err)
}

// close ends the session with its result.
func (s *session) close(ctx workflow.Context) (*contract.RunResult, error) {
	s.finish(ctx)
	if err := s.quiet(ctx, nil); err != nil {
		return nil, err
	}
	out, err := s.host.result()
	if !s.stays {
		return out, err
	}
	if err != nil {
		out = &contract.RunResult{ExitOutputs: []contract.ExitOutput{}, Usage: s.run.budget.usage, FlowHash: s.run.hash, Model: s.run.shared.Model}
	}
	out.Status, out.Turns = "stopped", s.shown()
	if s.run.sizes.fits("", out) != nil {
		out.Turns = nil
	}
	return out, nil
}

// finish notes that the session is over, and lets those below go.
func (s *session) finish(ctx workflow.Context) {
	now := workflow.Now(ctx).UTC()
	s.over, s.endedAt = true, &now
	s.release(ctx)
}

// quiet waits until Updates under way have their answers.
func (s *session) quiet(ctx workflow.Context, err error) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if waited := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err == nil {
		return waited
	}
	return err
}

// tell tells the session above how a turn stands.
func (s *session) tell(ctx workflow.Context, t *contract.Turn) {
	if s.parent == "" {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	report := contract.ChildTurn{Session: s.run.transcript.workflow, Turn: *t, Usage: s.run.budget.usage, Expects: s.expects() || len(s.callbacks) > 0}
	report.Turn.Hash = ""
	// Results of many sessions meet in the history above, which is given no more of each than this.
	s.shorten(&report.Turn)
	if s.run.sizes.admit(ctx, "the turn's result", report) != nil {
		report.Turn.ResultText, report.Turn.ResultData = nil, nil
		report.Turn.Status = contract.TurnFailed
		report.Turn.Failure = &contract.Failure{Class: contract.ClassTooLarge, Text: "the result is too large for the session above"}
	}
	s.send(ctx, report)
}

func (s *session) send(ctx workflow.Context, report contract.ChildTurn) {
	s.run.requests.unacknowledged = append(slices.DeleteFunc(s.run.requests.unacknowledged, workflow.Future.IsReady),
		s.run.signal(ctx, s.parent, contract.SignalTurn, report))
}

// carry is what the session's next run goes on with.
func (s *session) carry() *contract.SessionCarry {
	c := &contract.SessionCarry{Stays: s.stays, Parent: s.parent, Turns: s.turns, Count: s.count, Queue: s.queue, Callbacks: s.callbacks, Stop: s.stop, Spent: s.spent}
	if !s.run.requests.owner {
		c.Rejected, c.Rejects = s.run.requests.rejected, s.run.requests.rejects
	}
	for _, k := range s.children {
		c.Children = append(c.Children, k.ChildSession)
	}
	return c
}

// restore takes over the session of the run before.
func (s *session) restore(c *contract.SessionCarry) {
	s.stays, s.parent, s.turns, s.count, s.queue, s.callbacks, s.stop, s.spent = c.Stays, c.Parent, c.Turns, c.Count, c.Queue, c.Callbacks, c.Stop, c.Spent
	s.run.requests.rejected, s.run.requests.rejects = c.Rejected, c.Rejects
	for i := range c.Children {
		s.children = append(s.children, &childSession{ChildSession: c.Children[i]})
	}
}
