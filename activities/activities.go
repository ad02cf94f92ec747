// Package activities does a flow's I/O: model calls, tool calls, compiling a document.
//
// Activities decide nothing about a flow; package workflows does. Each one is idempotent
// or carries a key by which its receiver can make it so; retries belong to Temporal alone;
// every error that leaves is a [contract.Failure] on the wire. The package imports neither
// workflows nor a dialect.
//
// Start at [Activities.Model].
package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/activities/tool"
	"weft/activities/webhook"
	"weft/workflows/plan"
)

// Deps is what activities work with. Tests leave out what they do not reach.
type Deps struct {
	Models *llm.Models
	Tools  *tool.Tools
	// Source answers for runs; see [NewClientSource].
	Source Source
	// Compile turns a document into a plan. Its error is a [contract.Failure].
	Compile func(contract.FlowRef) (*contract.PrepareResult, error)
	// Begin makes of a flow that declares inputs, and of what a run is given, the flow as it
	// runs and its text. Its error is a [contract.Failure], or ctx's.
	Begin func(ctx context.Context, f *plan.Flow, given Given) (*plan.Flow, string, error)
	// Attributes, if set, says which search attributes a namespace has; see [NewAttributes].
	Attributes *Attributes
	// Webhooks are the receivers of events; nil: there are none.
	Webhooks *webhook.Hooks
	// CacheBytes bounds the transcript cache; 0 means 128 MiB.
	CacheBytes int
	// MaxPayload is the largest payload in bytes that the worker's store takes; 0 means that
	// there is none.
	MaxPayload int
	// Means is what the worker lets runs spend; absent: what they like.
	Means *contract.Means
	// Mask knows the worker's secrets; nil: there are none.
	Mask *mask.Mask
	// Watched reports whether somebody may be watching the calls of a run id; nil: of every one.
	Watched func(run string) bool
}

// Given is what a run of a flow with declared inputs is given.
type Given struct {
	// Params and Scope are JSON objects, or empty; Text is the run's.
	Params, Scope json.RawMessage
	Text          string
	// Run is the run's workflow id.
	Run string
	// Unchecked and Replaced are those of [contract.PrepareInput].
	Unchecked, Replaced bool
}

// Activities are the activities of one worker.
type Activities struct {
	deps  Deps
	cache *cache
	locks *locks
}

// New makes a worker's activities.
func New(d Deps) *Activities {
	if d.Watched == nil {
		d.Watched = func(string) bool { return true }
	}
	if d.CacheBytes == 0 {
		d.CacheBytes = 128 << 20
	}
	return &Activities{deps: d, cache: newCache(d.CacheBytes), locks: newLocks()}
}

// Register makes a worker run the activities under the contract's names.
func (a *Activities) Register(w worker.ActivityRegistry) {
	for name, fn := range map[string]any{
		contract.ActivityPrepare:   a.Prepare,
		contract.ActivityListTool:  a.ListTools,
		contract.ActivityModel:     a.Model,
		contract.ActivityTool:      a.Tool,
		contract.ActivityJudge:     a.Judge,
		contract.ActivityCondense:  a.Condense,
		contract.ActivitySummarise: a.Summarise,
		contract.ActivityCheck:     a.CheckAnswer,
		contract.ActivityProgram:   a.Program,
		contract.ActivityWebhook:   a.Webhook,
	} {
		w.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
}

// Prepare compiles a document, sent or named, if there is one, chooses the model, if none is
// named, and settles what a root run publishes.
func (a *Activities) Prepare(ctx context.Context, in contract.PrepareInput) (*contract.PrepareResult, error) {
	_, stop := a.beat(ctx)
	defer stop()
	out := &contract.PrepareResult{Model: in.Model, MaxPayload: a.deps.MaxPayload, Means: a.deps.Means}
	if in.Flow.Plan == nil && (in.Flow.Text != "" || in.Flow.Name != "") {
		compiled, err := a.deps.Compile(in.Flow)
		if err != nil {
			return nil, a.leave(ctx, err)
		}
		*out = *compiled
		out.Model, out.MaxPayload, out.Means = in.Model, a.deps.MaxPayload, a.deps.Means
	}
	if in.Flow.Plan != nil {
		out.Plan = in.Flow.Plan
	}
	if in.Flow.Plan != nil && out.Plan.Inputs != nil {
		begun, text, err := a.deps.Begin(ctx, out.Plan, Given{Params: in.Params, Scope: in.Scope, Text: in.Input,
			Run: activity.GetInfo(ctx).WorkflowExecution.ID, Unchecked: in.Unchecked, Replaced: in.Replaced})
		if err != nil {
			return nil, a.leave(ctx, err)
		}
		out.Plan, out.Input = begun, &text
	}
	model, err := a.modelFor(out.Plan, out.Model)
	if err != nil {
		return nil, a.leave(ctx, err)
	}
	out.Model = model
	if in.Root != nil {
		out.Publish = a.deps.Attributes.settle(ctx, activity.GetInfo(ctx).Namespace, in.Root)
		out.Publish.Webhooks = a.deps.Webhooks.Wanted()
	}
	return out, a.leave(ctx, a.bounded("the compiled flow", out))
}

// modelFor chooses the model of a run that names none: its plan's, else the worker's.
func (a *Activities) modelFor(f *plan.Flow, named string) (string, error) {
	if named == "" && f != nil {
		named = f.Model
	}
	if named != "" {
		return named, nil
	}
	model, err := a.deps.Models.Default()
	if err != nil && (f == nil || f.WantsModel()) {
		return "", err
	}
	return cmp.Or(model, contract.NoModel), nil
}

// maxResult is the most that an activity returns without a store; the server's limit is
// 2 MiB. What is larger would be refused there, and the call made again and again.
const maxResult = 1_900 << 10

// envelope is what a payload holds beside its data, with room.
const envelope = 4 << 10

// bounded refuses a result that would not fit.
func (a *Activities) bounded(what string, v any) error { return a.within(what, v, 0) }

// within is [Activities.bounded] for one of several results that come together: what has more than its
// room in the run's history goes to the store, however short it is, and is refused where there is none.
// 0 means that there is no such bound.
func (a *Activities) within(what string, v any, room int) error {
	limit, through := maxResult, "be sent through Temporal"
	switch {
	case a.deps.MaxPayload > 0:
		limit, through = max(limit, a.deps.MaxPayload-envelope), "go into the store"
	case room > 0 && room < maxResult:
		limit, through = room, "go into the run's history beside those of the calls made with it"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", what, err)
	}
	if len(b) > limit {
		return &contract.Failure{Class: contract.ClassTooLarge,
			Text:   fmt.Sprintf("%s is %d bytes, at most %d can %s", what, len(b), limit, through),
			Remedy: "ask for less: a narrower query, a page, a shorter answer"}
	}
	if out, ok := v.(interface{ KeepOutside() }); ok && room > 0 && len(b) > room {
		out.KeepOutside()
	}
	return nil
}

// leave turns an error into what an activity returns.
func (a *Activities) leave(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); errors.Is(cause, activity.ErrActivityPaused) || errors.Is(cause, activity.ErrActivityReset) {
			return (&contract.Failure{Class: contract.ClassUnavailable, Text: cause.Error()}).Wire()
		}
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			f := &contract.Failure{Class: contract.ClassUnavailable, Text: "the worker is stopping"}
			measureFailure(ctx, f)
			return f.Wire()
		default:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				measureFailure(ctx, &contract.Failure{Class: contract.ClassTimeout, Text: "the call's time is over"})
			}
			return ctx.Err()
		}
	}
	f := a.veiled(contract.FailureOf(err))
	measureFailure(ctx, f)
	return f.Wire()
}

