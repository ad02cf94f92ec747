// Package publish publishes the status of a run: to lists by search attributes and a memo, to webhooks by events.
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

// A root run writes those search attributes that the namespace is known to have: a write of any other would fail the workflow
// task for ever. Which these are is recorded at its start, as the activity that compiles found out or the start request has set.

// Publish notes how the run stands, and writes the status as a search attribute if it has changed: each write is an event.
func (p *Publisher) Publish(ctx workflow.Context, status string) {
	if p.Status == status {
		return
	}
	p.Status = status
	if p.Public != nil && slices.Contains(p.Public.Attributes, contract.AttributeStatus) {
		p.upsert(ctx, []string{contract.AttributeStatus})
	}
}

// Alive reports whether the run has not ended.
func (p *Publisher) Alive() bool {
	return p.Status == contract.StatusRunning || p.Status == contract.StatusWaiting || p.Status == contract.StatusIdle
}

// Introduce writes what the start request of a run, or of a session, has not set, once the plan is known.
func (p *Publisher) Introduce(ctx workflow.Context, session bool) {
	if p.Public == nil {
		return
	}
	if len(p.Public.Unset) > 0 {
		p.upsert(ctx, p.Public.Unset)
	}
	if p.Public.Memo {
		who := p.principal()
		memo := map[string]any{contract.MemoFlow: contract.Keyword(p.Run.Flow.Name), contract.MemoHash: p.Run.Hash}
		if session {
			memo[contract.MemoSession] = true
		}
		if who.Name != "" {
			memo[contract.MemoPrincipal], memo[contract.MemoTenant] = who.Name, who.Tenant
		}
		if err := workflow.UpsertMemo(ctx, memo); err != nil {
			workflow.GetLogger(ctx).Warn("the run has no memo", "error", err)
		}
	}
}

// upsert writes search attributes in one event.
func (p *Publisher) upsert(ctx workflow.Context, names []string) {
	if p.Run.Flow == nil {
		return
	}
	who := p.principal()
	values := map[string]string{
		contract.AttributeFlow: p.Run.Flow.Name, contract.AttributeDialect: p.Run.Flow.Dialect,
		contract.AttributePlanHash: p.Run.Hash, contract.AttributeStatus: p.Status,
		contract.AttributePrincipal: who.Name, contract.AttributeTenant: who.Tenant,
	}
	var updates []temporal.SearchAttributeUpdate
	for _, name := range names {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(contract.Keyword(values[name])))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("the run does not show how it stands", "error", err)
	}
}

// maxListed is how many bytes of requests a memo has.
const maxListed = 16 << 10

// List takes what Changed holds. It writes the open requests into the memo, if they have changed, so that lists show them without
// asking the run.
func (p *Publisher) List(ctx workflow.Context, open []contract.Request) {
	p.Changed.ReceiveAsync(nil)
	if p.Public == nil || !p.Alive() {
		return
	}
	ids := contract.RequestIDs(open)
	if slices.Equal(ids, p.Public.Requests) {
		return
	}
	p.Public.Requests = ids
	out, room := contract.OpenRequests{Requests: []contract.Request{}}, maxListed
	for i := range open {
		n, err := contract.Size(open[i])
		if room -= n; err != nil || room < 0 {
			out.More = len(open) - i
			break
		}
		out.Requests = append(out.Requests, open[i])
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{contract.MemoRequests: out}); err != nil {
		workflow.GetLogger(ctx).Warn("lists do not show the open requests", "error", err)
	}
}

// principal is who started the run.
func (p *Publisher) principal() contract.Principal {
	if g := p.Run.Shared.Grant; g != nil {
		return g.Principal.Value()
	}
	return contract.Principal{}
}

// Publisher tells others how a run stands.
type Publisher struct {
	Run *runtime.Run
	// Status is one of the contract's; [Publisher.Publish] changes it. Public is absent in a run that is no root.
	Status string
	Public *contract.Publish
	// Changed holds something where the open requests may be others than those in the memo.
	Changed workflow.Channel
	// Deliveries are events that the server may not have taken yet.
	Deliveries []workflow.Future
}

// maxTold is the largest result that an event has.
const maxTold = 64 << 10

// notify tells the webhooks that want an event, as is recorded when the run starts. Each event is a workflow of its own that
// outlives the run: a receiver that is away for hours holds back nothing.
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
	raw, _ := json.Marshal(data)
	in := contract.WebhookDeliveryInput{Names: names, ID: "evt_" + contract.SHA([]byte(data.WorkflowID + "\n" + data.RunID + "\n" + event + "\n" + about))[:32],
		Event: contract.WebhookEvent{Type: event, Timestamp: workflow.Now(ctx).UTC(), Data: raw}, Grant: p.Run.Shared.Grant}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	// An id that is taken is that of the same event, which is on its way already.
	deliver := func(ctx workflow.Context) workflow.Future {
		return p.Run.Start(ctx, &runtime.Child{Workflow: contract.WorkflowWebhookDelivery, In: in, ID: p.Run.Root + "/webhook:" + in.ID, Summary: event,
			Outlives: true, Unique: true}).Future.GetChildWorkflowExecution()
	}
	if n, _ := contract.Size(in); p.Run.Sizes.Take(ctx, n) {
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

// AwaitDeliveries waits until the server has taken all events. One that it refuses is lost, and does not fail the run.
func (p *Publisher) AwaitDeliveries(ctx workflow.Context) {
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
	p.concluded(ctx, contract.EventRunFinished, "", contract.WebhookData{Status: p.Status}, out, contract.FailureOf(err))
}

// turnStatus are the states of turns in the words of runs.
var turnStatus = map[string]string{contract.TurnCompleted: contract.StatusCompleted, contract.TurnFailed: contract.StatusFailed, contract.TurnStopped: contract.StatusCancelled}

// TurnFinished tells how a turn of a session ended.
func (p *Publisher) TurnFinished(ctx workflow.Context, t *contract.Turn, out *contract.RunResult) {
	data := contract.WebhookData{Status: turnStatus[t.Status], Turn: &contract.WebhookTurn{N: t.N, ID: t.ID}}
	p.concluded(ctx, contract.EventTurnFinished, strconv.Itoa(t.N), data, out, t.Failure)
}

// concluded tells of an end with its result, or why there is none.
func (p *Publisher) concluded(ctx workflow.Context, event, about string, data contract.WebhookData,
	out *contract.RunResult, f *contract.Failure) {
	switch {
	case f != nil:
		data.Error = &contract.WebhookError{Class: f.Class, Text: textutil.Cut(f.Error(), 2<<10), Remedy: textutil.Cut(f.Remedy, 1<<10)}
	case out.ResultText != nil && len(*out.ResultText) > maxTold:
		data.OmittedBytes = len(*out.ResultText)
	case out.ResultText != nil:
		data.ResultText = out.ResultText
	case len(out.ResultData) > maxTold:
		data.OmittedBytes = len(out.ResultData)
	default:
		data.ResultData = out.ResultData
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

// Deliver delivers one event to all webhooks that want it, each on its own. It fails if one of them never took it.
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
	_ = deliveries.Wait() // none fails the others
	return runtime.ToApplicationError(cmp.Or(failed...))
}

// deliverOptions let the receiver of a webhook be away for a day.
var deliverOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    time.Minute,
	ScheduleToCloseTimeout: 24 * time.Hour,
	RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 3, MaximumInterval: 30 * time.Minute},
}
