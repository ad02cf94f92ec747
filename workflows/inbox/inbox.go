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

// Limits of the data that clients can make a run store.
const (
	maxAnswered      = 1000
	maxOpen          = 2000
	maxAnswer        = 1 << 20
	maxShownAnswered = 20                    // answered requests in a status
	maxListed        = 800 << 10             // bytes of requests in a status, so that a query's answer can hold it
	maxTimeout       = 100 * 365 * 24 * 3600 // seconds
	// maxRequestID is longer than any request's id, maxWorkflowID is the server's limit.
	maxRequestID  = 300
	maxWorkflowID = 1000
)

// Inbox holds the open and answered requests of a tree of runs. It accepts answers and unsolicited messages.
type Inbox struct {
	run        *runtime.Run
	Requests   []contract.Request
	answered   []contract.Answered
	remembered []contract.Remembered
	seen       []string
	seq        int
	// timers holds the functions that cancel the timers of open requests.
	timers map[string]workflow.CancelFunc
	// relays are answers still to be relayed, processing those by signal that are being processed.
	relays     []relay
	processing []*contract.Answered
	host       Host
	// assigned are messages at branches, which may return them unread; full is set while unread messages wait
	// for a workflow task with room for them.
	assigned []assignedMessage
	full     bool
}

// Host is the run to which an inbox belongs.
type Host interface {
	// Changed is called when the requests have changed.
	Changed(ctx workflow.Context)
	// Opened and Closed are called with each request and answer, once.
	Opened(ctx workflow.Context, req *contract.Request)
	Closed(ctx workflow.Context, a *contract.Answered)
	// FindNode reports whether the flow is known yet, and whether it has a node.
	FindNode(node string) (ready, found bool)
	// Route returns the running branch that receives a message; child is nil if there is none.
	Route(m *contract.Inbound) (branch string, child *runtime.ChildRun)
}

// New returns an empty inbox, and makes its run the owner of its tree's requests.
func New(r *runtime.Run, h Host) *Inbox {
	b := &Inbox{run: r, host: h, timers: map[string]workflow.CancelFunc{}}
	r.Requests.Asker, r.Requests.Owner = b, true
	return b
}

// Serve registers the messages of an owner, and listens to its descendants.
func (b *Inbox) Serve(ctx workflow.Context) error {
	var kinds []runtime.Message
	for _, kind := range contract.Requests {
		kinds = append(kinds, runtime.Message{Name: kind, Shape: shapes[kind].full, Handler: answers{b, kind}})
	}
	if err := b.run.Requests.Receive(ctx, kinds...); err != nil {
		return err
	}
	b.run.Requests.Listeners.Add(func() { b.receiveAnnouncements(ctx) },
		workflow.GetSignalChannel(ctx, contract.SignalRequest), workflow.GetSignalChannel(ctx, contract.SignalCloseRequest))
	return nil
}

// Drain processes all received signals.
func (b *Inbox) Drain(ctx workflow.Context) {
	b.run.Requests.Drain(ctx)
	b.receiveAnnouncements(ctx)
}

// receiveAnnouncements processes the signals of the owner's descendants.
func (b *Inbox) receiveAnnouncements(ctx workflow.Context) {
	receive := func(name string, take func(*contract.Request) error) {
		runtime.Each(ctx, b.run.Requests, workflow.GetSignalChannel(ctx, name), func(req *contract.Request, err error) {
			if err == nil {
				err = take(req)
			}
			if err != nil {
				b.reject(ctx, name, fmt.Errorf("it is not from a run of this tree: %w", err))
			}
		})
	}
	receive(contract.SignalRequest, func(req *contract.Request) error {
		if err := b.checkAnnounced(req); err != nil {
			return err
		}
		return b.Open(ctx, req)
	})
	receive(contract.SignalCloseRequest, func(req *contract.Request) error {
		if req.ID == "" && req.Run.Workflow != "" {
			b.Disown(ctx, req.Run.Workflow)
			return nil
		}
		err := b.checkForeign(req.ID)
		if err == nil {
			b.Close(ctx, req.ID)
		}
		return err
	})
}

// shapes holds the JSON of each kind of answer, for users: in full, and the fields of an example after the id.
var shapes = map[string]struct{ full, example string }{
	contract.RequestMessage:    {`{"text": "…"}, with "id" to answer a request, with "node" to address an agent`, `, "text": "…"`},
	contract.RequestToolResult: {`{"id": "…", "result": any JSON} or {"id": "…", "error": "…"}`, `, "result": "…"`},
	contract.RequestConfirm:    {`{"id": "…", "approve": true or false, "reason": "…"}`, `, "approve": true`},
	contract.RequestRetry:      {`{"id": "…"} when the failure's cause is fixed, or with "give_up": true to fail the node`, ""},
}

