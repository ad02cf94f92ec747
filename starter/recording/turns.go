package recording

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/worker/rehearse"
)

// mailbox collects the messages and results that a run received, by workflow task.
type mailbox struct {
	r *recorder
	// run is the place of the run.
	run string
	// off reports that the run's order is not recorded, because it is not part of a flow.
	off bool
	// waiting are the arrivals since the last task started, given the delivery to the current task.
	waiting, given rehearse.Delivery
	// began is the start of the current task, last the index of the last delivery in the recorder's inbox.
	began time.Time
	last  int
}

// delivery is the delivery to a workflow task, with its start time.
type delivery struct {
	rehearse.Delivery
	began time.Time
}

func (c *recordedRun) turns(s *history.Started) {
	in := s.Input
	c.inbox.off = s.Type != contract.WorkflowFlow && s.Type != contract.WorkflowBranch
	if in != nil && (in.Session || in.Snapshot != nil && in.Snapshot.Session != nil || in.Flow.Plan != nil && in.Flow.Plan.StartsSessions()) {
		c.takesTurns = true
	}
	if in == nil || in.Snapshot == nil || in.Snapshot.Session == nil {
		return
	}
	for i := range in.Snapshot.Session.Turns {
		c.addTurn(&in.Snapshot.Session.Turns[i])
	}
}

// addTurn records the result of a turn of the run itself when it is first seen: later it may be omitted.
func (c *recordedRun) addTurn(t *contract.Turn) {
	if _, ok := c.turnResults[t.N]; !ok && c.id == c.root && t.N > 0 && t.Done() {
		c.turnResults[t.N] = rehearse.NewTurn("", t)
	}
}

func (r *recorder) turnsBefore() []rehearse.Turn {
	return slices.SortedFunc(maps.Values(r.turnResults), func(x, y rehearse.Turn) int { return cmp.Compare(x.N, y.N) })
}

func (r *recorder) relativeID(id string) string {
	if id == r.root {
		return ""
	}
	return strings.TrimPrefix(id, r.root+"/")
}

// begin records the start of a workflow task, which also receives the delivery of a failed task before it.
func (b *mailbox) begin(at time.Time) {
	w := &b.waiting
	b.began = at
	b.given.Ended = append(b.given.Ended, w.Ended...)
	b.given.Closed = append(b.given.Closed, w.Closed...)
	b.given.Turns = append(b.given.Turns, w.Turns...)
	b.given.Resumed = append(b.given.Resumed, w.Resumed...)
	b.given.Prompts = append(b.given.Prompts, w.Prompts...)
	if w.Stop != nil {
		b.given.Stop = w.Stop
	}
	b.given.Cancelled = b.given.Cancelled || w.Cancelled
	b.waiting = rehearse.Delivery{}
}

// end records the end of a workflow task. The Updates that it accepted follow.
func (b *mailbox) end() {
	if b.off {
		return
	}
	b.given.Run = b.run
	b.last = len(b.r.inbox)
	b.r.inbox = append(b.r.inbox, delivery{b.given, b.began})
	b.given = rehearse.Delivery{}
}

// ended records the end of a call. It replaces an earlier end of the same call, which an operator retried.
func (b *mailbox) ended(at string) {
	if b.off {
		return
	}
	for i := range b.r.inbox {
		d := &b.r.inbox[i]
		if d.Run == b.run {
			d.Ended = slices.DeleteFunc(d.Ended, func(old string) bool { return old == at })
		}
	}
	b.waiting.Ended = append(b.waiting.Ended, at)
}

// closed records the end of a child, unless the child yielded to the continued run.
func (b *mailbox) closed(d *history.ChildEnded) {
	if b.off || d.Type == contract.WorkflowWebhookDelivery || d.Result != nil && d.Result.Yielded != nil || d.Branch != nil && d.Branch.Yielded != nil {
		return
	}
	status := rehearse.Ended
	if d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED || d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT {
		status = rehearse.Terminated
	}
	b.waiting.Closed = append(b.waiting.Closed, rehearse.ClosedRun{Run: b.r.relativeID(d.ID), Status: status})
}

func (b *mailbox) signalled(m *history.Message) {
	in, resumes := m.Body.(*contract.PromptInput)
	switch turn, ok := m.Body.(*contract.ChildTurn); {
	case b.off:
	case ok:
		b.waiting.Turns = append(b.waiting.Turns, rehearse.NewTurn(b.r.relativeID(turn.Session), &turn.Turn))
	case resumes && m.FromWorkflow:
		b.waiting.Resumed = append(b.waiting.Resumed, in.ID)
	default:
		b.asked(&b.waiting, m)
	}
}

func (b *mailbox) updated(m *history.Message) {
	if !b.off && b.last >= 0 {
		b.asked(&b.r.inbox[b.last].Delivery, m)
	}
}

func (b *mailbox) asked(to *rehearse.Delivery, m *history.Message) {
	switch in := m.Body.(type) {
	case *contract.PromptInput:
		id := cmp.Or(in.ID, m.UpdateID)
		key := [2]string{b.run, id}
		if id != "" && b.r.prompted[key] {
			return // a repetition
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

// order sorts the deliveries of all runs by time if one of them is a session or calls were in flight
// concurrently; otherwise there is only one possible order.
func (r *recorder) order() {
	if !r.takesTurns && !r.overlapped() {
		return
	}
	slices.SortStableFunc(r.inbox, func(x, y delivery) int { return x.began.Compare(y.began) })
	for i := range r.inbox {
		if d := &r.inbox[i]; !d.Empty() && (r.over.IsZero() || !d.began.After(r.over)) {
			r.rec.Inbox = append(r.rec.Inbox, d.Delivery)
		}
	}
}

// overlapped reports whether a call was made before the result of an earlier call was delivered.
func (r *recorder) overlapped() bool {
	given := map[string]time.Time{}
	for i := range r.inbox {
		for _, at := range r.inbox[i].Ended {
			given[at] = r.inbox[i].began
		}
	}
	calls := slices.SortedFunc(maps.Keys(r.asked), func(x, y string) int { return r.asked[x].Compare(r.asked[y]) })
	var last time.Time
	for i, at := range calls {
		if end, ok := given[at]; i > 0 && r.asked[at].Before(last) || !ok && i+1 < len(calls) {
			return true
		} else if end.After(last) {
			last = end
		}
	}
	return false
}
