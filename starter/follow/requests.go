package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/audit"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
)

// A run writes the requests that are open into its memo, as far as they have room there. What became of them, and those
// without room, the run's status has: the follower asks for it after each change, at most once a second.
const (
	// askTimeout is how long a run's worker has to answer.
	askTimeout = 5 * time.Second
	// askAgain is how long the follower leaves a run alone whose worker did not answer.
	askAgain = 5 * time.Second
	// lastAsk is how long a run that has ended has to say what became of its requests.
	lastAsk = 2 * time.Second
)

type openRequests struct {
	open map[string]contract.Request
	// seen are those that are or were open, answered those that have their answer, by what [requestKey] returns.
	seen     map[string]contract.Request
	answered map[string]bool
	// read is the time of the last event of the run itself.
	read time.Time
	// changed reports whether somebody has sent something since the run was asked.
	changed bool
	// past are the answers that history has and that are still to be reported, known whether they were read.
	past  []contract.Answered
	known bool
}

func isAsked(e *history.Event) bool {
	switch d := e.Data.(type) {
	case *history.Started:
		return d.Input != nil && d.Input.Snapshot != nil && d.Input.Snapshot.Inbox != nil
	case *history.Listed:
		return len(d.Requests) > 0
	case *history.Message:
		return true
	}
	return false
}

