package observe

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/watch"
)

// header is the header in which Temporal's SDKs propagate spans. If a client traces the start of a run,
// its span is therefore the parent of the run's span.
const header = "_tracer-data"

// tracing creates a span for each run, each execution of a node and each attempt of an activity. Temporal's own
// interceptor is not used: it generates new span ids each time a run is replayed, so that the spans of one run
// have several parents.
type tracing struct {
	interceptor.InterceptorBase
	traces *Traces
}

func (t *tracing) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &runSpan{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, traces: t.traces, visits: map[string]int{}}
}

func (t *tracing) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &callSpan{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, traces: t.traces}
}

// runSpan creates the span of a run when the run closes.
type runSpan struct {
	interceptor.WorkflowInboundInterceptorBase
	traces *Traces
	// caller is the span that started the run; invalid if unknown.
	caller trace.SpanContext
	// flow is the name of the run's flow, set when its first node starts.
	flow    string
	chosen  bool
	sampled trace.TraceFlags
	// visits counts the starts of each execution, which may be suspended and resumed.
	visits map[string]int
}

// Init sets the outbound interceptor, which propagates the run's span.
func (r *runSpan) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return r.Next.Init(&carrySpan{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: out}, run: r})
}

// ExecuteWorkflow executes the run. Its span is exported once, by the worker that closes it.
func (r *runSpan) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	r.caller = read(interceptor.WorkflowHeader(ctx))
	result, err := r.Next.ExecuteWorkflow(watch.With(ctx, r), in)
	if workflow.IsReplaying(ctx) {
		return result, err
	}
	info := workflow.GetInfo(ctx)
	own := r.own(ctx)
	gctx := withSeed(context.Background(), newSeed(own.TraceID(), "run", info.WorkflowExecution.RunID))
	if r.caller.IsValid() {
		gctx = trace.ContextWithRemoteSpanContext(gctx, r.caller)
	}
	name := "invoke_workflow"
	if r.flow != "" {
		name += " " + r.flow
	}
	_, span := r.traces.tracer.Start(gctx, name, trace.WithTimestamp(info.WorkflowStartTime), trace.WithAttributes(
		semconv.GenAIOperationNameInvokeWorkflow, attribute.String("temporalWorkflowID", info.WorkflowExecution.ID),
		attribute.String("temporalRunID", info.WorkflowExecution.RunID)))
	if r.flow != "" {
		span.SetAttributes(semconv.GenAIWorkflowName(r.flow))
	}
	if _, again := errors.AsType[*workflow.ContinueAsNewError](err); err != nil && !again {
		failed(span, err)
	}
	span.End(trace.WithTimestamp(workflow.Now(ctx)))
	return result, err
}

// own returns the run's span, in its caller's trace or a new one.
func (r *runSpan) own(ctx workflow.Context) trace.SpanContext {
	info := workflow.GetInfo(ctx)
	c := trace.SpanContextConfig{TraceID: r.caller.TraceID(), SpanID: spanOfRun(info.WorkflowExecution.RunID), TraceFlags: r.caller.TraceFlags(), Remote: true}
	if !r.caller.IsValid() {
		c.TraceID = traceOf(info.Namespace, info.WorkflowExecution.ID, info.FirstRunID)
		c.TraceFlags = r.flags(c.TraceID)
	}
	return trace.NewSpanContext(c)
}

// flags returns the sampling decision for a run without a caller, made once: a run's inner spans are
// exported if its own is. The span started here is never ended, and thus never exported.
func (r *runSpan) flags(id trace.TraceID) trace.TraceFlags {
	if !r.chosen {
		_, asked := r.traces.tracer.Start(withSeed(context.Background(), newSeed(id, "asked")), "invoke_workflow")
		r.chosen, r.sampled = true, asked.SpanContext().TraceFlags()
	}
	return r.sampled
}

type nodeKey struct{}

// Enter returns a context in which the node's span is the parent of everything that the node starts, and a
// function that creates the span when the execution completes.
func (r *runSpan) Enter(ctx workflow.Context, at watch.Visit) (workflow.Context, func(workflow.Context, bool, error)) {
	own, began := r.own(ctx), workflow.Now(ctx)
	r.flow = cmp.Or(r.flow, at.Flow)
	visit := strconv.Itoa(r.visits[at.Execution])
	r.visits[at.Execution]++
	run := workflow.GetInfo(ctx).WorkflowExecution.RunID
	seeded := func() *seed { return newSeed(own.TraceID(), "node", run, at.Execution, visit) }
	inside := own.WithSpanID(seeded().next())
	return workflow.WithValue(ctx, nodeKey{}, inside), func(ctx workflow.Context, yielded bool, err error) {
		if workflow.IsReplaying(ctx) {
			return
		}
		gctx := withSeed(trace.ContextWithRemoteSpanContext(context.Background(), own), seeded())
		_, span := r.traces.tracer.Start(gctx, "node "+at.Node, trace.WithTimestamp(began), trace.WithAttributes(
			attribute.String("weft.node", at.Node), attribute.String("weft.node.kind", string(at.Kind)), attribute.String("weft.execution", at.Execution)))
		if yielded {
			span.SetAttributes(attribute.Bool("weft.yielded", true))
		}
		if err != nil {
			failed(span, err)
		}
		span.End(trace.WithTimestamp(workflow.Now(ctx)))
	}
}

