package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/worker/config"
)

// call is an activity that creates a span.
func call(ctx context.Context, fail bool) error {
	_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("x").Start(ctx, "inside")
	defer span.End()
	if fail {
		return (&contract.Failure{Class: contract.ClassDenied, Text: "the secret is geheim"}).ApplicationError()
	}
	return nil
}

func child(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 1e9, ActivityID: "n#1/model/1"})
	return workflow.ExecuteActivity(ctx, "call", true).Get(ctx, nil)
}

func parent(ctx workflow.Context) error {
	calling := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 1e9, ActivityID: "m#1/tool/1"})
	if err := workflow.ExecuteActivity(calling, "call", false).Get(ctx, nil); err != nil {
		return err
	}
	if err := workflow.ExecuteChildWorkflow(ctx, "child").Get(ctx, nil); err == nil {
		return errors.New("the child did not fail")
	}
	return workflow.NewContinueAsNewError(ctx, "parent")
}

// runTraced runs the parent and returns its spans, and the header of the run that continues it.
func runTraced(t *testing.T, h *commonpb.Header, o ...sdktrace.TracerProviderOption) (tracetest.SpanStubs, *commonpb.Header) {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	traces := newTraces(append(o, sdktrace.WithSyncer(exp))...)
	inter, _ := traces.Interceptor().(interceptor.WorkerInterceptor)
	var suite testsuite.WorkflowTestSuite
	suite.SetHeader(h)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{inter}, DeadlockDetectionTimeout: time.Minute})
	env.SetTestTimeout(4 * time.Minute)
	env.RegisterActivityWithOptions(call, activity.RegisterOptions{Name: "call"})
	env.RegisterWorkflowWithOptions(parent, workflow.RegisterOptions{Name: "parent"})
	env.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: "child"})
	env.ExecuteWorkflow("parent")
	var next *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatal(err)
	}
	return exp.GetSpans(), next.Header
}

// shape lists spans as "name <- parent's name", with the error's type or the node.
func shape(spans tracetest.SpanStubs) []string {
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		names[s.SpanContext.SpanID()] = s.Name
	}
	var out []string
	for _, s := range spans {
		line := s.Name
		if s.Parent.IsValid() {
			line += " <- " + names[s.Parent.SpanID()]
		}
		for _, a := range s.Attributes {
			if a.Key == "error.type" || a.Key == "weft.node" {
				line += " " + a.Value.AsString()
			}
		}
		out = append(out, line)
	}
	return out
}

func TestRunSpans(t *testing.T) {
	spans, _ := runTraced(t, nil)
	want := []string{"inside <- call", "call <- invoke_workflow m", "inside <- call", "call <- invoke_workflow n denied",
		"invoke_workflow <- invoke_workflow denied", "invoke_workflow"}
	if diff := cmp.Diff(want, shape(spans)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if strings.Contains(fmt.Sprintf("%+v", spans), "geheim") {
		t.Error("a span contains the text of a failure")
	}
	seen := map[trace.SpanID]bool{}
	for _, s := range spans {
		if s.SpanContext.TraceID() != spans[0].SpanContext.TraceID() || seen[s.SpanContext.SpanID()] {
			t.Errorf("span %s is in another trace or has a duplicate id", s.Name)
		}
		seen[s.SpanContext.SpanID()] = true
	}
}

// TestSpanIDsAreStable checks that the trace and span ids of a run are the same, whichever worker reports them.
func TestSpanIDsAreStable(t *testing.T) {
	idsOf := func() []string {
		spans, _ := runTraced(t, nil)
		var out []string
		for _, s := range spans {
			if s.Name != "invoke_workflow" || !s.Parent.IsValid() { // the test environment generates random ids of children
				out = append(out, s.SpanContext.TraceID().String())
			}
			if slices.ContainsFunc(shape(tracetest.SpanStubs{s}), func(l string) bool { return strings.HasSuffix(l, " m") }) || !s.Parent.IsValid() {
				out = append(out, s.SpanContext.SpanID().String())
			}
		}
		return out
	}
	if diff := cmp.Diff(idsOf(), idsOf()); diff != "" {
		t.Errorf("ids of the same run differ (-first +second):\n%s", diff)
	}
}

// TestSampling checks that the sampler's decision for a run applies to all its spans, for each of OpenTelemetry's
// samplers.
func TestSampling(t *testing.T) {
	all, _ := runTraced(t, nil)
	for name, tc := range map[string]struct {
		sampler sdktrace.Sampler
		want    int
	}{
		"all": {sdktrace.AlwaysSample(), len(all)}, "all, parent-based": {sdktrace.ParentBased(sdktrace.AlwaysSample()), len(all)},
		"none": {sdktrace.NeverSample(), 0}, "none, parent-based": {sdktrace.ParentBased(sdktrace.NeverSample()), 0},
		"ratio of zero": {sdktrace.TraceIDRatioBased(0), 0}, "ratio of zero, parent-based": {sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := runTraced(t, nil, sdktrace.WithSampler(tc.sampler)); len(got) != tc.want || tc.want == 0 && len(all) == 0 {
				t.Errorf("%d spans, want %d: %v", len(got), tc.want, shape(got))
			}
		})
	}
}

func TestCallerSpanIsParent(t *testing.T) {
	p, err := converter.GetDefaultDataConverter().ToPayload(map[string]string{"traceparent": "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"})
	if err != nil {
		t.Fatal(err)
	}
	spans, next := runTraced(t, &commonpb.Header{Fields: map[string]*commonpb.Payload{header: p}})
	last := spans[len(spans)-1]
	if last.Parent.SpanID().String() != "0102030405060708" || last.SpanContext.TraceID().String() != "0102030405060708090a0b0c0d0e0f10" {
		t.Errorf("span of the run = %+v, parent = %+v", last.SpanContext, last.Parent)
	}
	if got := read(next.GetFields()); got.SpanID() != last.Parent.SpanID() || got.TraceID() != last.SpanContext.TraceID() {
		t.Errorf("caller of the continued run = %+v", got)
	}
}

type mapEnv map[string]string

func (e mapEnv) LookupEnv(name string) (string, bool) { v, ok := e[name]; return v, ok }
func (e mapEnv) Environ() []string                    { return nil }

func TestNewTraces(t *testing.T) {
	const endpoint = "http://127.0.0.1:1"
	tests := map[string]struct {
		env  mapEnv
		want string
		open bool
	}{
		"no endpoint":          {env: mapEnv{}},
		"endpoint":             {env: mapEnv{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, open: true},
		"endpoint for traces":  {env: mapEnv{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "otlp"}, open: true},
		"disabled":             {env: mapEnv{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SDK_DISABLED": "true"}},
		"no exporter":          {env: mapEnv{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "none"}},
		"unsupported exporter": {env: mapEnv{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "zipkin"}, want: `OTEL_TRACES_EXPORTER is "zipkin", expected otlp or none`},
		"unsupported protocol": {env: mapEnv{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, want: `is "grpc", expected http/protobuf`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := NewTraces(t.Context(), tc.env)
			if got != nil {
				defer got.Close()
			}
			if tc.want == "" && (err != nil || (got != nil) != tc.open) {
				t.Errorf("traces %v, %v", got, err)
			}
			var problems config.Problems
			if tc.want != "" && (!errors.As(err, &problems) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}
