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
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/serverrequest"
	"weft/workflows/wait"
)

// Requests holds the requests to users and operators for which the executions of a run wait. The root run owns all requests of its
// tree, see package inbox; any other run sends its own to the owner by signal, and receives the answers by signal. A wait may last
// for weeks, so it yields if its run should continue as new: the execution is carried over and opens the request again with its id.
type Requests struct {
	run *Run
	// Asker makes requests visible to clients; Owner is set if it is the run's own inbox.
	Asker   Asker
	Owner   bool
	waiting map[string]*pendingRequest
	// UnreadMessages are messages for this run's agents; in the owner, those not yet relayed to a branch.
	UnreadMessages []contract.Inbound
	replies, steer workflow.ReceiveChannel
	// kinds are the kinds of messages that the run accepts.
	kinds []Message
	// Listeners receive messages while the run waits; signals counts the received signals.
	Listeners wait.Listeners
	signals   int
	// Rejected counts the rejected signals of clients; RejectionReasons holds the reasons of the last ones.
	Rejected         int
	RejectionReasons []string
	// Tasks lists the tool tasks for which executions wait, and calls that wait for their turn in a limiter.
	Tasks []string
	// ServerCalls holds the calls in progress whose servers may send requests.
	ServerCalls serverrequest.Calls
	// Unacknowledged are signals to the owner that may not have been delivered yet.
	Unacknowledged []workflow.Future
}

// pendingRequest is a request of this run until its answer has been received.
type pendingRequest struct {
	kind  string
	reply *contract.Reply
}

// Asker sends this run's requests to the run that owns the requests of the tree.
type Asker interface {
	// Open opens a request. It is called again after every resumption, and is idempotent.
	Open(ctx workflow.Context, req *contract.Request) error
	// Close reports that the answer to a request was received, or that the request is no longer pending.
	Close(ctx workflow.Context, id string)
	// Disown reports that a descendant was terminated, so that its requests are closed.
	Disown(ctx workflow.Context, child string)
}

// AddTask adds a tool task or a call to Tasks until done is called.
func (q *Requests) AddTask(name string) (done func()) {
	q.Tasks = append(q.Tasks, name)
	return func() {
		i := slices.Index(q.Tasks, name)
		q.Tasks = slices.Delete(q.Tasks, i, i+1)
	}
}

// Listen calls f, and serves all listeners while f and its coroutines wait. It uses no selector, because a run that ends between a
// selector's receive and its coroutine's next turn would lose a signal.
func (q *Requests) Listen(ctx workflow.Context, f func(workflow.Context)) {
	q.Listeners.Add(func() { q.ReceiveSignals(ctx) }, q.run.Policy.yield, q.replies, q.steer)
	if !q.Owner {
		q.rejectMisaddressed(ctx)
	}
	wait.Run(ctx, &q.Listeners, f)
}

// rejectMisaddressed rejects signals of clients to a run that is not the owner.
func (q *Requests) rejectMisaddressed(ctx workflow.Context) {
	for _, kind := range contract.Requests {
		channel := workflow.GetSignalChannelWithOptions(ctx, kind, workflow.SignalChannelOptions{Description: "not accepted: send it to the root run"})
		q.Listeners.Add(func() {
			for channel.ReceiveAsync(nil) {
				q.Refuse(kind, contract.Failf(contract.ClassBadRequest, "send it to its root run "+q.run.Shared.Owner,
					"this run accepts no answers and no messages"))
			}
		}, channel)
	}
}

// ReceiveSignals receives the pending signals of the owner and the parent. It ignores invalid ones, and those sent to the owner
// itself, which has an inbox.
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

// Each receives the pending signals of a channel, and calls handle with each value or the error of decoding it.
func Each[T any](ctx workflow.Context, q *Requests, c workflow.ReceiveChannel, handle func(*T, error)) {
	for c.Len() > 0 {
		var raw converter.RawValue
		var v T
		c.ReceiveAsync(&raw)
		err := q.readSignal(ctx, raw, &v)
		handle(&v, err)
	}
}

// readSignal decodes a signal. One that this worker cannot read, for example for lack of a key, is rejected, and the rejection is
// recorded, so that a replay with the key has the same result. If a signal that was read before cannot be read in a replay, the
// workflow task fails until the key is available again.
func (q *Requests) readSignal(ctx workflow.Context, raw converter.RawValue, to any) error {
	q.signals++
	unread := contract.Unread(raw.Payload())
	if unread == nil && !workflow.IsReplaying(ctx) {
		return argument.Read(raw, to)
	}
	version := workflow.GetVersion(ctx, fmt.Sprintf("unread-signal-%d", q.signals), workflow.DefaultVersion, 1)
	switch {
	case version == workflow.DefaultVersion && unread != nil:
		panic(unread.Error())
	case version == workflow.DefaultVersion:
		return argument.Read(raw, to)
	case unread == nil:
		return errors.New("the argument could not be read when it was received")
	}
	return unread
}

