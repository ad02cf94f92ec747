// Package activities does a flow's I/O: model calls, tool calls, compiling a document.
//
// Activities make no decisions about a flow; package workflows does. Each activity is idempotent
// or sends a key that lets its receiver deduplicate. Only Temporal retries.
// Every error that an activity returns is a [contract.Failure]. The package imports neither
// workflows nor a dialect.
//
// Start at [Activities.Register].
package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/activities/tool"
	"weft/activities/webhook"
	"weft/workflows/plan"
)

// Deps are the dependencies of the activities. Tests set only those that they need.
type Deps struct {
	Models *llm.Models
	Tools  *tool.Tools
	// Source queries runs; see [NewClientSource].
	Source Source
	// Compile turns a document into a plan. Its error is a [contract.Failure].
	Compile func(contract.FlowRef) (*contract.CompileFlowResult, error)
	// Begin applies the input of the run with a workflow id to its flow, which declares inputs, and returns the flow as it runs
	// and the text. Its error is a [contract.Failure], or ctx's.
	Begin func(ctx context.Context, in *contract.CompileFlowInput, run string) (*plan.Flow, string, error)
	// Attributes, if set, looks up the search attributes of a namespace; see [NewAttributes].
	Attributes *Attributes
	// Webhooks are the receivers of events; nil means none.
	Webhooks *webhook.Hooks
	// CacheBytes bounds the transcript cache; 0 means 128 MiB.
	CacheBytes int
	// MaxPayload is the largest payload in bytes that the worker's store accepts; 0 means that
	// there is no store.
	MaxPayload int
	// Keys seal grants; without keys, as in tests, grants are not verified. Policies are the policies in force.
	Keys     []contract.SealKey
	Policies []contract.Policy
	// Mask masks the worker's secrets; nil means none.
	Mask *mask.Mask
	// Queue is a task queue that only this worker polls, for calls over sessions that no other worker can continue;
	// empty means none.
	Queue string
	// Watched reports whether a client may be following a run's calls; nil means always.
	Watched func(run string) bool
}

// Activity is an activity as a worker registers it.
type Activity[In, Out any] = func(context.Context, In) (Out, error)

// Activities are the activities of one worker, made by [New].
type Activities struct {
	deps  Deps
	cache *cache
	locks *locks
	// registered holds the activities by name, local those that can run as local activities.
	registered map[string]any
	local      map[string]locally

	CompileFlow           Activity[contract.CompileFlowInput, *contract.CompileFlowResult]
	ListTools             Activity[contract.CatalogueInput, *contract.CatalogueResult]
	CallModel             Activity[contract.ModelInput, *contract.ModelResult]
	CallTool              Activity[contract.ToolInput, *contract.ToolResult]
	EvaluateCondition     Activity[contract.JudgeInput, *contract.JudgeResult]
	CondenseValue         Activity[contract.CondenseInput, *contract.CondenseResult]
	SummariseConversation Activity[contract.SummariseInput, *contract.SummariseResult]
	ValidateAnswer        Activity[contract.ValidateAnswerInput, *contract.ValidateAnswerResult]
	RunProgram            Activity[contract.ProgramInput, *contract.ProgramResult]
	FetchResult           Activity[contract.HeldResult, json.RawMessage]
	CallWebhook           Activity[contract.WebhookInput, *struct{}]
}

