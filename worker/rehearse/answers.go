package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"weft/activities/contract"
)

// A replay polls the state of the run without progress maxPolls times, in virtual time: secondPolls times every second, then
// every hour, which is longer than any timeout of a request. idlePolls applies to a session without open requests.
const (
	secondPolls = 60
	maxPolls    = secondPolls + 24*400
	idlePolls   = secondPolls + 24*2
)

// poll answers open requests of the run, and polls again later, in virtual time. n counts the polls
// without progress; done is the progress so far.
func (p *player) poll(n, done int) {
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
	if n > 0 && p.mustCancel() {
		p.env.CancelWorkflow()
		return
	}
	if n >= maxPolls || len(p.rec.Inbox) > 0 && len(st.Requests) == 0 && n >= idlePolls {
		p.noteWaiting(&st)
		p.env.CancelWorkflow()
		return
	}
	next := time.Second
	if n >= secondPolls {
		next = time.Hour
	}
	p.env.RegisterDelayedCallback(func() { p.poll(n+1, done) }, next)
}

// progress counts the calls, deliveries and answers of the recording so far.
func (p *player) progress() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.made) + len(p.gates)
	for _, g := range p.gates {
		n += g.done
	}
	for _, sent := range p.answer {
		if sent {
			n++
		}
	}
	return n
}

// noteWaiting notes what the run waits for that is not in the recording.
func (p *player) noteWaiting(st *contract.Status) {
	if len(st.Requests) > 0 {
		q := &st.Requests[0]
		p.note("", "the run does not continue", "a recorded answer, or the end of the run", fmt.Sprintf("%s: %s (request %s)", q.Kind, q.Text, q.ID))
		return
	}
	if d, what := p.blocked(); d != nil {
		p.noteAt(d.Line, "", "the run does not continue", what, "nothing")
		return
	}
	p.note("", "the run does not continue", "a recorded answer, or the end of the run", "it waits for something that was not recorded")
}

// mustCancel reports whether to cancel the run: all recorded calls of a run that was cancelled or terminated have been made, or
// a session or a run with an inbox has diverged.
func (p *player) mustCancel() bool {
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
				id = q.ID // repeated attempts are not recorded
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

// answerOf returns a recorded answer with the id of the open request.
func answerOf(a *Answer, id string) any {
	var retry contract.RetryAnswer
	if a.Kind != contract.RequestRetry || json.Unmarshal(a.Value, &retry) != nil {
		return a.Value
	}
	retry.ID = id
	return retry
}

// requestOf returns the id of the request that an answer names, or "".
func requestOf(a *Answer) string {
	var v struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(a.Value, &v) // not an object: no id
	return v.ID
}

// sendMessages sends the messages that were received during a call.
func (p *player) sendMessages(at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.rec.Answers {
		if a := &p.rec.Answers[k]; a.During == at && !p.answer[k] {
			p.answer[k] = true
			p.env.SignalWorkflow(a.Kind, a.Value)
		}
	}
}
