package follow

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
)

// A request leaves no event of its own in a history, but everything that opens or ends one
// leaves some event. So the follower asks the run after each change, at most once a second.
const (
	// askTimeout is how long a run's worker has to answer.
	askTimeout = 5 * time.Second
	// askAgain is how long the follower leaves a run alone whose worker did not answer.
	askAgain = 5 * time.Second
	// lastAsk is how long a run that has ended has to say what became of its requests.
	lastAsk = 2 * time.Second
)

type openRequests struct {
	open     map[string]contract.Request
	answered map[string]bool
	// changed reports whether somebody has sent something since the run was asked.
	changed bool
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
	latest.RunID, latest.Patience = "", patience
	st, err := latest.Reported(ctx)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests.changed = false
	f.news(st)
	return true
}

// news reports what is new of requests in a status. The caller holds f.mu.
func (f *Follower) news(st *contract.Status) {
	for _, a := range st.Answered {
		key := a.ID + " " + strconv.Itoa(a.Reopened) // the same one can be asked, and answered, again
		if f.requests.answered[key] {
			continue
		}
		f.requests.answered[key] = true
		q, known := f.requests.open[a.ID]
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
		q := &st.Requests[i]
		still[q.ID] = true
		if _, known := f.requests.open[q.ID]; !known {
			f.requests.open[q.ID] = *q
			if !f.marks.knowsRequest(q.OpenedAt, q.ID) {
				f.opened(q)
			}
		}
	}
	for id, q := range f.requests.open {
		if !still[id] {
			delete(f.requests.open, id)
			f.closed(&q, time.Now(), "closed: no longer needed")
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

func (f *Follower) opened(q *contract.Request) {
	due := ""
	if q.DueAt != nil {
		due = fmt.Sprintf(" (until %s)", q.DueAt.Local().Format(time.DateTime))
	}
	commands, own := f.target.Commands(q), *q
	own.Text = f.target.Worded(q.Text)
	f.notify(progress.Notice{Event: progress.EventRequest, Time: q.OpenedAt, Node: executionLabel(q.Execution), Request: &own, Commands: commands},
		"waits for %s: %s%s; answer with: %s", q.Kind, plaintext.Line(own.Text, 700), due, strings.Join(commands, " | "))
	if q.Kind == contract.RequestMessage {
		f.asked.Do(func() { close(f.asks) })
	}
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
