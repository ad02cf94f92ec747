package publish

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/group"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// A root run tells webhooks of its requests and of its end. Each event is a small workflow of its
// own that outlives the run, so that a receiver that is slow, or away for hours, holds back
// nothing: the run waits only until the server has taken it. Who wants which events is settled and
// recorded when the run starts.

// maxTold is the largest result that an event has.
const maxTold = 64 << 10

// notify tells the webhooks that want an event.
func (p *Publisher) notify(ctx workflow.Context, event, about string, data contract.WebhookData) {
	if p.Public == nil {
		return
	}
	var names []string
	for _, w := range p.Public.Webhooks {
		if slices.Contains(w.Events, event) {
			names = append(names, w.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	info := workflow.GetInfo(ctx)
	data.WorkflowID, data.RunID = info.WorkflowExecution.ID, cmp.Or(info.FirstRunID, info.WorkflowExecution.RunID)
	if p.Run.Flow != nil {
		data.Flow = p.Run.Flow.Name
	}
	raw, err := json.Marshal(data)
	if err != nil {
		workflow.GetLogger(ctx).Warn("an event is not told", "event", event, "error", err)
		return
	}
	in := contract.WebhookDeliveryInput{Names: names, ID: "evt_" + contract.SHA([]byte(data.WorkflowID + "\n" + data.RunID + "\n" + event + "\n" + about))[:32],
		Event: contract.WebhookEvent{Type: event, Timestamp: workflow.Now(ctx).UTC(), Data: raw}, Grant: p.Run.Shared.Grant}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	// An id that is taken is that of the same event, which is on its way already.
	deliver := func(ctx workflow.Context) workflow.Future {
		return p.Run.Start(ctx, &runtime.Child{Workflow: contract.WorkflowWebhookDelivery, In: in, ID: p.Run.Root + "/webhook:" + in.ID, Summary: event,
			Outlives: true, Unique: true}).Future.GetChildWorkflowExecution()
	}
	if n, err := runtime.Size(in); err == nil && p.Run.Sizes.Take(ctx, n) {
		p.Deliveries = append(p.Deliveries, deliver(ctx))
		return
	}
	// The workflow task is full, of requests that came together: this event goes with another.
	taken, take := workflow.NewFuture(ctx)
	p.Deliveries = append(p.Deliveries, taken)
	wait.Go(ctx, "event", func(ctx workflow.Context) {
		if err := p.Run.Sizes.Admit(ctx, "the event", in); err != nil {
			take.SetError(err)
			return
		}
		take.Chain(deliver(ctx))
	})
}

// AwaitDeliveries waits until the server has taken all events. One that it refuses is lost, and no reason
// for the run to fail.
func (p *Publisher) AwaitDeliveries(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	for len(p.Deliveries) > 0 { // others may come meanwhile
		first := p.Deliveries[0]
		p.Deliveries = p.Deliveries[1:]
		if err := wait.Get(ctx, first, nil); err != nil && !runtime.AlreadyStarted(err) {
			workflow.GetLogger(ctx).Warn("an event is not told", "error", err)
		}
	}
}

// Finish tells how the run ended.
func (p *Publisher) Finish(ctx workflow.Context, out *contract.RunResult, err error) {
	if workflow.IsContinueAsNewError(err) || out != nil && out.Yielded != nil {
		return
	}
	p.concluded(ctx, contract.EventRunFinished, "", contract.WebhookData{Status: p.Status}, out, err)
}

// turnStatus are the states of turns in the words of runs.
var turnStatus = map[string]string{contract.TurnCompleted: contract.StatusCompleted, contract.TurnFailed: contract.StatusFailed, contract.TurnStopped: contract.StatusCancelled}

// TurnFinished tells how a turn of a session ended.
func (p *Publisher) TurnFinished(ctx workflow.Context, t *contract.Turn, out *contract.RunResult) {
	data := contract.WebhookData{Status: turnStatus[t.Status], Turn: &contract.WebhookTurn{N: t.N, ID: t.ID}}
	var err error
	if t.Failure != nil {
		err = t.Failure
	}
	p.concluded(ctx, contract.EventTurnFinished, strconv.Itoa(t.N), data, out, err)
}

// concluded tells of an end with its result, or why there is none.
func (p *Publisher) concluded(ctx workflow.Context, event, about string, data contract.WebhookData, out *contract.RunResult, err error) {
	switch {
	case err != nil:
		fail := contract.FailureOf(err)
		data.Error = &contract.WebhookError{Class: fail.Class, Text: textutil.Cut(fail.Error(), 2<<10), Remedy: textutil.Cut(fail.Remedy, 1<<10)}
	case out != nil && out.ResultText != nil:
		if data.ResultText = out.ResultText; len(*out.ResultText) > maxTold {
			data.ResultText, data.OmittedBytes = nil, len(*out.ResultText)
		}
	case out != nil:
		if data.ResultData = out.ResultData; len(out.ResultData) > maxTold {
			data.ResultData, data.OmittedBytes = nil, len(out.ResultData)
		}
	}
	p.notify(ctx, event, about, data)
}

// Opened tells webhooks of a request of the inbox.
func (p *Publisher) Opened(ctx workflow.Context, req *contract.Request) {
	own := *req
	own.Text, own.Catalogue, own.Call = textutil.Cut(own.Text, 4<<10), nil, nil
	p.notify(ctx, contract.EventRequestOpened, numbered(req.ID, req.Reopened), contract.WebhookData{Request: &own})
}

// Closed is [Publisher.Opened] for one that was answered.
func (p *Publisher) Closed(ctx workflow.Context, a *contract.Answered) {
	own := *a
	if own.Reply != nil && own.Reply.Expired {
		own.By = "" // nobody
	}
	own.Reply = nil
	p.notify(ctx, contract.EventRequestAnswered, numbered(a.ID, a.Reopened), contract.WebhookData{Answered: &own})
}

// numbered tells a request from the same one that was asked before.
func numbered(id string, again int) string {
	if again == 0 {
		return id
	}
	return id + "\n" + strconv.Itoa(again)
}

// Deliver delivers one event to all webhooks that want it, each on its own. It fails where one of
// them never took it.
func Deliver(ctx workflow.Context, in contract.WebhookDeliveryInput) error {
	r := runtime.New(ctx)
	r.Shared.Grant = in.Grant
	failed := make([]error, len(in.Names))
	deliveries := group.New(ctx)
	for i, name := range in.Names {
		deliveries.Start(func(ctx workflow.Context) error {
			failed[i] = r.Invoke(ctx, &runtime.Call{Activity: contract.ActivityCallWebhook, Args: []any{contract.WebhookInput{Name: name, ID: in.ID, Event: in.Event}},
				What: "the event", Summary: "webhook · " + name, Options: deliverOptions})
			return nil
		})
	}
	if err := deliveries.Wait(); err != nil {
		return runtime.Wire(err)
	}
	return runtime.Wire(cmp.Or(failed...))
}

// deliverOptions let the receiver of a webhook be away for a day.
var deliverOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    time.Minute,
	ScheduleToCloseTimeout: 24 * time.Hour,
	RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 3, MaximumInterval: 30 * time.Minute},
}