// New returns the activities of a worker.
func New(d Deps) *Activities {
	if d.Watched == nil {
		d.Watched = func(string) bool { return true }
	}
	a := &Activities{deps: d, cache: newCache(cmp.Or(d.CacheBytes, 128<<20)), locks: newLocks()}
	a.CompileFlow = activityOf(a, a.compileFlow) // before there is a grant
	a.registered = map[string]any{contract.ActivityCallLocally: a.callLocally, contract.ActivityCompileFlow: a.CompileFlow}
	a.local = map[string]locally{
		contract.ActivityCompileFlow: local(func(ctx context.Context, in contract.CompileFlowInput, _ *contract.Grant) (*contract.CompileFlowResult, error) {
			return a.CompileFlow(ctx, in)
		}),
	}
	define(a, contract.ActivityListTools, &a.ListTools, a.listTools)
	define(a, contract.ActivityCallModel, &a.CallModel, a.callModel)
	define(a, contract.ActivityCallTool, &a.CallTool, a.callTool)
	define(a, contract.ActivityEvaluateCondition, &a.EvaluateCondition, a.evaluateCondition)
	define(a, contract.ActivityCondenseValue, &a.CondenseValue, a.condenseValue)
	define(a, contract.ActivitySummariseConversation, &a.SummariseConversation, a.summariseConversation)
	define(a, contract.ActivityValidateAnswer, &a.ValidateAnswer, a.validateAnswer)
	define(a, contract.ActivityRunProgram, &a.RunProgram, a.runProgram)
	define(a, contract.ActivityFetchResult, &a.FetchResult, a.fetchResult)
	define(a, contract.ActivityCallWebhook, &a.CallWebhook, a.callWebhook)
	return a
}

// define makes an activity of a method and adds it to those that a worker registers.
func define[In, Out any](a *Activities, name string, to *Activity[In, Out], do func(context.Context, *In, *heartbeats) (Out, error)) {
	*to = activityOf(a, do)
	fn := authorized(a, *to)
	a.registered[name], a.local[name] = fn, local(fn)
}