// answers is the [runtime.MessageHandler] of the answers of a kind.
type answers struct {
	inbox *Inbox
	kind  string
}

func (a answers) Admit(raw json.RawMessage) error {
	_, err := a.inbox.admit(a.kind, raw)
	return err
}

func (a answers) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	s, err := readAnswer(a.kind, raw)
	if err != nil {
		return nil, err
	}
	return a.inbox.answer(ctx, s, workflow.GetCurrentUpdateInfo(ctx).ID)
}

// Signalled processes an answer by signal. An invalid answer is counted and listed in the status.
func (a answers) Signalled(ctx workflow.Context, raw json.RawMessage) error {
	b := a.inbox
	s, err := b.admit(a.kind, raw)
	if err != nil {
		return err
	}
	b.processing = append(b.processing, s)
	wait.Go(ctx, "answer", func(ctx workflow.Context) {
		if _, err := b.answer(ctx, s, ""); err != nil {
			b.reject(ctx, a.kind, err)
		}
		b.processing = slices.DeleteFunc(b.processing, func(l *contract.Answered) bool { return l == s })
	})
	return nil
}

// Busy returns the number of answers by signal in progress plus that of answers still to be relayed.
func (b *Inbox) Busy() int { return len(b.processing) + len(b.relays) }

func (a answers) Refused(ctx workflow.Context, _ error) { a.inbox.host.Changed(ctx) }

// awaitProcessing waits until all answers received so far for a request, or without a request id, have been processed.
func (b *Inbox) awaitProcessing(ctx workflow.Context, id string) error {
	b.Drain(ctx)
	received := slices.Clone(b.processing)
	return wait.Until(ctx, func() bool {
		return !slices.ContainsFunc(received, func(l *contract.Answered) bool {
			return (l.Reply.ID == id || l.Reply.ID == "") && slices.Contains(b.processing, l)
		})
	})
}

// checkAnnounced returns an error if a request cannot be a descendant's. Any client can send the signal, and the server would reject the
// command that relays an answer to an invalid id, again and again.
func (b *Inbox) checkAnnounced(req *contract.Request) error {
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
		return fmt.Errorf("its kind is invalid: %q", textutil.Cut(req.Kind, 50))
	case wf == "" || wf == b.run.Transcript.Workflow || len(wf) > maxWorkflowID:
		return fmt.Errorf("its workflow id is invalid: %q", textutil.Cut(wf, 200))
	case len(req.Text) > 2*contract.MaxAsked || len(req.Arguments) > 8*contract.MaxShown:
		return fmt.Errorf("it is too large: %d bytes of text and %d bytes of arguments", len(req.Text), len(req.Arguments))
	}
	for _, name := range names {
		if len(name) > contract.MaxField+len("…") {
			return fmt.Errorf("a field has %d bytes, at most %d are allowed: %s", len(name), contract.MaxField, textutil.Cut(name, 50))
		}
	}
	req.Failure = req.Failure.Shown()
	return b.checkForeign(req.ID)
}

// checkForeign returns an error if an id is missing or is that of a request of this run, which is not opened or closed by signal.
func (b *Inbox) checkForeign(id string) error {
	if id == "" {
		return errors.New("the id is missing")
	}
	if i := b.index(id); i >= 0 && b.Requests[i].Run.Workflow == b.run.Transcript.Workflow {
		return fmt.Errorf("the request %q belongs to another run", textutil.Cut(id, 200))
	}
	return nil
}

func (b *Inbox) reject(ctx workflow.Context, kind string, err error) {
	b.run.Requests.Refuse(kind, err)
	b.host.Changed(ctx)
}

