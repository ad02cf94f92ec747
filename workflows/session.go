package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	words "weft/workflows/plan/session"
	"weft/workflows/schedule"
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

// session makes several turns of a run.
type session struct {
	f *flowRun
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
	stop      *contract.CloseSessionInput
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

func newSession(f *flowRun, in *contract.RunInput) *session {
	s := &session{f: f, stays: in.Session, parent: in.Parent}
	if in.Carry != nil && in.Carry.Session != nil {
		// Before the first Update is looked at.
		s.restore(in.Carry.Session)
	}
	return s
}

// on reports whether the run takes turns at all.
func (s *session) on() bool {
	return s != nil && s.f.flow != nil && (s.stays || s.f.flow.StartsSessions())
}

// conversing reports whether the run stays open between turns.
func (s *session) conversing() bool { return s.on() && s.stays }

// settle refuses a session of a flow that cannot converse, and gives its agent the flow's
// conversation.
func (s *session) settle() error {
	f := s.f
	if !s.on() {
		return nil
	}
	lone := f.flow.LoneAgent()
	if lone == nil && s.parent == "" {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the flow %q cannot be a session: it is not one agent alone", f.flow.Name),
			Remedy: "start it as a run, without session"}
	}
	if lone == nil || lone.Agent.Conversation != "" {
		return nil
	}
	own := *lone.Agent
	own.Conversation = plan.ConversationFlow
	f.flow.Nodes = slices.Clone(f.flow.Nodes)
	f.flow.Nodes[0].Agent = &own
	return nil
}

// run takes turns until the session is stopped, or nothing more is expected.
func (s *session) run(ctx workflow.Context) (*contract.RunResult, error) {
	s.above = ctx
	s.kids, s.endKids = workflow.WithCancel(ctx)
	s.f.sessions = s
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
	s.f.shared.Turn, s.spent = s.count, s.f.usage
	s.turns = append(s.turns, t)
	s.trim()
	s.idle = false
	s.f.turnedOver(ctx)
	s.tell(ctx, &t)
}

// turn plays the turn under way. It fails where the run cannot go on with another.
func (s *session) turn(ctx workflow.Context) error {
	tctx, cancel := workflow.WithCancel(ctx)
	s.end = cancel
	var err error
	if s.stop != nil {
		cancel()
	}
	if err = s.before(tctx); err == nil {
		err = s.f.once(tctx)
	}
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
		out, err = s.f.result()
	}
	if err != nil && !s.stays {
		return err
	}
	s.ended(ctx, out, err)
	return nil
}

// before asks the hook before a turn that somebody asked for with a prompt; that before the first
// has been asked when the run began.
func (s *session) before(ctx workflow.Context) error {
	given := s.prompt
	if s.prompt = nil; given == nil {
		return nil
	}
	prompt, err := s.f.beforeTurn(ctx, s.count, given.Text)
	if err == nil && prompt != given.Text {
		err = s.f.give(fmt.Sprintf("input~%d/hook", s.count), prompt, given.Images)
	}
	return err
}

