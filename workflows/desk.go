package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// Bounds of what outsiders can make a run keep.
const (
	maxAnswered  = 1000
	maxInbox     = 1000
	maxOpen      = 2000
	maxAnswer    = 1 << 20
	maxRejects   = 10
	maxMessage   = 256 << 10
	maxKept      = 20 // answered requests in a status
	maxInboxSize = 1 << 20
	maxName      = 500 // by and key
	maxReason    = 1 << 10
	maxListed    = 800 << 10             // of requests in a status, so that a query's answer holds it
	maxLimit     = 100 * 365 * 24 * 3600 // seconds
	// maxRequestID is more than a request's id has, maxWorkflowID the server's limit.
	maxRequestID  = 300
	maxWorkflowID = 1000
)

// desk is where the run at the root of a tree keeps the tree's requests: what is open, what
// was answered, and the messages that nobody asked for. It takes answers by Update and by
// signal, and relays them.
type desk struct {
	r          *run
	requests   []contract.Request
	answered   []contract.Answered
	remembered []contract.Remembered
	inbox      []contract.Inbound
	seq        int
	rejected   int
	rejects    []string
	// limits end the timers of open requests.
	limits map[string]workflow.CancelFunc
	// busy counts answers by signal that are being looked at.
	busy int
	// changed is called when there is something new to show.
	changed func(ctx workflow.Context)
	signals []signal
	// ready says whether the flow is known yet; known, whether it has a node.
	ready func() bool
	known func(node string) bool
	// steered is called when a message without a request has come; given counts those that
	// branches have, and their bytes.
	steered func(ctx workflow.Context)
	given   func() (n, size int)
}

// serve registers the Updates of an owner, and starts to listen to signals.
func (d *desk) serve(ctx workflow.Context) error {
	for _, kind := range contract.Requests {
		err := workflow.SetUpdateHandlerWithOptions(ctx, kind,
			func(ctx workflow.Context, raw json.RawMessage) (*contract.Receipt, error) {
				out, err := d.answer(ctx, kind, raw)
				return out, wire(err)
			},
			workflow.UpdateHandlerOptions{
				Validator:   func(raw json.RawMessage) error { return wire(d.admit(kind, raw)) },
				Description: updateText[kind],
			})
		if err != nil {
			return fmt.Errorf("register update %s: %w", kind, err)
		}
	}
	for _, kind := range contract.Requests {
		d.signals = append(d.signals, signal{kind, d.signalled,
			workflow.GetSignalChannelWithOptions(ctx, kind, workflow.SignalChannelOptions{Description: updateText[kind]})})
	}
	for _, name := range []string{contract.SignalRequest, contract.SignalClose} {
		d.signals = append(d.signals, signal{name, d.told, workflow.GetSignalChannel(ctx, name)})
	}
	sel := workflow.NewSelector(ctx)
	for _, s := range d.signals {
		sel.AddReceive(s.channel, func(workflow.ReceiveChannel, bool) { d.drain(ctx) })
	}
	workflow.GoNamed(ctx, "desk", func(ctx workflow.Context) {
		for {
			sel.Select(ctx)
		}
	})
	return nil
}

// signal is one that a desk takes.
type signal struct {
	name    string
	take    func(workflow.Context, string, converter.RawValue)
	channel workflow.ReceiveChannel
}

// drain takes in all signals that have come.
func (d *desk) drain(ctx workflow.Context) {
	for _, s := range d.signals {
		var raw converter.RawValue
		for s.channel.ReceiveAsync(&raw) {
			s.take(ctx, s.name, raw)
			raw = converter.RawValue{}
		}
	}
}

var updateText = map[string]string{
	contract.RequestMessage:    `{"text": "…"}, with "id" to answer a request, with "node" to address an agent`,
	contract.RequestToolResult: `{"id": "…", "result": any JSON} or {"id": "…", "error": "…"}`,
	contract.RequestConfirm:    `{"id": "…", "approve": true or false, "reason": "…"}`,
	contract.RequestRetry:      `{"id": "…"} when what the request names is mended, with "give_up": true to fail the node`,
}