// Open opens a request, updates the run of an open one, or relays the answer of an answered one. It always returns nil.
func (b *Inbox) Open(ctx workflow.Context, req *contract.Request) error {
	again, answered := b.reopen(req)
	if answered != nil && answered.Reply != nil {
		answered.Run = req.Run.Run
		b.relay(ctx, req, answered.Reply)
	}
	if answered != nil {
		return nil
	}
	if i := b.index(req.ID); i >= 0 {
		// The request continues in another run, which also holds the content to which it refers.
		q := &b.Requests[i]
		q.Run, q.Call, q.Catalogue = req.Run, req.Call, req.Catalogue
		return nil
	}
	if len(b.Requests) >= maxOpen {
		// The execution must not wait for a request that is not shown.
		full := contract.Failf(contract.ClassTooLarge, "answer the open requests, or have fewer nodes wait in parallel",
			"the request %q cannot be opened: %d are already open", req.ID, maxOpen)
		b.reject(ctx, contract.SignalRequest, full)
		b.relay(ctx, req, &contract.Reply{ID: req.ID, Refused: full})
		return nil
	}
	own := *req
	own.OpenedAt, own.DueAt, own.Reopened = workflow.Now(ctx).UTC(), nil, again
	if own.Timeout > 0 {
		own.DueAt = new(own.OpenedAt.Add(time.Duration(min(own.Timeout, maxTimeout)) * time.Second))
	}
	b.Requests = append(b.Requests, own)
	b.host.Opened(ctx, &own)
	b.run.Watch.Open(ctx, &own)
	b.scheduleExpiry(ctx, &own)
	b.answerEarly(ctx, &own)
	b.host.Changed(ctx)
	return nil
}

// reopen returns the answer of a request that is already answered, or nil. If the request comes from
// another run than the one that received the answer, because an operator reset that run, it is reopened,
// and again counts how often: an approval is for one call only.
func (b *Inbox) reopen(req *contract.Request) (again int, answered *contract.Answered) {
	a := b.findAnswered(req.ID)
	if a == nil || a.Reply != nil || a.Run == "" || a.Run == req.Run.Run {
		return 0, a
	}
	again = a.Reopened + 1
	b.answered = slices.DeleteFunc(b.answered, func(a contract.Answered) bool { return a.ID == req.ID })
	return again, nil
}

// scheduleExpiry expires a request at its due time. It first processes signals that arrived while no worker was
// running: they may have been in time, and their senders would not be notified of a rejection.
func (b *Inbox) scheduleExpiry(ctx workflow.Context, req *contract.Request) {
	if req.DueAt == nil {
		return
	}
	id, left := req.ID, req.DueAt.Sub(workflow.Now(ctx))
	// The limit applies even if the handler that opened the request ends.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	b.timers[id] = cancel
	wait.Go(ctx, "limit", func(ctx workflow.Context) {
		if wait.Sleep(ctx, max(left, 0), "limit · "+id) != nil || b.awaitProcessing(ctx, id) != nil {
			return
		}
		if i := b.index(id); i >= 0 {
			b.settle(ctx, i, contract.Answered{Reply: &contract.Reply{Expired: true}})
		}
	})
}

// answerEarly answers a request at once, if possible: a confirm by a remembered answer for the same tool, a question by a message that
// arrived before it.
func (b *Inbox) answerEarly(ctx workflow.Context, req *contract.Request) {
	switch req.Kind {
	case contract.RequestConfirm:
		for _, m := range b.remembered {
			if m.Connection == req.Connection && m.Name == req.Name {
				answer := &contract.ConfirmAnswer{ID: req.ID, Approve: &m.Approve, Reason: m.Reason, Author: m.Author}
				b.settle(ctx, b.index(req.ID), contract.Answered{Author: m.Author, Reply: &contract.Reply{Confirm: answer}})
				return
			}
		}
	case contract.RequestMessage:
		for i, m := range b.run.Requests.UnreadMessages {
			if m.Node == "" || m.Node == req.Node {
				b.run.Requests.UnreadMessages = slices.Delete(b.run.Requests.UnreadMessages, i, i+1)
				answer := &contract.MessageAnswer{ID: req.ID, Text: m.Text, Author: m.Author}
				b.settle(ctx, b.index(req.ID), contract.Answered{Author: m.Author, Reply: &contract.Reply{Message: answer}})
				return
			}
		}
	}
}

// remember stores an answer for all later calls of the tool; the last one applies.
func (b *Inbox) remember(req *contract.Request, c *contract.ConfirmAnswer) {
	b.remembered = slices.DeleteFunc(b.remembered, func(m contract.Remembered) bool {
		return m.Connection == req.Connection && m.Name == req.Name
	})
	b.remembered = append(b.remembered, contract.Remembered{Connection: req.Connection, Name: req.Name,
		Approve: *c.Approve, Reason: textutil.Cut(c.Reason, runtime.MaxReason), Author: c.Author})
}

// Close removes a request that is no longer pending, and an answer that was received.
func (b *Inbox) Close(ctx workflow.Context, id string) {
	if a := b.findAnswered(id); a != nil {
		a.Reply = nil
	}
	if i := b.index(id); i >= 0 {
		b.remove(ctx, i, false)
		b.host.Changed(ctx)
	}
}

