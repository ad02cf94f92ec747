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

// Spans of calls follow OpenTelemetry's conventions for generative AI, below the worker's span of the attempt.
// They contain no messages.

// begin starts a child of the attempt's span.
func begin(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("weft").Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// startChat starts the span of one call of one model. The function that it returns ends the span.
func startChat(ctx context.Context, m *llm.Request, q *modelCall) (context.Context, func(*llm.Answer, error)) {
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(m.System),
		semconv.GenAIRequestModel(m.Model), semconv.GenAIAgentName(q.call.Node), attribute.String("weft.kind", q.call.Kind)}
	o := &q.call.Options
	attrs = append(attrs, present([]optional{
		{q.conversation != "", semconv.GenAIConversationID(q.conversation)}, {q.call.JSON, semconv.GenAIOutputTypeJSON},
		{m.Stream, semconv.GenAIRequestStream(true)}, {o.MaxTokens > 0, semconv.GenAIRequestMaxTokens(o.MaxTokens)},
		{o.Temperature >= 0, semconv.GenAIRequestTemperature(o.Temperature)}, {o.TopP >= 0, semconv.GenAIRequestTopP(o.TopP)},
		{o.TopK > 0, semconv.GenAIRequestTopK(float64(o.TopK))}, {o.Seed >= 0, semconv.GenAIRequestSeed(o.Seed)},
	})...)
	ctx, span := begin(ctx, "chat "+m.Model, trace.SpanKindClient, attrs...)
	return ctx, func(a *llm.Answer, err error) { endChat(span, a, err) }
}

// optional is an attribute that is set under a condition.
type optional struct {
	set  bool
	attr attribute.KeyValue
}

func present(list []optional) (out []attribute.KeyValue) {
	for _, o := range list {
		if o.set {
			out = append(out, o.attr)
		}
	}
	return out
}

func endChat(span trace.Span, a *llm.Answer, err error) {
	if err == nil {
		_, model, ok := strings.Cut(a.Model, "/")
		if !ok {
			model = a.Model
		}
		u := &a.Usage
		span.SetAttributes(semconv.GenAIResponseModel(model), semconv.GenAIResponseFinishReasons(a.Stop),
			semconv.GenAIUsageInputTokens(u.Input), semconv.GenAIUsageOutputTokens(u.Output))
		span.SetAttributes(present([]optional{{u.Cached > 0, semconv.GenAIUsageCacheReadInputTokens(u.Cached)},
			{u.CacheWrite > 0, semconv.GenAIUsageCacheCreationInputTokens(u.CacheWrite)}, {u.Reasoning > 0, semconv.GenAIUsageReasoningOutputTokens(u.Reasoning)}})...)
	}
	end(span, err)
}

func startTool(ctx context.Context, in *contract.ToolInput) (context.Context, trace.Span) {
	return begin(ctx, "execute_tool "+in.Name, trace.SpanKindInternal, semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(in.Name),
		semconv.GenAIToolCallID(in.CallID), semconv.GenAIToolType("function"))
}

// end ends a span, with the class of a failure only, as its text may quote messages.
func end(span trace.Span, err error) {
	if err != nil {
		class := contract.FailureOf(err).Class
		span.SetStatus(codes.Error, class)
		span.SetAttributes(semconv.ErrorTypeKey.String(class))
	}
	span.End()
}