// AdmitUpdate rejects an Update for which the current workflow task has no room, and any Update to a run that ends for lack of room.
func (q *Requests) AdmitUpdate(ctx workflow.Context, raw converter.RawValue) error {
	if q.run.Policy.Halted != nil {
		f := contract.FailureOf(q.run.Policy.Halted)
		return contract.Failf(f.Class, "start the run again, and "+f.Remedy, "the run is ending and accepts no more Updates: %s", f.Text)
	}
	if n := proto.Size(raw.Payload()); !q.run.Sizes.fits(ctx, n) {
		return contract.Failf(contract.ClassUnavailable, "send it again", "the current workflow task has no room for an Update of %d bytes", n)
	}
	return nil
}

// Refuse records a rejected signal for the run's status.
func (q *Requests) Refuse(name string, err error) {
	q.Rejected++
	q.RejectionReasons = append(q.RejectionReasons, fmt.Sprintf("%s: %s", name, textutil.Cut(contract.FailureOf(err).Error(), 500)))
	q.RejectionReasons = q.RejectionReasons[max(0, len(q.RejectionReasons)-maxRejects):]
}

// Deliver passes an answer to the execution that waits for it. It ignores answers of the wrong kind and further answers.
func (q *Requests) Deliver(reply *contract.Reply) {
	if t := q.waiting[reply.ID]; t != nil && t.reply == nil && matchesKind(t.kind, reply) {
		t.reply = reply
	}
}

// matchesKind reports whether a reply answers a request of a kind. Any client can send the signal.
func matchesKind(kind string, reply *contract.Reply) bool {
	switch {
	case reply.Expired || reply.Refused != nil:
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

// Ask opens a request and waits for its answer, as a step of an execution.
func (q *Requests) Ask(ctx workflow.Context, x *Execution, req contract.Request) (*contract.Reply, error) {
	var out contract.Reply
	err := q.run.RunStep(ctx, x.Journal, req.ID, req.Hash, &out, func(*journal.Step) error {
		reply, err := q.Await(ctx, x, req, x.Journal)
		switch {
		case err != nil:
			return err
		case reply.Refused != nil:
			return x.Run.Failed(x, reply.Refused)
		}
		out = *reply
		return nil
	})
	return &out, err
}

// Await opens a request and waits for its answer. It returns [ErrYield] if the run should yield first; without a journal it never
// yields.
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
	q.Asker.Close(ctx, req.ID) // also after a cancellation, so that the owner does not show the request forever
	if err != nil {
		return nil, err
	}
	q.run.Policy.Progressed = true
	return t.reply, nil
}

// Complete sets a request's id and the fields that describe the execution that waits for it.
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
	req.ID = contract.ShortenID(req.ID) + "-" + req.Hash[:8]
	return req
}

// remoteAsker is the [Asker] of a run that is not the owner.
type remoteAsker struct{ *Requests }

func (q remoteAsker) Open(ctx workflow.Context, req *contract.Request) error {
	if err := q.run.Sizes.Admit(ctx, "the request", req); err != nil {
		return err
	}
	err := wait.Get(ctx, q.run.Signal(ctx, q.run.Shared.Owner, contract.SignalRequest, req), nil)
	if err != nil && !contract.Cancelled(err) {
		return &contract.Failure{Class: contract.ClassTranscriptLost, Node: req.Node, Step: req.Step, At: req.At,
			Text: fmt.Sprintf("the root run %s could not be notified of a request: %v", q.run.Shared.Owner, err)}
	}
	return err
}

func (q remoteAsker) Close(ctx workflow.Context, id string) {
	q.Send(ctx, q.run.Shared.Owner, contract.SignalCloseRequest, contract.RequestID{ID: id})
}

func (q remoteAsker) Disown(ctx workflow.Context, child string) {
	q.Send(ctx, q.run.Shared.Owner, contract.SignalCloseRequest, contract.RequestID{Run: &contract.Run{Workflow: child}})
}

// Send signals another run, even if this one is cancelled. [Requests.AwaitSignals] must follow, because the server drops a signal
// whose sender closes in the same workflow task.
func (q *Requests) Send(ctx workflow.Context, to, signal string, arg any) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	q.Unacknowledged = append(slices.DeleteFunc(q.Unacknowledged, workflow.Future.IsReady), q.run.Signal(ctx, to, signal, arg))
}

// Disown reports a child to the owner if its error says that it was terminated.
func (q *Requests) Disown(ctx workflow.Context, child string, err error) {
	if _, terminated := errors.AsType[*temporal.TerminatedError](err); terminated {
		q.Asker.Disown(ctx, child)
	}
}

// AwaitSignals waits until the server has acknowledged or rejected all signals in Unacknowledged.
func (q *Requests) AwaitSignals(ctx workflow.Context) {
	for len(q.Unacknowledged) > 0 { // more may be added meanwhile
		sent := q.Unacknowledged[0]
		q.Unacknowledged = q.Unacknowledged[1:]
		_ = wait.Get(ctx, sent, nil) // an owner that has ended needs no signals
	}
}

// Messages removes and returns the messages for the next model call of a node.
func (q *Requests) Messages(node string) []contract.Inbound {
	return Take(&q.UnreadMessages, func(m *contract.Inbound) bool { return m.Node == "" || m.Node == node })
}

// Take removes the elements that match from a list, and returns them.
func Take[T any](list *[]T, match func(*T) bool) (out []T) {
	var rest []T
	for _, e := range *list {
		if match(&e) {
			out = append(out, e)
		} else {
			rest = append(rest, e)
		}
	}
	*list = rest
	return out
}