// Open does nothing, like Close: requests have no spans, because users may take weeks to answer.
func (r *runSpan) Open(workflow.Context, *contract.Request) {}

func (r *runSpan) Close(workflow.Context, *contract.Request, bool) {}

// at returns the current span of a context: the node's if there is one, else the run's.
func (r *runSpan) at(ctx workflow.Context) trace.SpanContext {
	if span, ok := ctx.Value(nodeKey{}).(trace.SpanContext); ok {
		return span
	}
	return r.own(ctx)
}

// carrySpan propagates the span of a run or node to the activities and runs that it starts.
type carrySpan struct {
	interceptor.WorkflowOutboundInterceptorBase
	run *runSpan
}

func (c *carrySpan) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	write(ctx, c.run.at(ctx))
	return c.Next.ExecuteActivity(ctx, name, args...)
}

func (c *carrySpan) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	write(ctx, c.run.at(ctx))
	return c.Next.ExecuteLocalActivity(ctx, name, args...)
}

func (c *carrySpan) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	write(ctx, c.run.at(ctx))
	return c.Next.ExecuteChildWorkflow(ctx, name, args...)
}

// NewContinueAsNewError propagates the same caller to the continued run.
func (c *carrySpan) NewContinueAsNewError(ctx workflow.Context, wfn any, args ...any) error {
	write(ctx, c.run.caller)
	return c.Next.NewContinueAsNewError(ctx, wfn, args...)
}

// write stores a span in the outgoing header, unless it is invalid.
func write(ctx workflow.Context, span trace.SpanContext) {
	out := interceptor.WorkflowHeader(ctx)
	if out == nil || !span.IsValid() {
		return
	}
	m := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), m)
	if p, err := converter.GetDefaultDataConverter().ToPayload(map[string]string(m)); err == nil {
		out[header] = p
	}
}

// read returns the caller's span of a header; it is invalid if there is none.
func read(h map[string]*commonpb.Payload) trace.SpanContext {
	var m map[string]string
	if p := h[header]; p == nil || converter.GetDefaultDataConverter().FromPayload(p, &m) != nil {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(m)))
}

type callSpan struct {
	interceptor.ActivityInboundInterceptorBase
	traces *Traces
}

// ExecuteActivity executes the attempt. The activity adds spans for model and tool calls. A local activity has the
// span that the corresponding activity would have, unless an activity must make the call.
func (c *callSpan) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	name, call := info.ActivityType.Name, info.ActivityID
	if info.IsLocalActivity {
		if local, ok := in.Args[0].(*contract.LocalCall); ok {
			name, call = local.Activity, local.ID
		}
	}
	attempt := strconv.Itoa(int(info.Attempt))
	caller := read(interceptor.Header(ctx))
	id := caller.TraceID()
	if caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
	} else {
		id = traceOf(info.Namespace, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	}
	ctx = withSeed(ctx, newSeed(id, "call", info.WorkflowExecution.RunID, call, attempt))
	ctx, span := c.traces.tracer.Start(ctx, name, trace.WithAttributes(
		attribute.String("temporalWorkflowID", info.WorkflowExecution.ID), attribute.String("temporalRunID", info.WorkflowExecution.RunID),
		attribute.String("temporalActivityID", call), attribute.Int("temporalAttempt", int(info.Attempt))))
	if node := nodeOf(call); node != "" {
		span.SetAttributes(attribute.String("weft.node", node))
	}
	out, err := c.Next.ExecuteActivity(ctx, in)
	if local, ok := out.(*contract.LocalResult); ok && len(local.Result) == 0 {
		return out, err // an activity will make the call; a span that is not ended is not exported
	}
	if err != nil {
		failed(span, err)
	}
	span.End()
	return out, err
}

// failed sets the failure class on a span. The text is omitted because it may quote the conversation.
func failed(span trace.Span, err error) {
	class := contract.FailureOf(err).Class
	span.SetStatus(codes.Error, class)
	span.SetAttributes(semconv.ErrorTypeKey.String(class))
}
