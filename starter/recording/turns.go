package recording

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/worker/rehearse"
)

// mailbox collects what came to a run that takes turns, by workflow task.
type mailbox struct {
	r *recorder
	// run is the place of the run.
	run string
	// off reports that the run takes no turns.
	off bool
	// waiting is what has come since the last task began, given what the one under way was given.
	waiting, given rehearse.Delivery
	// last is the place of the last task's in the recording's inbox.
	last int
}

func (c *recordedRun) turns(s *history.Started) {
	in := s.Input
	c.inbox.off = s.Type != contract.WorkflowFlow || in == nil ||
		!in.Session && (in.Snapshot == nil || in.Snapshot.Session == nil) && (in.Flow.Plan == nil || !in.Flow.Plan.StartsSessions())
	if in == nil || in.Snapshot == nil || in.Snapshot.Session == nil {
		return
	}
	for i := range in.Snapshot.Session.Turns {
		c.addTurn(&in.Snapshot.Session.Turns[i])
	}
}

// addTurn notes the result of a turn of the run itself, once: later it may be omitted.
func (c *recordedRun) addTurn(t *contract.Turn) {
	if _, ok := c.turnResults[t.N]; !ok && c.id == c.root && t.N > 0 && t.Done() {
		c.turnResults[t.N] = rehearse.NewTurnOf("", t)
	}
}

func (r *recorder) turnsBefore() []rehearse.TurnOf {
	return slices.SortedFunc(maps.Values(r.turnResults), func(x, y rehearse.TurnOf) int { return cmp.Compare(x.N, y.N) })
}

func (r *recorder) below(id string) string {
	if id == r.root {
		return ""
	}
	return strings.TrimPrefix(id, r.root+"/")
}

// begin notes the start of a workflow task, which gets what a failed one before it got, too.
func (b *mailbox) begin() {
	w := &b.waiting
	b.given.Ended = append(b.given.Ended, w.Ended...)
	b.given.Closed = append(b.given.Closed, w.Closed...)
	b.given.Turns = append(b.given.Turns, w.Turns...)
	b.given.Resumed = append(b.given.Resumed, w.Resumed...)
	b.given.Prompts = append(b.given.Prompts, w.Prompts...)
	if w.Stop != nil {
		b.given.Stop = w.Stop
	}
	b.waiting = rehearse.Delivery{}
}

// end notes that it is done. Updates that it took follow it.
func (b *mailbox) end() {
	if b.off {
		return
	}
	b.given.Run = b.run
	b.last = len(b.r.rec.Inbox)
	b.r.rec.Inbox = append(b.r.rec.Inbox, b.given)
	b.given = rehearse.Delivery{}
}

// ended notes that a call has, in the end: what an operator had repeated did not.
func (b *mailbox) ended(at string) {
	if b.off {
		return
	}
	for i := range b.r.rec.Inbox {
		d := &b.r.rec.Inbox[i]
		if d.Run == b.run {
			d.Ended = slices.DeleteFunc(d.Ended, func(old string) bool { return old == at })
		}
	}
	b.waiting.Ended = append(b.waiting.Ended, at)
}

// closed notes that a run below has ended. One that gave way to a new run of this one has not.
func (b *mailbox) closed(d *history.ChildEnded) {
	if b.off || d.Result != nil && d.Result.Yielded != nil || d.Branch != nil && d.Branch.Yielded != nil {
		return
	}
	status := rehearse.Ended
	if d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED || d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT {
		status = rehearse.Terminated
	}
	b.waiting.Closed = append(b.waiting.Closed, rehearse.ClosedRun{Run: b.r.below(d.ID), Status: status})
}

func (b *mailbox) signalled(m *history.Message) {
	in, resumes := m.Body.(*contract.PromptInput)
	switch turn, ok := m.Body.(*contract.ChildTurn); {
	case b.off:
	case ok:
		b.waiting.Turns = append(b.waiting.Turns, rehearse.NewTurnOf(b.r.below(turn.Session), &turn.Turn))
	case resumes && m.FromWorkflow:
		b.waiting.Resumed = append(b.waiting.Resumed, in.ID)
	default:
		b.asked(&b.waiting, m)
	}
}

func (b *mailbox) updated(m *history.Message) {
	if !b.off && b.last >= 0 {
		b.asked(&b.r.rec.Inbox[b.last], m)
	}
}

func (b *mailbox) asked(to *rehearse.Delivery, m *history.Message) {
	switch in := m.Body.(type) {
	case *contract.PromptInput:
		id := cmp.Or(in.ID, m.UpdateID)
		key := [2]string{b.run, id}
		if id != "" && b.r.prompted[key] {
			return // the same again
		}
		b.r.prompted[key] = true
		q := rehearse.Prompt{ID: id, Prompt: in.Prompt, Media: in.Media}
		if raw, err := q.Stored(); err == nil {
			b.r.content[contract.SHA(raw)] = raw
		}
		to.Prompts = append(to.Prompts, q)
	case *contract.CloseSessionInput:
		stop := *in
		stop.By = "" // nothing depends on it
		to.Stop = &stop
	}
}