// readAnswers reads, once, the answers that a run's history has, so that they are reported in their place and without a worker.
// At the end of the run it reads them again, and reports those that nobody else has.
func (f *Follower) readAnswers(ctx context.Context, ended bool) {
	if f.requests.known && !ended {
		return
	}
	f.requests.known = true
	l := audit.NewReader(f.target.ID)
	l.Ended = ended
	if l.Read(ctx, history.From(f.target.Client), f.target.RunID) != nil { // the run's worker is asked then
		return
	}
	var all []contract.Answered
	for _, r := range l.Trail().Requests {
		if r.TakenAt == nil || r.TakenAt.IsZero() || r.Outcome == audit.Open || r.Outcome == audit.Closed || r.ID == contract.RequestMessage {
			continue
		}
		a := contract.Answered{ID: r.ID, Kind: r.Kind, At: *r.TakenAt, Expired: r.Outcome == audit.Expired}
		if x := r.Taken(); x != nil {
			a.Hash, a.Author = x.Hash, contract.Author{By: x.By, OnBehalfOf: x.OnBehalfOf}
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b contract.Answered) int { return a.At.Compare(b.At) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests.past = all; ended {
		f.news(&contract.Status{Answered: all}, maps.Clone(f.requests.open))
	}
}

func (f *Follower) watchRequests(ctx context.Context) {
	var asked int64 = -1
	var next time.Time
	for range runs.Every(ctx, watchEvery) {
		now := f.Changes()
		if now == asked || time.Now().Before(next) {
			continue
		}
		if f.askRequests(ctx, askTimeout) {
			asked = now
		} else {
			next = time.Now().Add(askAgain)
		}
	}
}

// Changes counts the events of the run so far.
func (f *Follower) Changes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events
}

func (f *Follower) askRequests(ctx context.Context, patience time.Duration) bool {
	latest := *f.target
	latest.RunID, latest.QueryTimeout = "", patience
	f.mu.Lock()
	before := maps.Clone(f.requests.open)
	f.mu.Unlock()
	st, err := latest.QueryStatus(ctx)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests.changed = false
	f.news(st, before)
	return true
}

// requestKey tells requests apart: the same one can be asked, and answered, again.
func requestKey(id string, reopened int) string { return id + " " + strconv.Itoa(reopened) }

// news reports what is new of requests in a status. Requests that were open before the status was asked for, and that it
// does not have, are closed. The caller holds f.mu.
func (f *Follower) news(st *contract.Status, before map[string]contract.Request) {
	for _, a := range st.Answered {
		key := requestKey(a.ID, a.Reopened)
		if f.requests.answered[key] {
			continue
		}
		q, known := f.requests.open[a.ID]
		if !known && a.At.After(f.requests.read) { // the event that opened it may not have been read
			f.requests.changed = true
			continue
		}
		f.requests.answered[key] = true
		if !known {
			q = contract.Request{ID: a.ID, Kind: a.Kind}
		}
		delete(f.requests.open, a.ID)
		if !f.marks.knowsAnswer(a.At, a.ID) {
			f.closed(&q, a.At, howAnswered(&a, known))
		}
	}
	still := map[string]bool{}
	for i := range st.Requests {
		still[st.Requests[i].ID] = true
		f.open(&st.Requests[i])
	}
	for id, q := range before {
		if _, open := f.requests.open[id]; open && !still[id] {
			delete(f.requests.open, id)
			f.closed(&q, time.Now(), "closed: no longer needed")
		}
	}
}

// open reports that a request is open, unless it is known to be or to have been. The caller holds f.mu.
func (f *Follower) open(q *contract.Request) {
	key := requestKey(q.ID, q.Reopened)
	if _, known := f.requests.seen[key]; known || f.requests.answered[key] {
		return
	}
	f.requests.seen[key], f.requests.open[q.ID] = *q, *q
	if f.marks.knowsRequest(q.OpenedAt, q.ID) {
		f.marks.isKnown() // counts it among what the event has
		return
	}
	due := ""
	if q.DueAt != nil {
		due = fmt.Sprintf(" (until %s)", q.DueAt.Local().Format(time.DateTime))
	}
	commands, own := f.target.Commands(q), *q
	own.Text = f.target.Reworded(q.Text)
	f.notify(progress.Notice{Event: progress.EventRequest, Time: q.OpenedAt, Node: executionLabel(q.Execution), Request: &own, Commands: commands},
		"waits for %s: %s%s; answer with: %s", q.Kind, plaintext.Line(own.Text, 700), due, strings.Join(commands, " | "))
	if q.Kind == contract.RequestMessage {
		f.asked.Do(func() { close(f.asks) })
	}
}

// continued reports the requests that are open where a run continues another one. The caller holds f.mu.
func (f *Follower) continued(d *history.Started) {
	if in := d.Input; in != nil && in.Snapshot != nil && in.Snapshot.Inbox != nil {
		for i := range in.Snapshot.Inbox.Open {
			f.open(&in.Snapshot.Inbox.Open[i])
		}
	}
}

// howAnswered says how a request got its answer. known says that it was seen open.
func howAnswered(a *contract.Answered, known bool) string {
	switch {
	case !known && strings.HasPrefix(a.ID, "message:"):
		return "sent by " + plaintext.Line(a.By, 100) // a message with a key of its own
	case a.By != "":
		return "answered by " + plaintext.Line(a.By, 100)
	case a.Hash != "":
		return "answered"
	case known:
		return "no answer in time"
	}
	return "needs no new answer" // a remembered one holds, or a message came before the question
}

func (f *Follower) closed(q *contract.Request, at time.Time, how string) {
	f.notify(progress.Notice{Event: progress.EventAnswered, Time: at, Node: executionLabel(q.Execution), Request: q}, "%s %s: %s", q.Kind, plaintext.Lines(q.ID), how)
}

// executionLabel is the name of an execution in lines: a sub-agent's comes behind its place.
func executionLabel(execution string) string {
	parts := strings.Split(execution, "/")
	for i, p := range parts {
		p = history.Unescape(p)
		if i < len(parts)-1 {
			p, _, _ = strings.Cut(p, ":")
		}
		parts[i] = plaintext.Line(p, 200)
	}
	return strings.Join(parts, " › ")
}

// Asked is closed when the run asks a person for the first time.
func (f *Follower) Asked() <-chan struct{} { return f.asks }

// OldestQuestion returns the open request for a message that has waited longest, or nil.
func (f *Follower) OldestQuestion() *contract.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var oldest *contract.Request
	for _, q := range f.requests.open {
		if q.Kind == contract.RequestMessage && (oldest == nil || q.OpenedAt.Before(oldest.OpenedAt)) {
			oldest = &q
		}
	}
	return oldest
}