// ended keeps what a turn gave.
func (s *session) ended(ctx workflow.Context, out *contract.RunResult, err error) {
	t, now := s.latest(), workflow.Now(ctx).UTC()
	used := s.f.usage.Less(s.spent)
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
	s.f.moved = true
	s.tell(ctx, t)
	if s.stays {
		s.f.turnFinished(ctx, t, out)
	}
	s.trim()
	if s.stays && t.Status == contract.TurnCompleted && len(t.Callbacks) == 0 {
		s.f.after(ctx, out, t.N)
	}
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
		s.f.turnedOver(ctx)
		err := workflow.Await(ctx, func() bool { return s.news() || s.heavy() || s.f.wants(ctx, s.weight()) })
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
	err := s.f.continueAsNew(ctx)
	if err == nil && s.f.inbox == nil && s.f.asked {
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
	return s.f.inbox == nil && s.f.asked && s.weight() > s.f.room()/4*3
}

func (s *session) tooHeavy() error {
	return &contract.Failure{Class: contract.ClassStateTooLarge,
		Text:   fmt.Sprintf("the session above goes on in a new run, and this one's conversation of %d bytes is too large to go with it", s.weight()),
		Remedy: "set a store in the worker's settings, or give the work to several sessions"}
}

// weight is what an idle session would carry at least.
func (s *session) weight() int {
	n := 0
	if t := s.f.conversation.thread; t != nil {
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
	if err := s.f.renew(s.count+1, &prompt); err != nil {
		return err
	}
	s.begin(ctx, t)
	return nil
}

// renew makes the run begin at START again, with another input in the same conversation.
func (f *flowRun) renew(n int, prompt *contract.Prompt) error {
	if err := f.mendThread(); err != nil {
		return err
	}
	view := f.known()
	view.Outputs = nil
	schedule.ForgetVersions(&view)
	f.dropped += len(f.trace)
	f.trace, f.answers, f.conflicts, f.rest = nil, nil, nil, nil
	f.sched.Reset()
	f.entry = &contract.CarriedEntry{View: view}
	return f.give(fmt.Sprintf("input~%d", n), prompt.Text, prompt.Images)
}

// give makes a text the run's input, under a thread's name. What has images is read by reference.
func (f *flowRun) give(thread, prompt string, images []contract.Image) error {
	m := &contract.Message{Role: contract.RoleUser, Text: prompt}
	if len(images) > 0 {
		m = contract.InputMessage(prompt, images)
	}
	var err error
	f.shared.Text = ""
	f.shared.Input, err = f.store.write(f.store.open(thread), m)
	if err == nil && len(prompt) <= maxInline && len(images) == 0 {
		f.shared.Text = prompt
	}
	return err
}

// mendThread answers tool calls in whose middle a turn ended: no provider takes a
// conversation without their results.
func (f *flowRun) mendThread() error {
	t := f.conversation.thread
	if t == nil {
		return nil
	}
	answered := map[string]bool{}
	for i := len(t.entries) - 1; i >= 0; i-- {
		m, err := contract.DecodeMessage(t.entries[i].raw)
		if err != nil {
			return err
		}
		if m.Role == contract.RoleTool {
			answered[m.CallID] = true
			continue
		}
		for _, c := range m.Calls {
			if answered[c.ID] {
				continue
			}
			lost := contract.Message{Role: contract.RoleTool, Text: "the turn ended before the call had its result", CallID: c.ID, Name: c.Name, Error: true}
			if _, err := f.store.write(t, &lost); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// turnedOver shows how the run stands, as after a change of its requests.
func (f *flowRun) turnedOver(ctx workflow.Context) {
	if f.inbox != nil {
		f.turned(ctx)
		return
	}
	f.show(ctx)
}

// leave is where this run of the session ends and the session does not, or cannot go on.
func (s *session) leave(ctx workflow.Context, err error) (*contract.RunResult, error) {
	s.leaving = true
	out, err := s.f.handOver(ctx, err)
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
	out, err := s.f.result()
	if !s.stays {
		return out, err
	}
	if err != nil {
		out = &contract.RunResult{ExitOutputs: []contract.ExitOutput{}, Usage: s.f.usage, FlowHash: s.f.hash, Model: s.f.shared.Model}
	}
	out.Status, out.Turns = "stopped", s.shown()
	if s.f.guard.fits("", out) != nil {
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
	report := contract.ChildTurn{Session: s.f.store.workflow, Turn: *t, Usage: s.f.usage, Expects: s.expects() || len(s.callbacks) > 0}
	report.Turn.Hash = ""
	// Results of many sessions meet in the history above, which is given no more of each than this.
	s.shorten(&report.Turn)
	if s.f.guard.admit(ctx, "the turn's result", report) != nil {
		report.Turn.ResultText, report.Turn.ResultData = nil, nil
		report.Turn.Status = contract.TurnFailed
		report.Turn.Failure = &contract.Failure{Class: contract.ClassTooLarge, Text: "the result is too large for the session above"}
	}
	s.send(ctx, report)
}

func (s *session) send(ctx workflow.Context, report contract.ChildTurn) {
	s.f.unacknowledged = append(slices.DeleteFunc(s.f.unacknowledged, workflow.Future.IsReady),
		s.f.signal(ctx, s.parent, contract.SignalTurn, report))
}

// carry is what the session's next run goes on with.
func (s *session) carry() *contract.SessionCarry {
	c := &contract.SessionCarry{Stays: s.stays, Parent: s.parent, Turns: s.turns, Count: s.count, Queue: s.queue, Callbacks: s.callbacks, Stop: s.stop, Spent: s.spent}
	if s.f.inbox == nil {
		c.Rejected, c.Rejects = s.f.rejected, s.f.rejects
	}
	for _, k := range s.children {
		c.Children = append(c.Children, k.ChildSession)
	}
	return c
}

// restore takes over the session of the run before.
func (s *session) restore(c *contract.SessionCarry) {
	s.stays, s.parent, s.turns, s.count, s.queue, s.callbacks, s.stop, s.spent = c.Stays, c.Parent, c.Turns, c.Count, c.Queue, c.Callbacks, c.Stop, c.Spent
	s.f.rejected, s.f.rejects = c.Rejected, c.Rejects
	for i := range c.Children {
		s.children = append(s.children, &childSession{ChildSession: c.Children[i]})
	}
}
