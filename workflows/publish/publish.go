// Package publish publishes the status of a run: in lists through search attributes and a memo, to webhooks through events.
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

// A root run writes only those search attributes that the namespace is known to have, because writing any other would fail the
// workflow task forever. They are recorded at its start, from the start request or the result of the activity that compiles.

// Publish sets the run's status, and writes the search attribute if the status has changed, because each write is an event.
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

// Introduce writes the search attributes and the memo that the start request has not set, once the plan is known.
func (p *Publisher) Introduce(ctx workflow.Context, session bool) {
	if p.Public == nil {
		return
	}
	if len(p.Public.Unset) > 0 {
		p.upsert(ctx, p.Public.Unset)
	}
	if p.Public.Memo {
		principal := p.principal()
		memo := map[string]any{contract.MemoFlow: contract.Keyword(p.Run.Flow.Name), contract.MemoHash: p.Run.Hash}
		if session {
			memo[contract.MemoSession] = true
		}
		if principal.Name != "" {
			memo[contract.MemoPrincipal], memo[contract.MemoTenant] = principal.Name, principal.Tenant
		}
		if err := workflow.UpsertMemo(ctx, memo); err != nil {
			workflow.GetLogger(ctx).Warn("memo of the run not written", "error", err)
		}
	}
}

// upsert writes search attributes in one event.
func (p *Publisher) upsert(ctx workflow.Context, names []string) {
	if p.Run.Flow == nil {
		return
	}
	principal := p.principal()
	values := map[string]string{
		contract.AttributeFlow: p.Run.Flow.Name, contract.AttributeDialect: p.Run.Flow.Dialect,
		contract.AttributePlanHash: p.Run.Hash, contract.AttributeStatus: p.Status,
		contract.AttributePrincipal: principal.Name, contract.AttributeTenant: principal.Tenant,
	}
	var updates []temporal.SearchAttributeUpdate
	for _, name := range names {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(contract.Keyword(values[name])))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes of the run not written", "error", err)
	}
}

// maxMemoBytes limits the size of the requests in a memo.
const maxMemoBytes = 16 << 10

// List drains Changed and writes the open requests into the memo if they have changed, so that lists show them without a query to
// the run.
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
	out, room := contract.OpenRequests{Requests: []contract.Request{}}, maxMemoBytes
	for i := range open {
		n, err := contract.Size(open[i])
		if room -= n; err != nil || room < 0 {
			out.More = len(open) - i
			break
		}
		out.Requests = append(out.Requests, open[i])
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{contract.MemoRequests: out}); err != nil {
		workflow.GetLogger(ctx).Warn("open requests not written to the memo", "error", err)
	}
}

// principal returns the principal who started the run.
func (p *Publisher) principal() contract.Principal {
	if g := p.Run.Shared.Grant; g != nil {
		return g.Principal.Value()
	}
	return contract.Principal{}
}

// Publisher publishes the status of a run.
type Publisher struct {
	Run *runtime.Run
	// Status is one of the contract's; [Publisher.Publish] changes it. Public is nil in a child run.
	Status string
	Public *contract.Publish
	// Changed holds a value if the open requests may differ from those in the memo.
	Changed workflow.Channel
	// Deliveries are the events that Temporal may not have accepted yet.
	Deliveries []workflow.Future
}

// maxEventResult is the size in bytes of the largest result that an event includes.
const maxEventResult = 64 << 10

// notify sends an event to the webhooks that subscribe to it, as recorded when the run started. Each event is delivered by its own
// workflow, which outlives the run, so that a receiver that is down for hours delays nothing.
func (p *Publisher) notify(ctx workflow.Context, event, subject string, data contract.WebhookData) {
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
	in := contract.WebhookDeliveryInput{Names: names, ID: "evt_" + contract.SHA([]byte(data.WorkflowID + "\n" + data.RunID + "\n" + event + "\n" + subject))[:32],
		Event: contract.WebhookEvent{Type: event, Timestamp: workflow.Now(ctx).UTC(), Data: raw}, Grant: p.Run.Shared.Grant}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	// If the workflow id is in use, the same event is being delivered already.
	deliver := func(ctx workflow.Context) workflow.Future {
		return p.Run.Start(ctx, &runtime.Child{Workflow: contract.WorkflowWebhookDelivery, In: in, ID: p.Run.Root + "/webhook:" + in.ID, Summary: event,
			Outlives: true, Unique: true}).Future.GetChildWorkflowExecution()
	}
	if n, _ := contract.Size(in); p.Run.Sizes.Take(ctx, n) {
		p.Deliveries = append(p.Deliveries, deliver(ctx))
		return
	}
	// The workflow task is full, because many requests came together: deliver the event in a later one.
	accepted, setAccepted := workflow.NewFuture(ctx)
	p.Deliveries = append(p.Deliveries, accepted)
	wait.Go(ctx, "event", func(ctx workflow.Context) {
		if err := p.Run.Sizes.Admit(ctx, "the event", in); err != nil {
			setAccepted.SetError(err)
			return
		}
		setAccepted.Chain(deliver(ctx))
	})
}

