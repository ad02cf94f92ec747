package activities

import (
	"context"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"weft/activities/contract"
	"weft/activities/llm"
)

// Spans of calls follow OpenTelemetry's conventions for generative AI, below the worker's span of the attempt.
// They contain no messages.

// begin starts a span below the attempt's.
func begin(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("weft").Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// startChat starts the span of one call of one model. The function ends it with the outcome.
func startChat(ctx context.Context, m *llm.Request, q *modelCall) (context.Context, func(*llm.Answer, error)) {
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(m.System),
		semconv.GenAIRequestModel(m.Model), semconv.GenAIAgentName(q.call.Node), attribute.String("weft.kind", q.call.Kind)}
	if q.conversation != "" {
		attrs = append(attrs, semconv.GenAIConversationID(q.conversation))
	}
	if q.call.JSON {
		attrs = append(attrs, semconv.GenAIOutputTypeJSON)
	}
	if m.Stream {
		attrs = append(attrs, semconv.GenAIRequestStream(true))
	}
	ctx, span := begin(ctx, "chat "+m.Model, trace.SpanKindClient, append(attrs, requested(&q.call.Options)...)...)
	return ctx, func(a *llm.Answer, err error) { endChat(span, a, err) }
}

// requested are the parameters that a request has.
func requested(o *llms.CallOptions) []attribute.KeyValue {
	var out []attribute.KeyValue
	if o.MaxTokens > 0 {
		out = append(out, semconv.GenAIRequestMaxTokens(o.MaxTokens))
	}
	if o.Temperature >= 0 {
		out = append(out, semconv.GenAIRequestTemperature(o.Temperature))
	}
	if o.TopP >= 0 {
		out = append(out, semconv.GenAIRequestTopP(o.TopP))
	}
	if o.TopK > 0 {
		out = append(out, semconv.GenAIRequestTopK(float64(o.TopK)))
	}
	if o.Seed >= 0 {
		out = append(out, semconv.GenAIRequestSeed(o.Seed))
	}
	return out
}

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
		if a.Usage.CacheWrite > 0 {
			span.SetAttributes(semconv.GenAIUsageCacheCreationInputTokens(a.Usage.CacheWrite))
		}
		if a.Usage.Reasoning > 0 {
			span.SetAttributes(semconv.GenAIUsageReasoningOutputTokens(a.Usage.Reasoning))
		}
	}
	end(span, err)
}

func startTool(ctx context.Context, in *contract.ToolInput) (context.Context, trace.Span) {
	return begin(ctx, "execute_tool "+in.Name, trace.SpanKindInternal, semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(in.Name),
		semconv.GenAIToolCallID(in.CallID), semconv.GenAIToolType("function"))
}

// end ends a span with a failure's class; its text may quote messages.
func end(span trace.Span, err error) {
	if err != nil {
		class := contract.FailureOf(err).Class
		span.SetStatus(codes.Error, class)
		span.SetAttributes(semconv.ErrorTypeKey.String(class))
	}
	span.End()
}
