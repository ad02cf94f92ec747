package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/workflows/plan"
)

// Reader reads the histories of the run at the root of a tree, which owns the requests of the
// tree: its history has every answer, and every request of a branch or a
// sub-agent. The root's own requests are in its memo; [Reader.explain] finds the ones that the memo omits by their hash.
type Reader struct {
	// Ended reports whether the run has closed, so that its open requests are closed.
	Ended bool

	out    Trail
	byID   map[string]*Request
	flow   *plan.Flow
	source plan.Source
	// messages are the messages of the root's own agents, failed its failed calls.
	messages []agentMessage
	failed   map[string]failedCall
	// listed are the requests in the latest memo, more is the number of requests that it omits.
	listed []contract.Request
	more   int

	// run is the run being read, task its workflow time: the start of its last workflow task, or the end of a local activity; unsettled are times that the next task sets.
	run          string
	task         time.Time
	pendingTimes []*time.Time
}

type agentMessage struct {
	exec, turn string
	message    *contract.Message
	at         *time.Time
}

type failedCall struct {
	failure *contract.Failure
	at      *time.Time
}

// NewReader returns an empty reader of a run's trail.
func NewReader(id string) *Reader {
	return &Reader{out: Trail{Run: id, Requests: []*Request{}}, byID: map[string]*Request{}, failed: map[string]failedCall{}}
}

