package runtime

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/argument"
	"weft/workflows/held"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/wait"
)

// Requests are what the executions of one run wait for from outside. The run at the root of the tree owns all requests, see
// package inbox; every other run announces its own to the owner by signal, and gets the answer by signal. A wait may last for
// weeks, so it yields where its run wants to continue as new: the execution is carried, and asks again under the same id.
type Requests struct {
	run *Run
	// Asker shows requests to people; Owner is set where it is the run's own inbox.
	Asker   Asker
	Owner   bool
	waiting map[string]*pendingRequest
	// UnreadMessages are messages for this run's agents; in the owner those that no branch has been given.
	UnreadMessages []contract.Inbound
	replies, steer workflow.ReceiveChannel
	// kinds are those of the messages that the run takes.
	kinds []Message
	// Listeners receive the messages while the run waits. signals counts them.
	Listeners wait.Listeners
	signals   int
	// Rejected counts signals of people's that were refused; RejectionReasons are those of the last ones.
	Rejected         int
	RejectionReasons []string
	// Tasks names tasks of tools that executions wait for, and calls whose turn has not come.
	Tasks []string
	// Held are calls under way whose servers may ask.
	Held held.Calls
	// Unacknowledged are signals to the owner that have not been delivered yet.
	Unacknowledged []workflow.Future
}

// pendingRequest is a request of this run's, until its answer is taken.
type pendingRequest struct {
	kind  string
	reply *contract.Reply
}

// Asker sends this run's requests to the run that owns the requests of the tree.
type Asker interface {
	// Open shows a request, once, although it is called again after every resumption.
	Open(ctx workflow.Context, req *contract.Request) error
	// Close reports that the answer to a request was received, or that nothing waits for it any more.
	Close(ctx workflow.Context, id string)
	// Disown reports that a descendant was terminated: nothing else closes its requests.
	Disown(ctx workflow.Context, child string)
}

// AddTask lists a task of a tool, or a call, until it is done.
func (q *Requests) AddTask(name string) (done func()) {
	q.Tasks = append(q.Tasks, name)
	return func() {
		i := slices.Index(q.Tasks, name)
		q.Tasks = slices.Delete(q.Tasks, i, i+1)
	}
}

// Listen calls f, and serves all listeners while it and what it starts wait. No selector waits for signals: a run that ends between
// the selector's receive and its coroutine's next turn would lose one.
func (q *Requests) Listen(ctx workflow.Context, f func(workflow.Context)) {
	q.Listeners.Add(func() { q.ReceiveSignals(ctx) }, q.run.Policy.yield, q.replies, q.steer)
	if !q.Owner {
		q.rejectMisaddressed(ctx)
	}
	wait.Run(ctx, &q.Listeners, f)
}

// rejectMisaddressed refuses what people signal to a run that keeps no requests.
func (q *Requests) rejectMisaddressed(ctx workflow.Context) {
	for _, kind := range contract.Requests {
		channel := workflow.GetSignalChannelWithOptions(ctx, kind, workflow.SignalChannelOptions{Description: "not here: the run at the root takes it"})
		q.Listeners.Add(func() {
			for channel.ReceiveAsync(nil) {
				q.Refuse(kind, contract.Failf(contract.ClassBadRequest, "send it to the run "+q.run.Shared.Owner+", which does for all below it",
					"this run keeps no requests and no messages"))
			}
		}, channel)
	}
}

// ReceiveSignals takes in what the owner and the parent have signalled so far. What is not of their shape is left out, and so are answers to
// the owner, which has an inbox.
func (q *Requests) ReceiveSignals(ctx workflow.Context) {
	for q.run.Policy.yield.ReceiveAsync(nil) {
		q.run.Policy.Asked = true
	}
	Each(ctx, q, q.replies, func(reply *contract.Reply, err error) {
		if err == nil && !q.Owner {
			q.Deliver(reply)
		}
	})
	Each(ctx, q, q.steer, func(m *contract.Inbound, err error) {
		if err == nil && m.Text != "" && len(m.Text) <= MaxMessage && !q.Owner && len(q.UnreadMessages) < MaxUnread {
			q.UnreadMessages = append(q.UnreadMessages, *m)
		}
	})
}

