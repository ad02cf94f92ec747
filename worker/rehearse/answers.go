package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"weft/activities/contract"
)

// looks is how often a rehearsal looks at what the run waits for: every second at first, then
// every hour, for longer than any limit that a run may have waited out.
const (
	quick = 60
	looks = quick + 24*400
	// still is how often of a run that takes turns and asks no one.
	still = quick + 24*2
)

// look answers what the run waits for, and looks again later, in virtual time. n is how often
// nothing has happened in between, done how much had.
func (p *player) look(n, done int) {
	if p.env.IsWorkflowCompleted() {
		return
	}
	if now := p.progress(); now > done {
		n, done = 0, now
	}
	var st contract.Status
	if p.query(p.rec.ID, &st, contract.QueryStatus) == nil {
		p.serve(&st)
	}
	if n > 0 && p.toBeCancelled() {
		p.env.CancelWorkflow()
		return
	}
	if n >= looks || len(p.rec.Inbox) > 0 && len(st.Requests) == 0 && n >= still {
		p.noteWaiting(&st)
		p.env.CancelWorkflow()
		return
	}
	next := time.Second
	if n >= quick {
		next = time.Hour
	}
	p.env.RegisterDelayedCallback(func() { p.look(n+1, done) }, next)
}

// progress counts what has happened of the recording.
func (p *player) progress() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.made) + len(p.gates)
	for _, g := range p.gates {
		n += g.done
	}
	for _, given := range p.answer {
		if given {
			n++
		}
	}
	return n
}

// noteWaiting notes what the run waits for that the recording does not tell.
func (p *player) noteWaiting(st *contract.Status) {
	if len(st.Requests) > 0 {
		q := &st.Requests[0]
		p.note("", "what the run waits for", "a recorded answer, or the end of the run", fmt.Sprintf("%s: %s (request %s)", q.Kind, q.Text, q.ID))
		return
	}
	if d, what := p.held(); d != nil {
		p.noteAt(d.Line, "", "what comes next", what, "nothing more")
		return
	}
	p.note("", "what the run waits for", "a recorded answer, or the end of the run", "something that is not in the recording")
}

// toBeCancelled reports whether the recorded run was ended from outside, and that all it did is done; or
// that one that takes turns has become another.
func (p *player) toBeCancelled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.rec.Expect.Status
	ended := s == contract.StatusCancelled || s == Terminated
	if p.diverged() && (ended || len(p.rec.Inbox) > 0) {
		return true
	}
	if !ended || slices.ContainsFunc(p.gates, func(g *gate) bool { return len(g.pending) > 0 }) {
		return false
	}
	return !slices.ContainsFunc(p.rec.Calls, func(c Call) bool { return !p.made[c.At] })
}

// serve sends the recorded answers to open requests. A message without an id answers the open question.
func (p *player) serve(st *contract.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range st.Requests {
		q := &st.Requests[i]
		for k := range p.rec.Answers {
			a := &p.rec.Answers[k]
			id := requestOf(a)
			if q.Kind == contract.RequestRetry && contract.CallID(id) == contract.CallID(q.ID) {
				id = q.ID // attempts that were made again are not recorded
			}
			if p.answer[k] || a.During != "" || a.Kind != q.Kind || id != q.ID && (id != "" || q.Kind != contract.RequestMessage) {
				continue
			}
			p.answer[k] = true
			p.env.SignalWorkflow(a.Kind, answerOf(a, id))
			break
		}
	}
}

// answerOf is a recorded answer, for the request that is open now.
func answerOf(a *Answer, id string) any {
	var retry contract.RetryAnswer
	if a.Kind != contract.RequestRetry || json.Unmarshal(a.Value, &retry) != nil {
		return a.Value
	}
	retry.ID = id
	return retry
}

// requestOf is the id of the request that an answer names.
func requestOf(a *Answer) string {
	var v struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(a.Value, &v) // what is not an object names none
	return v.ID
}

// during gives the messages that came while a call was under way.
func (p *player) during(at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.rec.Answers {
		if a := &p.rec.Answers[k]; a.During == at && !p.answer[k] {
			p.answer[k] = true
			p.env.SignalWorkflow(a.Kind, a.Value)
		}
	}
}
