package activities

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"weft/activities/contract"
	"weft/activities/llm"
)

// Spans of calls follow OpenTelemetry's conventions for generative AI. They are parts of the
// span of the attempt, which the worker makes; without one they cost nothing. What is said
// never enters them.

// begin begins a span inside the attempt's.
func begin(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("weft").Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// beginChat begins the span of one call of a model, provider/model.
func beginChat(ctx context.Context, name string, call *llm.Call) (context.Context, trace.Span) {
	provider, model, ok := strings.Cut(name, "/")
	if !ok {
		model = name
	}
	return begin(ctx, "chat "+model, semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(provider),
		semconv.GenAIRequestModel(model), semconv.GenAIAgentName(call.Node), attribute.String("weft.kind", call.Kind))
}

// endChat ends it with what the model answered.
func endChat(span trace.Span, a *llm.Answer, err error) {
	if err == nil {
		_, model, ok := strings.Cut(a.Model, "/")
		if !ok {
			model = a.Model
		}
		span.SetAttributes(semconv.GenAIResponseModel(model), semconv.GenAIResponseFinishReasons(a.Stop),
			semconv.GenAIUsageInputTokens(a.Usage.Input), semconv.GenAIUsageOutputTokens(a.Usage.Output))
		if a.Usage.Cached > 0 {
			span.SetAttributes(semconv.GenAIUsageCacheReadInputTokens(a.Usage.Cached))
		}
		if a.Usage.Reasoning > 0 {
			span.SetAttributes(semconv.GenAIUsageReasoningOutputTokens(a.Usage.Reasoning))
		}
	}
	end(span, err)
}

// beginTool begins the span of one call of a tool.
func beginTool(ctx context.Context, in *contract.ToolInput) (context.Context, trace.Span) {
	return begin(ctx, "execute_tool "+in.Name, semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(in.Name),
		semconv.GenAIToolCallID(in.CallID), semconv.GenAIToolType("function"))
}

// end ends a span; a failure's class stands for its text, which may quote what was said.
func end(span trace.Span, err error) {
	if err != nil {
		class := contract.FailureOf(err).Class
		span.SetStatus(codes.Error, class)
		span.SetAttributes(semconv.ErrorTypeKey.String(class))
	}
	span.End()
}