// Each calls take with all that a channel holds, and with the error of what cannot be read.
func Each[T any](ctx workflow.Context, q *Requests, c workflow.ReceiveChannel, take func(*T, error)) {
	for c.Len() > 0 {
		var raw converter.RawValue
		var v T
		c.ReceiveAsync(&raw)
		err := q.readSignal(ctx, raw, &v)
		take(&v, err)
	}
}

// readSignal decodes what came by signal. One that this worker cannot read, for example for want of a key, is refused, and that
// is recorded, so that the run is replayed the same where the key has come since. One that was read before, and whose key was
// taken away, holds the run up until the key is back.
func (q *Requests) readSignal(ctx workflow.Context, raw converter.RawValue, to any) error {
	q.signals++
	unread := contract.Unread(raw.Payload())
	if unread == nil && !workflow.IsReplaying(ctx) {
		return argument.Read(raw, to)
	}
	refused := workflow.GetVersion(ctx, fmt.Sprintf("unread-signal-%d", q.signals), workflow.DefaultVersion, 1)
	switch {
	case refused == workflow.DefaultVersion && unread != nil:
		panic(unread.Error())
	case refused == workflow.DefaultVersion:
		return argument.Read(raw, to)
	case unread == nil:
		return errors.New("no worker could read the argument when it came")
	}
	return unread
}

// AdmitUpdate refuses an Update that the current workflow task has no room for, and any where the run ends for want of room.
func (q *Requests) AdmitUpdate(ctx workflow.Context, raw converter.RawValue) error {
	if q.run.Policy.Halted != nil {
		f := contract.FailureOf(q.run.Policy.Halted)
		return contract.Failf(f.Class, "start the run again, and "+f.Remedy, "the run ends, and takes nothing more: %s", f.Text)
	}
	if n := proto.Size(raw.Payload()); !q.run.Sizes.room(ctx, n) {
		return contract.Failf(contract.ClassUnavailable, "send it again", "the current workflow task has no room for an Update of %d bytes", n)
	}
	return nil
}

// Refuse records a signal that was wrong, for the run's status.
func (q *Requests) Refuse(name string, err error) {
	q.Rejected++
	q.RejectionReasons = append(q.RejectionReasons, fmt.Sprintf("%s: %s", name, textutil.Cut(contract.FailureOf(err).Error(), 500)))
	q.RejectionReasons = q.RejectionReasons[max(0, len(q.RejectionReasons)-maxRejects):]
}

// Deliver passes an answer to the execution that waits for it.
func (q *Requests) Deliver(reply *contract.Reply) {
	if t := q.waiting[reply.ID]; t != nil && t.reply == nil && answers(t.kind, reply) {
		t.reply = reply
	}
}

// answers reports whether a reply is one to a request of a kind: anybody can send the signal.
func answers(kind string, reply *contract.Reply) bool {
	switch {
	case reply.Expired:
		return true
	case kind == contract.RequestMessage:
		return reply.Message != nil
	case kind == contract.RequestToolResult:
		return reply.ToolResult != nil
	case kind == contract.RequestConfirm:
		return reply.Confirm != nil && reply.Confirm.Approve != nil
	}
	return reply.Retry != nil
}

// Ask asks somebody outside, as a step of an execution.
func (q *Requests) Ask(ctx workflow.Context, x *Execution, req contract.Request) (*contract.Reply, error) {
	var out contract.Reply
	err := q.run.RunStep(ctx, x.Journal, req.ID, req.Hash, &out, func(*journal.Step) error {
		reply, err := q.Await(ctx, x, req, x.Journal)
		if err == nil {
			out = *reply
		}
		return err
	})
	return &out, err
}