// signalled takes an answer by signal. A wrong one is counted and shown, and changes nothing.
func (d *desk) signalled(ctx workflow.Context, kind string, raw converter.RawValue) {
	var body json.RawMessage
	err := readPayload(raw, &body)
	if err == nil {
		err = d.admit(kind, body)
	}
	if err != nil {
		d.reject(ctx, kind, err)
		return
	}
	d.busy++
	workflow.GoNamed(ctx, "answer", func(ctx workflow.Context) {
		if _, err := d.answer(ctx, kind, body); err != nil {
			d.reject(ctx, kind, err)
		}
		d.busy--
	})
}

// told takes what runs below the owner say.
func (d *desk) told(ctx workflow.Context, name string, raw converter.RawValue) {
	var req contract.Request
	err := readPayload(raw, &req)
	switch {
	case err == nil && name == contract.SignalRequest:
		err = d.announced(&req)
	case err == nil:
		err = d.foreign(req.ID)
	}
	switch {
	case err != nil:
		d.reject(ctx, name, fmt.Errorf("it is from no run of this tree: %w", err))
	case name == contract.SignalClose:
		d.close(ctx, req.ID)
	default:
		d.open(ctx, &req)
	}
}

// announced refuses what no run below this one says. Anybody can send the signal, and an
// answer that cannot be relayed would be a command that the server refuses for ever.
func (d *desk) announced(req *contract.Request) error {
	wf := req.Run.Workflow
	switch {
	case len(req.ID) > maxRequestID:
		return fmt.Errorf("the id has %d bytes, at most %d are taken", len(req.ID), maxRequestID)
	case !slices.Contains(contract.Requests, req.Kind):
		return fmt.Errorf("its kind is %q", cut(req.Kind, 50))
	case wf == "" || wf == d.r.store.workflow || len(wf) > maxWorkflowID:
		return fmt.Errorf("the run that waits is %q", cut(wf, 200))
	case len(req.Text) > 2*maxAsked || len(req.Arguments) > 8*maxShown:
		return fmt.Errorf("it has %d bytes of text and %d of arguments", len(req.Text), len(req.Arguments))
	}
	return d.foreign(req.ID)
}

// foreign refuses an id that is missing, or is that of a request of this run's own: that
// one is not opened and closed by signal.
func (d *desk) foreign(id string) error {
	if id == "" {
		return errors.New("the id is missing")
	}
	if i := d.index(id); i >= 0 && d.requests[i].Run.Workflow == d.r.store.workflow {
		return fmt.Errorf("the request %q is another run's", cut(id, 200))
	}
	return nil
}

func (d *desk) reject(ctx workflow.Context, kind string, err error) {
	d.rejected++
	text := fmt.Sprintf("%s: %s", kind, cut(contract.FailureOf(err).Error(), 500))
	d.rejects = append(d.rejects, text)
	d.rejects = d.rejects[max(0, len(d.rejects)-maxRejects):]
	d.changed(ctx)
}

// open shows a request, unless it is shown or has its answer already: then that is given.
func (d *desk) open(ctx workflow.Context, req *contract.Request) {
	if a := d.find(req.ID); a != nil {
		if a.Reply != nil {
			d.relay(ctx, req, a.Reply)
		}
		return
	}
	if i := d.index(req.ID); i >= 0 {
		// It goes on in another run, which also holds what it refers to.
		q := &d.requests[i]
		q.Run, q.Call, q.Catalogue = req.Run, req.Call, req.Catalogue
		return
	}
	if len(d.requests) >= maxOpen {
		// Whoever waits must not wait for what nobody can see.
		d.reject(ctx, contract.SignalRequest, fmt.Errorf("%d requests are open, %q is not opened", maxOpen, req.ID))
		d.relay(ctx, req, &contract.Reply{ID: req.ID, Expired: true})
		return
	}
	own := *req
	own.OpenedAt, own.DueAt = workflow.Now(ctx).UTC(), nil
	if own.LimitSeconds > 0 {
		due := own.OpenedAt.Add(time.Duration(min(own.LimitSeconds, maxLimit)) * time.Second)
		own.DueAt = &due
	}
	d.requests = append(d.requests, own)
	d.watch(ctx, &own)
	switch {
	case own.Kind == contract.RequestConfirm:
		d.recall(ctx, &own)
	case own.Kind == contract.RequestMessage:
		d.early(ctx, &own)
	}
	d.changed(ctx)
}

