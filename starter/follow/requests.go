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

// A run writes its open requests into its memo, up to a limit. The others, and the answers, are in
// the run's status, which the follower queries after each change, at most once a second.
const (
	// askTimeout is the timeout of the query.
	askTimeout = 5 * time.Second
	// askAgain is the pause after a query that was not answered.
	askAgain = 5 * time.Second
	// lastAsk is the timeout of the last query, after the run has closed.
	lastAsk = 2 * time.Second
)

type openRequests struct {
	open map[string]contract.Request
	// seen are the requests that are or were open, answered the ones that have an answer, by [requestKey].
	seen     map[string]contract.Request
	answered map[string]bool
	// read is the time of the last event of the run itself that was read.
	read time.Time
	// changed reports whether a message has arrived since the last query.
	changed bool
	// past are the answers from history that have not been reported yet; known reports whether they have been read.
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

// readAnswers reads the answers in a run's history once, so that they are reported in order and without a worker.
// At the end of the run it reads them again, and reports the remaining ones.
func (f *Follower) readAnswers(ctx context.Context, ended bool) {
	if f.requests.known && !ended {
		return
	}
	f.requests.known = true
	l := audit.NewReader(f.target.ID)
	l.Ended = ended
	if l.Read(ctx, history.From(f.target.Client), f.target.RunID) != nil { // the run's worker is queried instead
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
		f.updateRequests(&contract.Status{Answered: all}, maps.Clone(f.requests.open))
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

// Changes returns the number of events of the run so far.
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
	f.updateRequests(st, before)
	return true
}

// requestKey returns a unique key: a request can be reopened with the same id.
func requestKey(id string, reopened int) string { return id + " " + strconv.Itoa(reopened) }

// updateRequests reports the changes of requests in a status. Requests that were open before the query, but are
// not in the status, are closed. The caller holds f.mu.
func (f *Follower) updateRequests(st *contract.Status, before map[string]contract.Request) {
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

// open reports an open request, unless it was reported before. The caller holds f.mu.
func (f *Follower) open(q *contract.Request) {
	key := requestKey(q.ID, q.Reopened)
	if _, known := f.requests.seen[key]; known || f.requests.answered[key] {
		return
	}
	f.requests.seen[key], f.requests.open[q.ID] = *q, *q
	if f.marks.knowsRequest(q.OpenedAt, q.ID) {
		f.marks.isKnown() // counts it as a notice of the event
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

// continued reports the open requests that a run takes over from the run that it continues. The caller holds f.mu.
func (f *Follower) continued(d *history.Started) {
	if in := d.Input; in != nil && in.Snapshot != nil && in.Snapshot.Inbox != nil {
		for i := range in.Snapshot.Inbox.Open {
			f.open(&in.Snapshot.Inbox.Open[i])
		}
	}
}

// howAnswered describes how a request was answered. known reports that it was reported as open.
func howAnswered(a *contract.Answered, known bool) string {
	switch {
	case !known && strings.HasPrefix(a.ID, "message:"):
		return "sent by " + plaintext.Line(a.By, 100) // a message with an idempotency key
	case a.By != "":
		return "answered by " + plaintext.Line(a.By, 100)
	case a.Hash != "":
		return "answered"
	case known:
		return "no answer in time"
	}
	return "needs no new answer" // there is a remembered answer, or the message preceded the question
}

func (f *Follower) closed(q *contract.Request, at time.Time, how string) {
	f.notify(progress.Notice{Event: progress.EventAnswered, Time: at, Node: executionLabel(q.Execution), Request: q}, "%s %s: %s", q.Kind, plaintext.Lines(q.ID), how)
}

// executionLabel formats an execution, prefixed with its sub-agent's place.
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

// Asked returns a channel that is closed at the run's first question.
func (f *Follower) Asked() <-chan struct{} { return f.asks }

// OldestQuestion returns the oldest open request for a message, or nil.
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