// Disown closes the requests of a run that has ended, and those of its descendants.
func (b *Inbox) Disown(ctx workflow.Context, child string) {
	n := len(b.Requests)
	for i := n - 1; i >= 0; i-- {
		wf := b.Requests[i].Run.Workflow
		if wf != b.run.Transcript.Workflow && (wf == child || strings.HasPrefix(wf, child+"/")) {
			b.remove(ctx, i, false)
		}
	}
	if len(b.Requests) < n {
		b.host.Changed(ctx)
	}
}

// remove removes the i-th request from the inbox.
func (b *Inbox) remove(ctx workflow.Context, i int, answered bool) {
	b.run.Watch.Close(ctx, &b.Requests[i], answered)
	id := b.Requests[i].ID
	b.Requests = slices.Delete(b.Requests, i, i+1)
	if stop := b.timers[id]; stop != nil {
		stop()
		delete(b.timers, id)
	}
}

func (b *Inbox) index(id string) int {
	return slices.IndexFunc(b.Requests, func(q contract.Request) bool { return q.ID == id })
}

func (b *Inbox) findAnswered(id string) *contract.Answered {
	if i := slices.IndexFunc(b.answered, func(a contract.Answered) bool { return a.ID == id }); i >= 0 {
		return &b.answered[i]
	}
	return nil
}

// settle closes the i-th open request with an answer.
func (b *Inbox) settle(ctx workflow.Context, i int, a contract.Answered) {
	req := b.Requests[i]
	a.Reply.ID = req.ID
	a.ID, a.Kind, a.Run, a.Reopened, a.Expired = req.ID, req.Kind, req.Run.Run, req.Reopened, a.Reply.Expired
	b.remove(ctx, i, !a.Expired)
	b.record(ctx, a)
	b.relay(ctx, &req, a.Reply)
	b.host.Changed(ctx)
}

// record stores an answer, so that repeating it has no effect.
func (b *Inbox) record(ctx workflow.Context, a contract.Answered) {
	a.At = workflow.Now(ctx).UTC()
	b.answered = append(b.answered, a)
	if a.Reply != nil {
		b.host.Closed(ctx, &a)
	}
	for i := 0; len(b.answered) > maxAnswered && i < len(b.answered); {
		if b.answered[i].Reply != nil {
			i++ // the answer has not been received yet
			continue
		}
		b.answered = slices.Delete(b.answered, i, i+1)
	}
}

// Status adds the inbox's part to a run's status.
func (b *Inbox) Status(s *contract.Status) {
	total := 0
	for i := range b.Requests {
		q := &b.Requests[i]
		n, _ := contract.Size(q)
		if total += n; total > maxListed && i > 0 {
			s.MoreRequests = len(b.Requests) - i
			break
		}
		s.Requests = append(s.Requests, *q)
	}
	for _, a := range b.answered[max(0, len(b.answered)-maxShownAnswered):] {
		a.Reply = nil
		s.Answered = append(s.Answered, a)
	}
	for _, m := range b.run.Requests.UnreadMessages {
		m.Text = textutil.Cut(m.Text, runtime.MaxName)
		s.Inbox = append(s.Inbox, m)
	}
}

// Snapshot returns the inbox's state for the owner's next run.
func (b *Inbox) Snapshot() *contract.InboxState {
	return &contract.InboxState{Open: b.Requests, Answered: b.answered, Remembered: b.remembered, Inbox: b.run.Requests.UnreadMessages,
		Seen: b.seen, Seq: b.seq, Rejected: b.run.Requests.Rejected, RejectionReasons: b.run.Requests.RejectionReasons}
}

// Restore restores the inbox of the previous run. It must be called before [Inbox.Serve].
func (b *Inbox) Restore(ctx workflow.Context, c *contract.InboxState) {
	if c == nil {
		return
	}
	b.Requests, b.answered, b.remembered, b.seen, b.seq = c.Open, c.Answered, c.Remembered, c.Seen, c.Seq
	q := b.run.Requests
	q.UnreadMessages, q.Rejected, q.RejectionReasons = c.Inbox, c.Rejected, c.RejectionReasons
	for i := range c.Open {
		b.run.Watch.Open(ctx, &c.Open[i])
		b.scheduleExpiry(ctx, &c.Open[i])
	}
}

// AwaitIdle waits until no answer is in progress, even if the run is cancelled.
func (b *Inbox) AwaitIdle(ctx workflow.Context) {
	wait.UntilIgnoringCancel(ctx, func() bool { return b.Busy() == 0 && workflow.AllHandlersFinished(ctx) })
}