// watch ends a request when its time is over: no answer means no.
func (d *desk) watch(ctx workflow.Context, req *contract.Request) {
	if req.DueAt == nil {
		return
	}
	left := req.DueAt.Sub(workflow.Now(ctx))
	id := req.ID
	// The limit holds whatever becomes of the handler that opened the request.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	d.limits[id] = cancel
	workflow.GoNamed(ctx, "limit", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, max(left, 0), workflow.TimerOptions{Summary: boundSummary("limit · " + id)})
		if timer.Get(ctx, nil) != nil {
			return
		}
		if i := d.index(id); i >= 0 {
			d.settle(ctx, i, contract.Reply{ID: id, Expired: true}, "", "")
		}
	})
}

// recall answers a confirm as the same tool was answered before, where that was to be
// remembered.
func (d *desk) recall(ctx workflow.Context, req *contract.Request) {
	for _, m := range d.remembered {
		if m.Connection == req.Connection && m.Name == req.Name {
			yes := m.Approve
			d.settle(ctx, d.index(req.ID), contract.Reply{ID: req.ID, Confirm: &contract.ConfirmAnswer{
				ID: req.ID, Approve: &yes, Reason: m.Reason, By: m.By}}, "", m.By)
			return
		}
	}
}

// remember keeps an answer for every later call of the tool; the last one counts.
func (d *desk) remember(req *contract.Request, c *contract.ConfirmAnswer) {
	d.remembered = slices.DeleteFunc(d.remembered, func(m contract.Remembered) bool {
		return m.Connection == req.Connection && m.Name == req.Name
	})
	d.remembered = append(d.remembered, contract.Remembered{Connection: req.Connection, Name: req.Name,
		Approve: *c.Approve, Reason: cut(c.Reason, maxReason), By: c.By})
}

// early answers a question with a message that came before it was asked.
func (d *desk) early(ctx workflow.Context, req *contract.Request) {
	for i, m := range d.inbox {
		if m.Node == "" || m.Node == req.Node {
			d.inbox = slices.Delete(d.inbox, i, i+1)
			d.settle(ctx, d.index(req.ID), contract.Reply{ID: req.ID, Message: &contract.MessageAnswer{ID: req.ID, Text: m.Text, By: m.By}}, "", m.By)
			return
		}
	}
}

// close forgets a request that nobody waits for any more, and an answer that was taken.
func (d *desk) close(ctx workflow.Context, id string) {
	if a := d.find(id); a != nil {
		a.Reply = nil
	}
	if i := d.index(id); i >= 0 {
		d.remove(i)
		d.changed(ctx)
	}
}

// remove takes the i-th request off the desk.
func (d *desk) remove(i int) {
	id := d.requests[i].ID
	d.requests = slices.Delete(d.requests, i, i+1)
	if stop := d.limits[id]; stop != nil {
		stop()
		delete(d.limits, id)
	}
}

func (d *desk) index(id string) int {
	return slices.IndexFunc(d.requests, func(q contract.Request) bool { return q.ID == id })
}

func (d *desk) find(id string) *contract.Answered {
	for i := range d.answered {
		if d.answered[i].ID == id {
			return &d.answered[i]
		}
	}
	return nil
}

// settle gives the i-th open request its answer.
func (d *desk) settle(ctx workflow.Context, i int, reply contract.Reply, hash, by string) {
	req := d.requests[i]
	d.remove(i)
	d.record(ctx, contract.Answered{ID: req.ID, Kind: req.Kind, Hash: hash, By: by, Reply: &reply})
	d.relay(ctx, &req, &reply)
	d.changed(ctx)
}

// record keeps an answer, so that the same one again changes nothing.
func (d *desk) record(ctx workflow.Context, a contract.Answered) {
	a.At = workflow.Now(ctx).UTC()
	d.answered = append(d.answered, a)
	for i := 0; len(d.answered) > maxAnswered && i < len(d.answered); {
		if d.answered[i].Reply != nil {
			i++ // somebody still waits for it
			continue
		}
		d.answered = slices.Delete(d.answered, i, i+1)
	}
}

