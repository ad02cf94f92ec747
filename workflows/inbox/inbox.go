// Package inbox manages the requests of a tree of runs in its root: open and answered requests, and
// unsolicited messages. It accepts answers by Update and by signal, and relays them.
package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// Bounds of what outsiders can make a run keep.
const (
	maxAnswered = 1000
	maxOpen     = 2000
	maxAnswer   = 1 << 20
	maxKept     = 20                    // answered requests in a status
	maxListed   = 800 << 10             // of requests in a status, so that a query's answer holds it
	maxLimit    = 100 * 365 * 24 * 3600 // seconds
	// maxRequestID is more than a request's id has, maxWorkflowID the server's limit.
	maxRequestID  = 300
	maxWorkflowID = 1000
)

// Inbox holds the requests of a tree of runs: what is open, and what was answered. It takes answers and unsolicited messages.
type Inbox struct {
	run        *runtime.Run
	Requests   []contract.Request
	answered   []contract.Answered
	remembered []contract.Remembered
	seen       []string
	seq        int
	// limits end the timers of open requests.
	limits map[string]workflow.CancelFunc
	// relays are answers still to be relayed, looking those by signal that are being looked at.
	relays  []relay
	looking []*contract.Answered
	host    Host
	// given are messages that branches have and may come back with unread; full is set where unread ones wait
	// for a workflow task with room for them.
	given []dispatched
	full  bool
}

// Host is the run whose inbox it is.
type Host interface {
	// Changed is called when there is something new to show.
	Changed(ctx workflow.Context)
	// Opened and Closed are called with each request and answer, once.
	Opened(ctx workflow.Context, req *contract.Request)
	Closed(ctx workflow.Context, a *contract.Answered)
	// Knows reports whether the flow is known yet, and whether it has a node.
	Knows(node string) (ready, found bool)
	// Route finds the branch that gets a message, nil where none that runs does.
	Route(m *contract.Inbound) (branch string, child *runtime.ChildRun)
}

// New is the empty inbox of a run, which owns the requests of its tree from then on.
func New(r *runtime.Run, h Host) *Inbox {
	d := &Inbox{run: r, host: h, limits: map[string]workflow.CancelFunc{}}
	r.Requests.Asker, r.Requests.Owner = d, true
	return d
}

// Serve registers the messages that an owner takes, and listens to runs below it.
func (d *Inbox) Serve(ctx workflow.Context) error {
	var kinds []runtime.Message
	for _, kind := range contract.Requests {
		kinds = append(kinds, runtime.Message{Name: kind, Shape: shapes[kind].whole, Handler: answers{d, kind}})
	}
	if err := d.run.Requests.Receive(ctx, kinds...); err != nil {
		return err
	}
	d.run.Requests.Listeners.Add(func() { d.receiveAnnouncements(ctx) },
		workflow.GetSignalChannel(ctx, contract.SignalRequest), workflow.GetSignalChannel(ctx, contract.SignalCloseRequest))
	return nil
}

// Drain takes in all signals that have come.
func (d *Inbox) Drain(ctx workflow.Context) {
	d.run.Requests.Drain(ctx)
	d.receiveAnnouncements(ctx)
}

// receiveAnnouncements takes in what runs below the owner say.
func (d *Inbox) receiveAnnouncements(ctx workflow.Context) {
	receive := func(name string, take func(*contract.Request) error) {
		runtime.Each(ctx, d.run.Requests, workflow.GetSignalChannel(ctx, name), func(req *contract.Request, err error) {
			if err == nil {
				err = take(req)
			}
			if err != nil {
				d.reject(ctx, name, fmt.Errorf("it is from no run of this tree: %w", err))
			}
		})
	}
	receive(contract.SignalRequest, func(req *contract.Request) error {
		if err := d.announced(req); err != nil {
			return err
		}
		return d.Open(ctx, req)
	})
	receive(contract.SignalCloseRequest, func(req *contract.Request) error {
		if req.ID == "" && req.Run.Workflow != "" {
			d.Disown(ctx, req.Run.Workflow)
			return nil
		}
		err := d.foreign(req.ID)
		if err == nil {
			d.Close(ctx, req.ID)
		}
		return err
	})
}

// shapes are the JSON of the kinds of answers, for people: the whole, and what an example has behind the id.
var shapes = map[string]struct{ whole, example string }{
	contract.RequestMessage:    {`{"text": "…"}, with "id" to answer a request, with "node" to address an agent`, `, "text": "…"`},
	contract.RequestToolResult: {`{"id": "…", "result": any JSON} or {"id": "…", "error": "…"}`, `, "result": "…"`},
	contract.RequestConfirm:    {`{"id": "…", "approve": true or false, "reason": "…"}`, `, "approve": true`},
	contract.RequestRetry:      {`{"id": "…"} when what the request names is fixed, with "give_up": true to fail the node`, ""},
}