// AwaitDeliveries waits until Temporal has accepted all events. An event that it rejects is lost, but does not fail the run.
func (p *Publisher) AwaitDeliveries(ctx workflow.Context) {
	for len(p.Deliveries) > 0 { // more may be added meanwhile
		delivery := p.Deliveries[0]
		p.Deliveries = p.Deliveries[1:]
		if err := wait.Get(ctx, delivery, nil); err != nil && !runtime.AlreadyStarted(err) {
			workflow.GetLogger(ctx).Warn("webhook event lost", "error", err)
		}
	}
}

// Finish sends the event that the run has ended.
func (p *Publisher) Finish(ctx workflow.Context, out *contract.RunResult, err error) {
	if workflow.IsContinueAsNewError(err) || out != nil && out.Yielded != nil {
		return
	}
	p.notifyEnd(ctx, contract.EventRunFinished, "", contract.WebhookData{Status: p.Status}, out, contract.FailureOf(err))
}

// turnStatus maps the status of a turn to that of a run.
var turnStatus = map[string]string{contract.TurnCompleted: contract.StatusCompleted, contract.TurnFailed: contract.StatusFailed, contract.TurnStopped: contract.StatusCancelled}

// TurnFinished sends the event that a turn of a session has ended.
func (p *Publisher) TurnFinished(ctx workflow.Context, t *contract.Turn, out *contract.RunResult) {
	data := contract.WebhookData{Status: turnStatus[t.Status], Turn: &contract.WebhookTurn{N: t.N, ID: t.ID}}
	p.notifyEnd(ctx, contract.EventTurnFinished, strconv.Itoa(t.N), data, out, t.Failure)
}

// notifyEnd sends an event with a result or a failure.
func (p *Publisher) notifyEnd(ctx workflow.Context, event, subject string, data contract.WebhookData,
	out *contract.RunResult, f *contract.Failure) {
	switch {
	case f != nil:
		data.Error = &contract.WebhookError{Class: f.Class, Text: textutil.Cut(f.Error(), 2<<10), Remedy: textutil.Cut(f.Remedy, 1<<10)}
	case out.ResultText != nil && len(*out.ResultText) > maxEventResult:
		data.OmittedBytes = len(*out.ResultText)
	case out.ResultText != nil:
		data.ResultText = out.ResultText
	case len(out.ResultData) > maxEventResult:
		data.OmittedBytes = len(out.ResultData)
	default:
		data.ResultData = out.ResultData
	}
	p.notify(ctx, event, subject, data)
}

// Opened sends the event that a request of the inbox was opened.
func (p *Publisher) Opened(ctx workflow.Context, req *contract.Request) {
	short := *req
	short.Text, short.Catalogue, short.Call = textutil.Cut(short.Text, 4<<10), nil, nil
	p.notify(ctx, contract.EventRequestOpened, occurrenceKey(req.ID, req.Reopened), contract.WebhookData{Request: &short})
}

// Closed sends the event that a request was answered or has expired.
func (p *Publisher) Closed(ctx workflow.Context, a *contract.Answered) {
	short := *a
	if short.Reply != nil && short.Reply.Expired {
		short.By = "" // no one answered
	}
	short.Reply = nil
	p.notify(ctx, contract.EventRequestAnswered, occurrenceKey(a.ID, a.Reopened), contract.WebhookData{Answered: &short})
}

// occurrenceKey distinguishes a reopened request from its earlier occurrences.
func occurrenceKey(id string, reopened int) string {
	if reopened == 0 {
		return id
	}
	return id + "\n" + strconv.Itoa(reopened)
}

// WebhookDelivery is the workflow that delivers an event to several webhooks, independently of each other. It fails if a delivery fails.
func WebhookDelivery(ctx workflow.Context, in contract.WebhookDeliveryInput) error {
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
	_ = deliveries.Wait() // a failed delivery does not cancel the others
	return runtime.ToApplicationError(cmp.Or(failed...))
}

// deliverOptions allow the receiver of a webhook to be down for a day.
var deliverOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    time.Minute,
	ScheduleToCloseTimeout: 24 * time.Hour,
	RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 3, MaximumInterval: 30 * time.Minute},
}