// relay gives an answer to whoever waits. One that does not get it, because its run stopped
// just now, asks again.
func (d *desk) relay(ctx workflow.Context, req *contract.Request, reply *contract.Reply) {
	if req.Run.Workflow == d.r.store.workflow {
		d.r.deliver(reply)
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.SignalExternalWorkflow(ctx, req.Run.Workflow, "", contract.SignalReply, reply)
}

// admit looks at an answer before it is taken: its shape, its size, and whether there is
// something that it answers.
func (d *desk) admit(kind string, raw json.RawMessage) error {
	if len(raw) > maxAnswer {
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the answer is %d bytes, at most %d are taken", len(raw), maxAnswer),
			Remedy: "keep the data elsewhere and pass a reference to it"}
	}
	a, err := readAnswer(kind, raw)
	if err != nil {
		return err
	}
	if a.id == "" {
		return d.roomFor(a.message)
	}
	if old := d.find(a.id); old != nil {
		if old.Hash == a.hash {
			return nil
		}
		return &contract.Failure{Class: contract.ClassAlreadyAnswered, Text: fmt.Sprintf("the request %q was answered differently at %s", a.id, old.At.Format(time.RFC3339)),
			Remedy: "look at the run's status; an answer cannot be taken back"}
	}
	i := d.index(a.id)
	if i < 0 {
		return &contract.Failure{Class: contract.ClassUnknownRequest, Text: fmt.Sprintf("no request has the id %q; open: %s", cut(a.id, 200), d.names()),
			Remedy: "take the id from the run's status"}
	}
	if want := d.requests[i].Kind; want != kind {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the request %q is of kind %s and is not answered by %s", a.id, want, kind),
			Remedy: "send " + want + ": " + updateText[want]}
	}
	return nil
}

// names lists the open requests for a message.
func (d *desk) names() string {
	var out []string
	for i := range d.requests {
		out = append(out, d.requests[i].ID)
	}
	if len(out) == 0 {
		return "none"
	}
	return some(out)
}

func (d *desk) roomFor(m *contract.MessageAnswer) error {
	// What branches have counts too, read or not: they bring back what they have not read.
	n, size := d.given()
	n, size = n+len(d.inbox), size+len(m.Text)+len(m.Node)
	for i := range d.inbox {
		size += len(d.inbox[i].Text) + len(d.inbox[i].Node)
	}
	switch {
	case len(m.Text) > maxMessage:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the message is %d bytes, at most %d are taken", len(m.Text), maxMessage)}
	case n >= maxInbox || size > maxInboxSize:
		return &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("%d messages are unread already, or with branches that still run", n),
			Remedy: "wait until an agent has read them"}
	}
	return d.placed(m)
}

// placed refuses a message for a node that there is not.
func (d *desk) placed(m *contract.MessageAnswer) error {
	if m.Node == "" || d.known(m.Node) {
		return nil
	}
	return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the flow has no node %q that could get a message", cut(m.Node, 200)),
		Remedy: "name one of the flow's agents, or leave node out"}
}

// answer is an answer as it was sent.
type sent struct {
	id, hash, by string
	reply        contract.Reply
	message      *contract.MessageAnswer
	check        contract.CheckInput
}

// readAnswer decodes an answer strictly: a misspelt field would be a silent default.
func readAnswer(kind string, raw json.RawMessage) (*sent, error) {
	a := &sent{hash: contract.SHA(compacted(raw))}
	err := a.read(kind, raw)
	switch {
	case err != nil:
	case a.id == "" && kind != contract.RequestMessage:
		err = errors.New("id is missing")
	case contract.Depth(raw) > maxDepth || len(a.by) > maxName || a.message != nil && len(a.message.Key) > maxName:
		err = fmt.Errorf("it nests more than %d deep, or by or key is longer than %d bytes", maxDepth, maxName)
	}
	if err != nil {
		return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the answer of kind %s: %v", kind, err),
			Remedy: "send " + updateText[kind]}
	}
	a.reply.ID = a.id
	return a, nil
}