// Register registers the activities with a worker under the names in package contract.
func (a *Activities) Register(w worker.ActivityRegistry) {
	for name, fn := range a.registered {
		w.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
}

// activityOf wraps a method as an activity that sends heartbeats while it runs and returns errors that Temporal can record.
func activityOf[In, Out any](a *Activities, do func(context.Context, *In, *heartbeats) (Out, error)) Activity[In, Out] {
	return func(ctx context.Context, in In) (Out, error) {
		beats := a.heartbeat(ctx)
		defer beats.stop()
		out, err := do(ctx, &in, beats)
		return out, a.toActivityError(ctx, err)
	}
}

// callWebhook delivers one event to one receiver of the worker's configuration.
func (a *Activities) callWebhook(ctx context.Context, in *contract.WebhookInput, _ *heartbeats) (*struct{}, error) {
	return nil, a.deps.Webhooks.Send(ctx, in)
}

// compileFlow compiles the document, if there is one, chooses a model unless one is named, and decides
// what a root run publishes.
func (a *Activities) compileFlow(ctx context.Context, in *contract.CompileFlowInput, _ *heartbeats) (*contract.CompileFlowResult, error) {
	out := &contract.CompileFlowResult{Model: in.Model}
	if in.Flow.Plan == nil && (in.Flow.Text != "" || in.Flow.Name != "") {
		compiled, err := a.deps.Compile(in.Flow)
		if err != nil {
			return nil, err
		}
		*out = *compiled
		out.Model = in.Model
	}
	if out.Plan = cmp.Or(in.Flow.Plan, out.Plan); in.Flow.Plan != nil && in.Flow.Plan.Inputs != nil {
		bound, text, err := a.deps.Begin(ctx, in, activity.GetInfo(ctx).WorkflowExecution.ID)
		if err != nil {
			return nil, err
		}
		out.Plan, out.Input = bound, &text
	}
	var err error
	if out.Model, err = a.modelFor(out.Plan, out.Model); err != nil {
		return nil, err
	}
	if in.Root != nil {
		out.Publish = a.deps.Attributes.settle(ctx, activity.GetInfo(ctx).Namespace, in.Root)
		out.Publish.Webhooks = a.deps.Webhooks.Wanted()
	}
	return out, a.checkSize("the compiled flow", out)
}

// modelFor returns the model of a run: the named one, else the plan's, else the worker's default.
func (a *Activities) modelFor(f *plan.Flow, named string) (string, error) {
	if named == "" && f != nil {
		named = f.Model
	}
	if named != "" {
		return named, nil
	}
	model, err := a.deps.Models.Default()
	if err != nil && (f == nil || f.UsesRunModel()) {
		return "", err
	}
	return cmp.Or(model, contract.NoModel), nil
}

// checkSize returns a too_large failure if a result does not fit into a payload.
func (a *Activities) checkSize(what string, v any) error { return a.checkRoom(what, v, 0) }

// checkRoom is [Activities.checkSize] for a result that shares the history with those of parallel calls. A result that is
// larger than room bytes is offloaded to the store, or fails if there is no store. 0 means no limit.
func (a *Activities) checkRoom(what string, v any, room int) error {
	limit, through, larger := contract.MaxPayload, "be sent through Temporal", "give the workers a store (store.dir)"
	switch {
	case a.deps.MaxPayload > 0:
		limit, through, larger = max(limit, a.deps.MaxPayload-contract.Envelope), "go into the store", "raise store.max_payload"
	case room > 0 && room < contract.MaxPayload:
		limit, through = room, "go into the run's history beside those of the calls made with it"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", what, err)
	}
	if len(b) > limit {
		return &contract.Failure{Class: contract.ClassTooLarge,
			Text:   fmt.Sprintf("%s is %d bytes, at most %d can %s", what, len(b), limit, through),
			Remedy: "ask for less: a narrower query, a page, a shorter answer; or " + larger}
	}
	if out, ok := v.(interface{ Offload() }); ok && room > 0 && len(b) > room {
		out.Offload()
	}
	return nil
}

// toActivityError converts an error to the one that the activity returns.
func (a *Activities) toActivityError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if errors.Is(cause, activity.ErrActivityPaused) || errors.Is(cause, activity.ErrActivityReset) {
			return (&contract.Failure{Class: contract.ClassUnavailable, Text: cause.Error()}).ApplicationError()
		}
		f := &contract.Failure{Class: contract.ClassUnavailable, Text: "heartbeat failed: " + cause.Error()}
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			f.Text = "the worker is stopping"
		default:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				measureFailure(ctx, &contract.Failure{Class: contract.ClassTimeout, Text: "the call has timed out"})
			}
			if errors.Is(cause, ctx.Err()) || temporal.IsCanceledError(cause) {
				return ctx.Err()
			}
		}
		measureFailure(ctx, f)
		return f.ApplicationError()
	}
	f := a.maskFailure(contract.FailureOf(err))
	if f.Limit == nil {
		measureFailure(ctx, f)
	} else if info := activity.GetInfo(ctx); info.RetryPolicy != nil && info.RetryPolicy.MaximumAttempts > 0 {
		f.Final, f.Limit.Failed = true, info.Attempt-1
	}
	return f.ApplicationError()
}

// locally runs an activity for [Activities.callLocally].
type locally func(context.Context, *contract.LocalCall) (json.RawMessage, error)

func local[In, Out any](fn func(context.Context, In, *contract.Grant) (Out, error)) locally {
	return func(ctx context.Context, c *contract.LocalCall) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(c.Argument, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in, c.Grant)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

// callLocally runs a call as a local activity. A call that fails is repeated as an activity, which reports the error.
func (a *Activities) callLocally(ctx context.Context, c *contract.LocalCall) (*contract.LocalResult, error) {
	result, err := a.local[c.Activity](ctx, c)
	if err != nil || len(c.Argument)+len(result) > c.MaxBytes {
		return &contract.LocalResult{}, nil
	}
	return &contract.LocalResult{ID: c.ID, Activity: c.Activity, Argument: c.Argument, Result: result}, nil
}

// errNotLocal is returned where a local activity would have to query its run, which is blocked by its workflow task, or call a server.
var errNotLocal = &contract.Failure{Class: contract.ClassUnavailable, Text: "a local activity can query neither its run nor a server"}

func isLocal(ctx context.Context) bool {
	return activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
}