// Await opens a request and waits for its answer. It gives [ErrYield] where the run wants to stop first; without a journal
// it waits on, for a call that is under way and would be waited for.
func (q *Requests) Await(ctx workflow.Context, x *Execution, req contract.Request, j *journal.Journal) (*contract.Reply, error) {
	req = q.Complete(x, req)
	t := &pendingRequest{kind: req.Kind}
	q.waiting[req.ID] = t
	defer delete(q.waiting, req.ID)
	var err error
	if x != nil {
		err = x.Run.PublishEntries(ctx, x)
	}
	if err == nil {
		err = q.Asker.Open(ctx, &req)
	}
	if err == nil {
		err = wait.UntilLabeled(ctx, req.Execution+" · waits for "+req.Kind, func() bool { return t.reply != nil || j != nil && q.run.Policy.ShouldYield(ctx, j.Weight()) })
	}
	if err == nil && t.reply == nil {
		return nil, ErrYield
	}
	q.Asker.Close(ctx, req.ID) // also where nobody waits any more: the owner must not show the request for ever
	if err != nil {
		return nil, err
	}
	q.run.Policy.Moved = true
	return t.reply, nil
}

// Complete sets a request's id and the execution that waits for it.
func (q *Requests) Complete(x *Execution, req contract.Request) contract.Request {
	r := q.run
	if x != nil {
		r = x.Run
		req.Node, req.Step, req.Execution, req.At = x.Node.ID, x.Step, x.ID, r.Source.At(plan.NodePath(x.Node.ID))
	}
	req.Run = contract.Run{Workflow: r.Transcript.Workflow, Run: r.Transcript.Run}
	if path := r.path(); path != "" {
		req.ID = path + req.ID
		req.Execution = path + req.Execution
	}
	req.Cut()
	req.Hash = contract.SHA([]byte(req.Kind + "\n" + req.ID + "\n" + req.Hash))
	req.ID = contract.BoundID(req.ID) + "-" + req.Hash[:8]
	return req
}

// remote is the [Asker] of a run that is not the owner.
type remote struct{ *Requests }

func (q remote) Open(ctx workflow.Context, req *contract.Request) error {
	if err := q.run.Sizes.Admit(ctx, "the request", req); err != nil {
		return err
	}
	err := wait.Get(ctx, q.run.Signal(ctx, q.run.Shared.Owner, contract.SignalRequest, req), nil)
	if err != nil && !contract.Cancelled(err) {
		return &contract.Failure{Class: contract.ClassTranscriptLost, Node: req.Node, Step: req.Step, At: req.At,
			Text: fmt.Sprintf("the run %s, which owns the requests of this one, cannot be notified of a request: %v", q.run.Shared.Owner, err)}
	}
	return err
}

func (q remote) Close(ctx workflow.Context, id string) {
	q.Send(ctx, q.run.Shared.Owner, contract.SignalCloseRequest, contract.RequestID{ID: id})
}

func (q remote) Disown(ctx workflow.Context, child string) {
	q.Send(ctx, q.run.Shared.Owner, contract.SignalCloseRequest, contract.RequestID{Run: &contract.Run{Workflow: child}})
}

// Send signals another run, also where this one is cancelled. [Requests.AwaitSignals] must follow: the server drops a signal whose
// sender ends in the same moment.
func (q *Requests) Send(ctx workflow.Context, to, signal string, arg any) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	q.Unacknowledged = append(slices.DeleteFunc(q.Unacknowledged, workflow.Future.IsReady), q.run.Signal(ctx, to, signal, arg))
}

// Disown reports a descendant to the owner whose error says that it was terminated.
func (q *Requests) Disown(ctx workflow.Context, child string, err error) {
	if _, terminated := errors.AsType[*temporal.TerminatedError](err); terminated {
		q.Asker.Disown(ctx, child)
	}
}

// AwaitSignals waits until the server has told what became of all that this run has sent.
func (q *Requests) AwaitSignals(ctx workflow.Context) {
	for len(q.Unacknowledged) > 0 { // others may come meanwhile
		sent := q.Unacknowledged[0]
		q.Unacknowledged = q.Unacknowledged[1:]
		_ = wait.Get(ctx, sent, nil) // an owner that has ended shows nothing any more
	}
}

// Messages takes those that the next model call of a node is to have.
func (q *Requests) Messages(node string) []contract.Inbound {
	return Take(&q.UnreadMessages, func(m *contract.Inbound) bool { return m.Node == "" || m.Node == node })
}

// Take takes those of a list that are wanted, and leaves the others.
func Take[T any](list *[]T, wanted func(*T) bool) (out []T) {
	var left []T
	for _, e := range *list {
		if wanted(&e) {
			out = append(out, e)
		} else {
			left = append(left, e)
		}
	}
	*list = left
	return out
}