// read decodes an answer of a kind, and says what is wrong with it by itself.
func (a *sent) read(kind string, raw json.RawMessage) error {
	switch kind {
	case contract.RequestMessage:
		var m contract.MessageAnswer
		err := strictly(raw, &m)
		a.id, a.by, a.message, a.reply.Message = m.ID, m.By, &m, &m
		if err == nil && m.Text == "" {
			err = errors.New("text is empty")
		}
		return err
	case contract.RequestToolResult:
		var t contract.ToolResultAnswer
		err := strictly(raw, &t)
		a.id, a.by, a.reply.ToolResult, a.check.Result = t.ID, t.By, &t, t.Result
		if err == nil && (len(t.Result) > 0) == (t.Error != "") {
			err = errors.New("want exactly one of result and error")
		}
		return err
	case contract.RequestConfirm:
		var c contract.ConfirmAnswer
		err := strictly(raw, &c)
		a.id, a.by, a.reply.Confirm, a.check.Arguments = c.ID, c.By, &c, c.Arguments
		switch {
		case err != nil:
		case c.Approve == nil:
			err = errors.New("approve is missing, want true or false")
		case len(c.Arguments) > 0 && !bytes.HasPrefix(bytes.TrimSpace(c.Arguments), []byte("{")):
			err = fmt.Errorf("arguments is no object: %s", cut(string(c.Arguments), 100))
		}
		return err
	}
	var t contract.RetryAnswer
	err := strictly(raw, &t)
	a.id, a.by, a.reply.Retry = t.ID, t.By, &t
	return err
}

// strictly decodes one JSON object and refuses fields that there are not.
func strictly(raw json.RawMessage, to any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text behind the object")
	}
	return nil
}

// compacted is JSON without what does not count, so that the same answer has the same hash.
func compacted(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// answer takes an answer that was admitted. What the tool's schema says of it is checked by
// an activity, because schemas are untrusted; a wrong one leaves the request open.
func (d *desk) answer(ctx workflow.Context, kind string, raw json.RawMessage) (*contract.Receipt, error) {
	a, err := readAnswer(kind, raw)
	if err != nil {
		return nil, err
	}
	if a.id == "" {
		return d.take(ctx, a)
	}
	if err := d.check(ctx, a); err != nil {
		return nil, err
	}
	// While it was checked another one may have come.
	if err := d.admit(kind, raw); err != nil {
		return nil, err
	}
	if i := d.index(a.id); i >= 0 {
		req := d.requests[i]
		if c := a.reply.Confirm; c != nil && c.Remember {
			d.remember(&req, c)
		}
		d.settle(ctx, i, a.reply, a.hash, a.by)
	}
	return &contract.Receipt{ID: a.id, Status: "accepted"}, nil
}

// check asks an activity whether an answer is of the shape that the tool declares.
func (d *desk) check(ctx workflow.Context, a *sent) error {
	i := d.index(a.id)
	if i < 0 || d.requests[i].Catalogue == nil || len(a.check.Arguments)+len(a.check.Result) == 0 {
		return nil
	}
	req := &d.requests[i]
	in := a.check
	in.Catalogue, in.Name = *req.Catalogue, req.Name
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		Summary:                boundSummary("check the answer to " + a.id),
		StartToCloseTimeout:    30 * time.Second,
		ScheduleToCloseTimeout: 5 * time.Minute,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	})
	if err := d.r.guard.admit(ctx, "the answer", in); err != nil {
		return err
	}
	var out contract.CheckResult
	if err := workflow.ExecuteActivity(ctx, contract.ActivityCheck, in).Get(ctx, &out); err != nil {
		return err
	}
	if len(out.Errors) > 0 {
		return &contract.Failure{Class: contract.ClassSchema, Errors: out.Errors,
			Text:   fmt.Sprintf("the answer to %q is not what the tool %q declares: %s", a.id, req.Name, errorList(out.Errors, "; ")),
			Remedy: "correct the answer and send it again; the request is still open"}
	}
	return nil
}

