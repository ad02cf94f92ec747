package rehearse

import (
	"encoding/json"
	"fmt"
	"time"

	"weft/activities/contract"
)

// looks is how often a rehearsal looks at what the run waits for: every second at first, then
// every hour, for longer than any limit that a run may have waited out.
const (
	quick = 60
	looks = quick + 24*400
)

// look answers what the run waits for, and looks again later, in virtual time.
func (p *player) look(n int) {
	if p.env.IsWorkflowCompleted() {
		return
	}
	var st contract.Status
	if v, err := p.env.QueryWorkflow(contract.QueryStatus); err == nil && v.Get(&st) == nil {
		p.serve(&st)
	}
	if n > 0 && p.toBeCancelled() {
		p.env.CancelWorkflow()
		return
	}
	if n >= looks {
		what := "something that the recording does not tell"
		if len(st.Requests) > 0 {
			q := &st.Requests[0]
			what = fmt.Sprintf("%s: %s (request %s)", q.Kind, q.Text, q.ID)
		}
		p.differ("", "what the run waits for", "an answer of the recording, or the run's end", what)
		p.env.CancelWorkflow()
		return
	}
	next := time.Second
	if n >= quick {
		next = time.Hour
	}
	p.env.RegisterDelayedCallback(func() { p.look(n + 1) }, next)
}

// toBeCancelled says that the recorded run was ended from outside, and that all it did is done.
func (p *player) toBeCancelled() bool {
	if s := p.rec.Expect.Status; s != contract.StatusCancelled && s != Terminated {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.found) > 0 {
		return true
	}
	for i := range p.rec.Calls {
		if !p.made[p.rec.Calls[i].At] {
			return false
		}
	}
	return true
}

// serve gives the recorded answers to what is open. A message without a request's id answers the
// question that is open.
func (p *player) serve(st *contract.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range st.Requests {
		q := &st.Requests[i]
		for k := range p.rec.Answers {
			a := &p.rec.Answers[k]
			id := requestOf(a)
			if p.answer[k] || a.During != "" || a.Kind != q.Kind || id != q.ID && (id != "" || q.Kind != contract.RequestMessage) {
				continue
			}
			p.answer[k] = true
			p.env.SignalWorkflow(a.Kind, a.Value)
			break
		}
	}
}

// requestOf is the id of the request that an answer names.
func requestOf(a *Answer) string {
	var v struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(a.Value, &v) // what is no object names none
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