// key is the same for all attempts of a call and for no other call.
func key(ctx context.Context) string {
	i := activity.GetInfo(ctx)
	return i.WorkflowExecution.RunID + "/" + i.ActivityID
}

// maxBeat bounds what a heartbeat carries, in bytes of JSON.
const maxBeat = 4 << 10

// soonest is the least time between two heartbeats with new text. The SDK's own throttle
// bounds what reaches the server.
const soonest = 100 * time.Millisecond

// slowest is the most time between two heartbeats of a call that nobody watches.
const slowest = 10 * time.Second

// beat sends heartbeats until stop is called. tell replaces the text that they carry; where
// somebody may be watching, new text goes out soon.
func (a *Activities) beat(ctx context.Context) (tell func(string), stop func()) {
	tell, _, stop = a.pulse(ctx)
	return tell, stop
}

// pulse is [beat] for calls that may have to wait: waits replaces what they wait for, "" ends
// it.
func (a *Activities) pulse(ctx context.Context) (tell, waits func(string), stop func()) {
	return a.pulseOf(ctx, nil)
}

// pulseOf is [pulse] for calls that begin tasks elsewhere: the last one is carried, too, for a
// later attempt.
func (a *Activities) pulseOf(ctx context.Context, tasks <-chan string) (tell, waits func(string), stop func()) {
	measureAttempt(ctx)
	info := activity.GetInfo(ctx)
	if info.HeartbeatTimeout == 0 {
		return func(string) {}, func(string) {}, func() {}
	}
	texts, reasons := make(chan string, 1), make(chan string, 1)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := contract.Beat{Attempt: info.Attempt}
		every := min(max(info.HeartbeatTimeout/4, soonest), slowest)
		t := time.NewTicker(soonest)
		defer t.Stop()
		// A call that ends before the first tick costs no heartbeat.
		var sent time.Time
		text, told := "", ""
		for {
			select {
			case <-done:
				return
			case text = <-texts:
			case task := <-tasks:
				b.Task = a.deps.Mask.Text(task)
				activity.RecordHeartbeat(ctx, bounded(b))
			case b.Waiting = <-reasons:
				activity.RecordHeartbeat(ctx, bounded(b))
			case now := <-t.C:
				if now.Sub(sent) >= every || text != told && a.deps.Watched(info.WorkflowExecution.RunID) {
					sent, told = now, text
					b.Text = a.deps.Mask.Tail(text, maxBeat)
					activity.RecordHeartbeat(ctx, bounded(b))
				}
			}
		}
	}()
	return func(text string) { latest(texts, text) }, func(reason string) { latest(reasons, reason) }, func() { close(done); <-ended }
}

// bounded is a beat with as much of the end of its text as maxBeat leaves room for.
func bounded(b contract.Beat) contract.Beat {
	for {
		raw, err := json.Marshal(b)
		over := len(raw) - maxBeat
		if err != nil || over <= 0 || b.Text == "" {
			return b
		}
		// A byte of the text takes one of the JSON or several.
		cut := 1 + over*len(b.Text)/len(raw)
		for cut < len(b.Text) && !utf8.RuneStart(b.Text[cut]) {
			cut++
		}
		b.Text = b.Text[cut:]
	}
}

// latest puts a text where only the newest one counts. It never waits.
func latest(texts chan string, text string) {
	select {
	case <-texts:
	default:
	}
	select {
	case texts <- text:
	default:
	}
}