// answers is the [runtime.MessageHandler] of the answers of a kind.
type answers struct {
	d    *Inbox
	kind string
}

func (a answers) Admit(raw json.RawMessage) error {
	_, err := a.d.admit(a.kind, raw)
	return err
}

func (a answers) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	s, err := readAnswer(a.kind, raw)
	if err != nil {
		return nil, err
	}
	return a.d.answer(ctx, s, workflow.GetCurrentUpdateInfo(ctx).ID)
}

// Signalled takes an answer by signal. A wrong one is counted and shown, and changes nothing.
func (a answers) Signalled(ctx workflow.Context, raw json.RawMessage) error {
	d := a.d
	s, err := d.admit(a.kind, raw)
	if err != nil {
		return err
	}
	d.looking = append(d.looking, s)
	wait.Go(ctx, "answer", func(ctx workflow.Context) {
		if _, err := d.answer(ctx, s, ""); err != nil {
			d.reject(ctx, a.kind, err)
		}
		d.looking = slices.DeleteFunc(d.looking, func(l *contract.Answered) bool { return l == s })
	})
	return nil
}

// Busy counts answers by signal that are being looked at, and answers still to be relayed.
func (d *Inbox) Busy() int { return len(d.looking) + len(d.relays) }

func (a answers) Refused(ctx workflow.Context, _ error) { a.d.host.Changed(ctx) }

// looked waits until all answers that have come for a request by now, or for the oldest one, are taken or refused.
func (d *Inbox) looked(ctx workflow.Context, id string) error {
	d.Drain(ctx)
	came := slices.Clone(d.looking)
	return wait.Until(ctx, func() bool {
		return !slices.ContainsFunc(came, func(l *contract.Answered) bool {
			return (l.Reply.ID == id || l.Reply.ID == "") && slices.Contains(d.looking, l)
		})
	})
}

// announced refuses what no run below this one says. Anybody can send the signal, and an answer that cannot be relayed would be
// a command that the server refuses for ever.
func (d *Inbox) announced(req *contract.Request) error {
	wf := req.Run.Workflow
	names := []string{req.Node, req.Execution, req.At, req.Hash, req.Tool, req.Name, req.Connection, req.Run.Run}
	for _, ref := range []*contract.ContentRef{req.Call, req.Catalogue} {
		if ref != nil {
			names = append(names, ref.Workflow, ref.Run, ref.SHA)
		}
	}
	switch {
	case len(req.ID) > maxRequestID:
		return fmt.Errorf("the id has %d bytes, at most %d are allowed", len(req.ID), maxRequestID)
	case !slices.Contains(contract.Requests, req.Kind):
		return fmt.Errorf("its kind is %q", textutil.Cut(req.Kind, 50))
	case wf == "" || wf == d.run.Transcript.Workflow || len(wf) > maxWorkflowID:
		return fmt.Errorf("the run that waits is %q", textutil.Cut(wf, 200))
	case len(req.Text) > 2*contract.MaxAsked || len(req.Arguments) > 8*contract.MaxShown:
		return fmt.Errorf("it has %d bytes of text and %d of arguments", len(req.Text), len(req.Arguments))
	}
	for _, name := range names {
		if len(name) > contract.MaxField+len("…") {
			return fmt.Errorf("it names something with %d bytes, at most %d are allowed: %s", len(name), contract.MaxField, textutil.Cut(name, 50))
		}
	}
	req.Failure = req.Failure.Shown()
	return d.foreign(req.ID)
}

// foreign refuses an id that is missing, or is that of a request of this run's own, which is not opened and closed by signal.
func (d *Inbox) foreign(id string) error {
	if id == "" {
		return errors.New("the id is missing")
	}
	if i := d.index(id); i >= 0 && d.Requests[i].Run.Workflow == d.run.Transcript.Workflow {
		return fmt.Errorf("the request %q is another run's", textutil.Cut(id, 200))
	}
	return nil
}

func (d *Inbox) reject(ctx workflow.Context, kind string, err error) {
	d.run.Requests.Refuse(kind, err)
	d.host.Changed(ctx)
}