// take keeps a message that answers no request by id: it answers the oldest question that is
// open, or else waits for the next model call.
func (d *desk) take(ctx workflow.Context, a *sent) (*contract.Receipt, error) {
	m := a.message
	id := "message"
	if m.Key != "" {
		id = "message:" + m.Key
		if old := d.find(id); old != nil {
			if old.Hash != a.hash {
				return nil, &contract.Failure{Class: contract.ClassAlreadyAnswered, Text: fmt.Sprintf("another message has the key %q", cut(m.Key, 200)),
					Remedy: "give every message a key of its own"}
			}
			return &contract.Receipt{ID: id, Status: "accepted"}, nil
		}
		d.record(ctx, contract.Answered{ID: id, Kind: contract.RequestMessage, Hash: a.hash, By: a.by})
	}
	for i := range d.requests {
		if q := &d.requests[i]; q.Kind == contract.RequestMessage && (m.Node == "" || m.Node == q.Node) {
			id = q.ID
			d.settle(ctx, i, contract.Reply{ID: q.ID, Message: m}, a.hash, a.by)
			return &contract.Receipt{ID: id, Status: "accepted"}, nil
		}
	}
	d.seq++
	seq := d.seq
	d.inbox = append(d.inbox, contract.Inbound{Seq: seq, Text: m.Text, Node: m.Node, By: m.By})
	d.steered(ctx)
	d.changed(ctx)
	if m.Node == "" || d.ready() {
		return &contract.Receipt{ID: id, Status: "accepted"}, nil
	}
	// The message came before the flow was known.
	if err := workflow.Await(ctx, d.ready); err != nil {
		return nil, err
	}
	if err := d.placed(m); err != nil {
		d.inbox = slices.DeleteFunc(d.inbox, func(i contract.Inbound) bool { return i.Seq == seq })
		d.answered = slices.DeleteFunc(d.answered, func(a contract.Answered) bool { return a.ID == id })
		return nil, err
	}
	return &contract.Receipt{ID: id, Status: "accepted"}, nil
}

// status adds the desk's part to the answer of the query.
func (d *desk) status(s *contract.Status) {
	size := 0
	for i := range d.requests {
		q := &d.requests[i]
		if size += len(q.Text) + len(q.Arguments) + envelope/4; size > maxListed {
			s.MoreRequests = len(d.requests) - i
			break
		}
		s.Requests = append(s.Requests, *q)
	}
	for _, a := range d.answered[max(0, len(d.answered)-maxKept):] {
		a.Reply = nil
		s.Answered = append(s.Answered, a)
	}
	for _, m := range d.inbox {
		m.Text = cut(m.Text, maxName)
		s.Inbox = append(s.Inbox, m)
	}
	s.Rejected, s.Rejects = d.rejected, d.rejects
}

// carry is what the owner's next run goes on with.
func (d *desk) carry() *contract.DeskCarry {
	return &contract.DeskCarry{Open: d.requests, Answered: d.answered, Remembered: d.remembered, Inbox: d.inbox,
		Seq: d.seq, Rejected: d.rejected, Rejects: d.rejects}
}

// restore takes over the desk of the run before.
func (d *desk) restore(ctx workflow.Context, c *contract.DeskCarry) {
	if c == nil {
		return
	}
	// A signal may have come before.
	d.requests, d.answered, d.remembered = append(c.Open, d.requests...), append(c.Answered, d.answered...), c.Remembered
	d.inbox, d.seq = append(c.Inbox, d.inbox...), c.Seq+d.seq
	d.rejected, d.rejects = c.Rejected+d.rejected, append(c.Rejects, d.rejects...)
	for i := range c.Open {
		d.watch(ctx, &c.Open[i])
	}
}

// quiet waits until no answer is under way any more.
func (d *desk) quiet(ctx workflow.Context) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.Await(ctx, func() bool { return d.busy == 0 && workflow.AllHandlersFinished(ctx) })
}

// paste is the JSON with which a request is answered from the Web UI's forms.
func paste(q *contract.Request) string {
	var body string
	switch q.Kind {
	case contract.RequestConfirm:
		body = `{"id": %q, "approve": true}`
	case contract.RequestRetry:
		body = `{"id": %q}`
	case contract.RequestToolResult:
		body = `{"id": %q, "result": …}`
	default:
		body = `{"id": %q, "text": "…"}`
	}
	return strings.TrimSpace(fmt.Sprintf(body, q.ID))
}
