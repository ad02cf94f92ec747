package activities

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/llm/wire"
)

// recorded returns the kind, name and attributes of the only span that f starts within an attempt's span.
func recorded(t *testing.T, f func(ctx context.Context)) (trace.SpanKind, []string) {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	ctx, attempt := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exp)).Tracer("x").Start(t.Context(), "attempt")
	f(ctx)
	spans := exp.GetSpans()
	if len(spans) != 1 || spans[0].Parent.SpanID() != attempt.SpanContext().SpanID() {
		t.Fatalf("the spans are %+v", spans)
	}
	out := []string{}
	for _, a := range spans[0].Attributes {
		out = append(out, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(out)
	return spans[0].SpanKind, append([]string{spans[0].Name}, out...)
}

// TestSpansFollowTheConventions checks names and attributes against OpenTelemetry's semantic conventions for generative AI.
func TestSpansFollowTheConventions(t *testing.T) {
	tests := map[string]struct {
		make func(ctx context.Context)
		kind trace.SpanKind
		want []string
	}{
		"a model": {kind: trace.SpanKindClient, make: func(ctx context.Context) {
			_, ended := startChat(ctx, &llm.Request{System: "gcp.gemini", Model: "flash", Stream: true}, &modelCall{conversation: "run/n#1", call: &llm.Call{Node: "n", Kind: "agent", Request: wire.Request{JSON: true,
				Options: llms.CallOptions{Temperature: 0.5, TopP: -1, Seed: 7, MaxTokens: 100, TopK: 3}}}})
			ended(&llm.Answer{Answer: wire.Answer{Model: "google/flash-2", Stop: "stop", Usage: contract.Usage{Input: 10, Output: 4, Cached: 3, CacheWrite: 2, Reasoning: 1}}}, nil)
		}, want: []string{"chat flash", "gen_ai.agent.name=n", "gen_ai.conversation.id=run/n#1", "gen_ai.operation.name=chat", "gen_ai.output.type=json", "gen_ai.provider.name=gcp.gemini", "gen_ai.request.max_tokens=100",
			"gen_ai.request.model=flash", "gen_ai.request.seed=7", "gen_ai.request.stream=true", "gen_ai.request.temperature=0.5", "gen_ai.request.top_k=3",
			`gen_ai.response.finish_reasons=["stop"]`, "gen_ai.response.model=flash-2", "gen_ai.usage.cache_creation.input_tokens=2", "gen_ai.usage.cache_read.input_tokens=3",
			"gen_ai.usage.input_tokens=10", "gen_ai.usage.output_tokens=4", "gen_ai.usage.reasoning.output_tokens=1", "weft.kind=agent"}},
		"a model that fails": {kind: trace.SpanKindClient, make: func(ctx context.Context) {
			_, ended := startChat(ctx, &llm.Request{System: "x_ai", Model: "grok"}, &modelCall{call: &llm.Call{Node: "n", Kind: "judge", Request: wire.Request{Options: llm.Options()}}})
			ended(nil, &contract.Failure{Class: contract.ClassDenied, Text: "the key is geheim"})
		}, want: []string{"chat grok", "error.type=denied", "gen_ai.agent.name=n", "gen_ai.operation.name=chat", "gen_ai.provider.name=x_ai", "gen_ai.request.model=grok", "weft.kind=judge"}},
		"a tool": {kind: trace.SpanKindInternal, make: func(ctx context.Context) {
			_, span := startTool(ctx, &contract.ToolInput{Name: "look", CallID: "call_1"})
			end(span, nil)
		}, want: []string{"execute_tool look", "gen_ai.operation.name=execute_tool", "gen_ai.tool.call.id=call_1", "gen_ai.tool.name=look", "gen_ai.tool.type=function"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kind, got := recorded(t, tc.make)
			if diff := cmp.Diff(tc.want, got); diff != "" || kind != tc.kind {
				t.Errorf("the span's kind is %v (-want +got):\n%s", kind, diff)
			}
		})
	}
}