// Open shows a request, unless it is shown or has its answer already: then that is given. It gives no error.
func (d *Inbox) Open(ctx workflow.Context, req *contract.Request) error {
	again, answered := d.askedAgain(req)
	if answered != nil && answered.Reply != nil {
		answered.Run = req.Run.Run
		d.relay(ctx, req, answered.Reply)
	}
	if answered != nil {
		return nil
	}
	if i := d.index(req.ID); i >= 0 {
		// It goes on in another run, which also holds what it refers to.
		q := &d.Requests[i]
		q.Run, q.Call, q.Catalogue = req.Run, req.Call, req.Catalogue
		return nil
	}
	if len(d.Requests) >= maxOpen {
		// Whoever waits must not wait for what nobody can see.
		d.reject(ctx, contract.SignalRequest, fmt.Errorf("%d requests are open, %q is not opened", maxOpen, req.ID))
		d.relay(ctx, req, &contract.Reply{ID: req.ID, Expired: true})
		return nil
	}
	own := *req
	own.OpenedAt, own.DueAt, own.Reopened = workflow.Now(ctx).UTC(), nil, again
	if own.Timeout > 0 {
		own.DueAt = new(own.OpenedAt.Add(time.Duration(min(own.Timeout, maxLimit)) * time.Second))
	}
	d.Requests = append(d.Requests, own)
	d.host.Opened(ctx, &own)
	d.run.Watch.Open(ctx, &own)
	d.watch(ctx, &own)
	d.early(ctx, &own)
	d.host.Changed(ctx)
	return nil
}

// askedAgain is what is known of a request that has its answer, else nil. The same question may come
// from another run than the one that took the answer, which an operator has reset: then it is asked
// anew, once more than before, because a yes was for one call alone.
func (d *Inbox) askedAgain(req *contract.Request) (again int, answered *contract.Answered) {
	a := d.find(req.ID)
	if a == nil || a.Reply != nil || a.Run == "" || a.Run == req.Run.Run {
		return 0, a
	}
	again = a.Reopened + 1
	d.answered = slices.DeleteFunc(d.answered, func(a contract.Answered) bool { return a.ID == req.ID })
	return again, nil
}

// watch ends a request when its time is over: no answer means no. What came by signal while no worker
// was there is looked at first: it may have come in time, and its sender is not told that it is refused.
func (d *Inbox) watch(ctx workflow.Context, req *contract.Request) {
	if req.DueAt == nil {
		return
	}
	id, left := req.ID, req.DueAt.Sub(workflow.Now(ctx))
	// The limit holds whatever becomes of the handler that opened the request.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	d.limits[id] = cancel
	wait.Go(ctx, "limit", func(ctx workflow.Context) {
		if wait.Pause(ctx, max(left, 0), "limit · "+id) != nil || d.looked(ctx, id) != nil {
			return
		}
		if i := d.index(id); i >= 0 {
			d.settle(ctx, i, contract.Answered{Reply: &contract.Reply{Expired: true}})
		}
	})
}

// early answers a confirm as the same tool was answered before, where that was to be remembered, and a question with a message
// that came before it was asked.
func (d *Inbox) early(ctx workflow.Context, req *contract.Request) {
	switch req.Kind {
	case contract.RequestConfirm:
		for _, m := range d.remembered {
			if m.Connection == req.Connection && m.Name == req.Name {
				answer := &contract.ConfirmAnswer{ID: req.ID, Approve: &m.Approve, Reason: m.Reason, Author: m.Author}
				d.settle(ctx, d.index(req.ID), contract.Answered{Author: m.Author, Reply: &contract.Reply{Confirm: answer}})
				return
			}
		}
	case contract.RequestMessage:
		for i, m := range d.run.Requests.UnreadMessages {
			if m.Node == "" || m.Node == req.Node {
				d.run.Requests.UnreadMessages = slices.Delete(d.run.Requests.UnreadMessages, i, i+1)
				answer := &contract.MessageAnswer{ID: req.ID, Text: m.Text, Author: m.Author}
				d.settle(ctx, d.index(req.ID), contract.Answered{Author: m.Author, Reply: &contract.Reply{Message: answer}})
				return
			}
		}
	}
}

// remember keeps an answer for every later call of the tool; the last one counts.
func (d *Inbox) remember(req *contract.Request, c *contract.ConfirmAnswer) {
	d.remembered = slices.DeleteFunc(d.remembered, func(m contract.Remembered) bool {
		return m.Connection == req.Connection && m.Name == req.Name
	})
	d.remembered = append(d.remembered, contract.Remembered{Connection: req.Connection, Name: req.Name,
		Approve: *c.Approve, Reason: textutil.Cut(c.Reason, runtime.MaxReason), Author: c.Author})
}

// Close forgets a request that nobody waits for any more, and an answer that was taken.
func (d *Inbox) Close(ctx workflow.Context, id string) {
	if a := d.find(id); a != nil {
		a.Reply = nil
	}
	if i := d.index(id); i >= 0 {
		d.remove(ctx, i, false)
		d.host.Changed(ctx)
	}
}