// Read reads a run and the runs that it continues.
func (l *Reader) Read(ctx context.Context, from history.Source, run string) error {
	for e, err := range history.ReadAlone(ctx, from, l.out.Run, run) {
		if err == nil {
			err = l.Add(&e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Add adds the next event of the run, or of a map's element that runs in it.
func (l *Reader) Add(e *history.Event) error {
	at := e.Time
	switch d := e.Data.(type) {
	case *history.Missing:
		l.out.Incomplete = fmt.Sprintf("the beginning of the run's history is no longer retained: read the history of the run %q: %v", l.out.Run, d.Err)
	case *history.Started:
		if d.Parent != "" {
			return usage.Errorf("%q is part of another run, which has its requests; use: starter audit %s", l.out.Run, plaintext.ShellQuote(d.Parent))
		}
		l.run, l.pendingTimes = e.Run.RunID, nil
		l.out.Runs = append(l.out.Runs, l.run)
		l.started(d, at)
	case *history.Ended:
		if d.ContinuedAs == "" {
			l.out.EndedAt = &at
		}
	case *history.TaskStarted:
		for _, t := range l.pendingTimes {
			*t = at
		}
		l.pendingTimes, l.task = nil, at
	case *history.CallCompleted:
		l.completed(d)
	case *history.CallFailed:
		if !d.TimedOut {
			l.failed[d.ID] = failedCall{history.FailureOf(d.Failure), l.nextTaskTime()}
		}
	default:
		l.requestEvent(e)
	}
	return nil
}

func (l *Reader) requestEvent(e *history.Event) {
	at := e.Time
	switch d := e.Data.(type) {
	case *history.RequestExpired:
		if r := l.request(d.ID, ""); r.Outcome == Open {
			r.Outcome, r.EndedAt, r.TakenAt = Expired, &at, l.nextTaskTime()
		}
	case *history.Listed:
		l.updateListed(d, at)
	case *history.ReplySent:
		l.replied(&d.Reply, at)
	case *history.Message:
		l.received(e, d)
	case *history.UpdateCompleted:
		l.updated(d, at)
	}
}

// updateListed updates the open requests from the memo. Requests that are no longer listed and have no answer are closed.
func (l *Reader) updateListed(d *history.Listed, at time.Time) {
	for i := range d.Requests {
		l.addAnnounced(&d.Requests[i], at)
	}
	for i := range l.listed {
		id := l.listed[i].ID
		open := d.More > 0 || slices.ContainsFunc(d.Requests, func(q contract.Request) bool { return q.ID == id })
		if r := l.byID[id]; !open && r.Outcome == Open && len(r.Answers) == 0 {
			r.Outcome, r.EndedAt = Closed, &at
		}
	}
	l.listed, l.more = d.Requests, d.More
}

// Complete reports whether the memo has all open requests.
func (l *Reader) Complete() bool { return l.more == 0 }

// currentTaskTime returns the start of the current workflow task.
func (l *Reader) currentTaskTime() *time.Time {
	t := l.task
	return &t
}

// nextTaskTime returns a time that the next workflow task sets: when the run processes the event.
func (l *Reader) nextTaskTime() *time.Time {
	t := &time.Time{}
	l.pendingTimes = append(l.pendingTimes, t)
	return t
}

func (l *Reader) started(s *history.Started, at time.Time) {
	if l.out.StartedAt.IsZero() {
		l.out.StartedAt = at
	}
	l.out.Flow, l.out.FlowHash = s.Flow, s.Hash
	in := s.Input
	if in == nil {
		return
	}
	if flow, source := s.Plan(); flow != nil {
		l.flow, l.source = flow, source
		if hash, err := flow.Hash(); err == nil && in.Snapshot == nil {
			l.out.FlowHash = hash
		}
	}
	if in.Snapshot == nil || in.Snapshot.Inbox == nil {
		return
	}
	for i := range in.Snapshot.Inbox.Open {
		q := &in.Snapshot.Inbox.Open[i]
		l.addAnnounced(q, q.OpenedAt)
	}
	for _, x := range in.Snapshot.Inbox.Answered {
		r := l.request(x.ID, x.Kind)
		if r.Outcome != Open {
			continue
		}
		when := x.At
		switch r.EndedAt = &when; {
		case x.By != "":
			r.Outcome = Remembered
		case x.Hash == "":
			r.Outcome = Expired
		default:
			r.Outcome = Answered
		}
	}
}

func (l *Reader) completed(c *history.CallCompleted) {
	if !c.Clock.IsZero() {
		l.task = c.Clock
	}
	switch out := c.Result.(type) {
	case *contract.ModelResult:
		exec, turn, ok := history.CutLast(c.ID, "/model/")
		if m, err := contract.DecodeMessage(out.Message); ok && err == nil {
			turn = strings.TrimSuffix(turn, strings.TrimLeft(turn, "0123456789")) // its digits
			l.messages = append(l.messages, agentMessage{exec, turn, m, l.nextTaskTime()})
		}
	case *contract.CompileFlowResult:
		if out.Plan != nil {
			l.flow, l.out.FlowHash = out.Plan, cmp.Or(out.Hash, l.out.FlowHash)
			l.source = out.Source
		}
	}
}

// replied records an answer that the root forwarded without having received one.
func (l *Reader) replied(reply *contract.Reply, at time.Time) {
	r := l.request(reply.ID, "")
	for i := range r.Answers {
		if x := &r.Answers[i]; r.Outcome == Open && x.Via == "signal" && x.Status == Unconfirmed && !reply.Expired {
			l.settled(r, x, true, at)
		}
	}
	switch {
	case r.Outcome != Open || len(r.Answers) > 0:
	case reply.Expired:
		r.Outcome, r.EndedAt, r.TakenAt = Expired, &at, l.currentTaskTime()
	case reply.Confirm != nil:
		r.Outcome, r.EndedAt, r.TakenAt = Remembered, &at, l.currentTaskTime()
	}
}

func (l *Reader) received(e *history.Event, m *history.Message) {
	x := &Answer{Identity: m.Identity, Via: "signal", Event: e.ID, Time: e.Time}
	if m.Update {
		x.Via, x.update = "update", m.UpdateID
		l.sent(m, x)
		return
	}
	switch q := m.Body.(type) {
	case *contract.Request:
		if q.ID != "" {
			l.addAnnounced(q, e.Time)
		}
	case *contract.RequestID:
		if r := l.byID[q.ID]; r != nil && r.Outcome == Open && len(r.Answers) == 0 {
			r.Outcome, r.EndedAt = Closed, &x.Time
		}
	default:
		if slices.Contains(contract.Requests, m.Name) {
			l.sent(m, x)
		}
	}
}

func (l *Reader) updated(u *history.UpdateCompleted, at time.Time) {
	for _, r := range l.out.Requests {
		for i := range r.Answers {
			x := &r.Answers[i]
			if x.update != u.UpdateID || x.update == "" || x.Status != Pending {
				continue
			}
			if l.settled(r, x, u.Failure == nil, at); u.Failure != nil {
				x.Refusal = history.FailureText(u.Failure)
			}
		}
	}
}

func (l *Reader) settled(r *Request, x *Answer, taken bool, at time.Time) {
	switch {
	case !taken:
		x.Status = Refused
	case slices.ContainsFunc(r.Answers, func(o Answer) bool { return o.Status == Accepted }):
		x.Status = Repeated
	default:
		x.Status = Accepted
		if r.Outcome != Sent {
			r.Outcome = Answered
		}
		r.EndedAt, r.TakenAt = &at, l.currentTaskTime()
	}
}

// AddOpen adds the open requests that the run's worker reports, for a memo that omits some.
func (l *Reader) AddOpen(st *contract.Status) {
	for i := range st.Requests {
		q := &st.Requests[i]
		l.addAnnounced(q, q.OpenedAt)
	}
	l.listed = st.Requests
	if st.MoreRequests > 0 {
		l.SetIncomplete(fmt.Sprintf("the run waits for %d more requests than its worker lists at once; its own requests are not all shown", st.MoreRequests))
	}
}

// SetIncomplete records what the trail lacks.
func (l *Reader) SetIncomplete(what string) {
	if l.out.Incomplete != "" {
		what = l.out.Incomplete + "; " + what
	}
	l.out.Incomplete = what
}