// Disown closes the requests of a run that has ended, and of those below it.
func (d *Inbox) Disown(ctx workflow.Context, child string) {
	n := len(d.Requests)
	for i := n - 1; i >= 0; i-- {
		wf := d.Requests[i].Run.Workflow
		if wf != d.run.Transcript.Workflow && (wf == child || strings.HasPrefix(wf, child+"/")) {
			d.remove(ctx, i, false)
		}
	}
	if len(d.Requests) < n {
		d.host.Changed(ctx)
	}
}

// remove takes the i-th request off the inbox.
func (d *Inbox) remove(ctx workflow.Context, i int, answered bool) {
	d.run.Watch.Close(ctx, &d.Requests[i], answered)
	id := d.Requests[i].ID
	d.Requests = slices.Delete(d.Requests, i, i+1)
	if stop := d.limits[id]; stop != nil {
		stop()
		delete(d.limits, id)
	}
}

func (d *Inbox) index(id string) int {
	return slices.IndexFunc(d.Requests, func(q contract.Request) bool { return q.ID == id })
}

func (d *Inbox) find(id string) *contract.Answered {
	if i := slices.IndexFunc(d.answered, func(a contract.Answered) bool { return a.ID == id }); i >= 0 {
		return &d.answered[i]
	}
	return nil
}

// settle gives the i-th open request its answer.
func (d *Inbox) settle(ctx workflow.Context, i int, a contract.Answered) {
	req := d.Requests[i]
	a.Reply.ID = req.ID
	a.ID, a.Kind, a.Run, a.Reopened, a.Expired = req.ID, req.Kind, req.Run.Run, req.Reopened, a.Reply.Expired
	d.remove(ctx, i, !a.Expired)
	d.record(ctx, a)
	d.relay(ctx, &req, a.Reply)
	d.host.Changed(ctx)
}

// record keeps an answer, so that the same one again changes nothing.
func (d *Inbox) record(ctx workflow.Context, a contract.Answered) {
	a.At = workflow.Now(ctx).UTC()
	d.answered = append(d.answered, a)
	if a.Reply != nil {
		d.host.Closed(ctx, &a)
	}
	for i := 0; len(d.answered) > maxAnswered && i < len(d.answered); {
		if d.answered[i].Reply != nil {
			i++ // somebody still waits for it
			continue
		}
		d.answered = slices.Delete(d.answered, i, i+1)
	}
}

// Status adds the inbox's part to the answer of the query.
func (d *Inbox) Status(s *contract.Status) {
	total := 0
	for i := range d.Requests {
		q := &d.Requests[i]
		n, _ := contract.Size(q)
		if total += n; total > maxListed && i > 0 {
			s.MoreRequests = len(d.Requests) - i
			break
		}
		s.Requests = append(s.Requests, *q)
	}
	for _, a := range d.answered[max(0, len(d.answered)-maxKept):] {
		a.Reply = nil
		s.Answered = append(s.Answered, a)
	}
	for _, m := range d.run.Requests.UnreadMessages {
		m.Text = textutil.Cut(m.Text, runtime.MaxName)
		s.Inbox = append(s.Inbox, m)
	}
}

// Snapshot is what the owner's next run goes on with.
func (d *Inbox) Snapshot() *contract.InboxState {
	return &contract.InboxState{Open: d.Requests, Answered: d.answered, Remembered: d.remembered, Inbox: d.run.Requests.UnreadMessages,
		Seen: d.seen, Seq: d.seq, Rejected: d.run.Requests.Rejected, RejectionReasons: d.run.Requests.RejectionReasons}
}

// Restore takes over the inbox of the run before. It comes before [Inbox.Serve].
func (d *Inbox) Restore(ctx workflow.Context, c *contract.InboxState) {
	if c == nil {
		return
	}
	d.Requests, d.answered, d.remembered, d.seen, d.seq = c.Open, c.Answered, c.Remembered, c.Seen, c.Seq
	q := d.run.Requests
	q.UnreadMessages, q.Rejected, q.RejectionReasons = c.Inbox, c.Rejected, c.RejectionReasons
	for i := range c.Open {
		d.run.Watch.Open(ctx, &c.Open[i])
		d.watch(ctx, &c.Open[i])
	}
}

// Quiet waits until no answer is under way any more, also where the run is cancelled.
func (d *Inbox) Quiet(ctx workflow.Context) {
	wait.Uncancelled(ctx, func() bool { return d.Busy() == 0 && workflow.AllHandlersFinished(ctx) })
}
