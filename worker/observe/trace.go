package observe

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/interceptor"

	"weft/worker/build"
	"weft/worker/config"
)

// Traces reports spans of runs and of their calls by OTLP over HTTP.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// closeTimeout bounds how long the last spans may take when a worker stops.
const closeTimeout = 5 * time.Second

// NewTraces makes what OpenTelemetry's own variables ask for (OTEL_EXPORTER_OTLP_ENDPOINT and
// its like), and nil where they name no receiver. The error is [config.Problems] for
// variables that cannot be followed.
func NewTraces(ctx context.Context, env config.Env) (*Traces, error) {
	get := func(names ...string) string {
		for _, name := range names {
			if v, _ := env.LookupEnv(name); v != "" {
				return v
			}
		}
		return ""
	}
	if get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "" || get("OTEL_SDK_DISABLED") == "true" || get("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if e := get("OTEL_TRACES_EXPORTER"); e != "" && e != "otlp" {
		return nil, config.Problems{fmt.Sprintf("OTEL_TRACES_EXPORTER is %q, want otlp or none", e)}
	}
	if p := get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, config.Problems{fmt.Sprintf("the protocol OTEL_EXPORTER_OTLP_PROTOCOL is %q, want http/protobuf; receivers of gRPC take it on port 4318", p)}
	}
	exp, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, config.Problems{fmt.Sprintf("OTEL_EXPORTER_OTLP_…: %v", err)}
	}
	version, _ := build.Info()
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("weft-worker"), semconv.ServiceVersion(version)), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, config.Problems{fmt.Sprintf("OTEL_RESOURCE_ATTRIBUTES: %v", err)}
	}
	return newTraces(sdktrace.WithBatcher(exp), sdktrace.WithResource(about)), nil
}

func newTraces(o ...sdktrace.TracerProviderOption) *Traces {
	p := sdktrace.NewTracerProvider(append(o, sdktrace.WithIDGenerator(ids{}))...)
	return &Traces{provider: p, tracer: p.Tracer("weft")}
}

// Interceptor belongs into the options of the worker's client.
func (t *Traces) Interceptor() interceptor.ClientInterceptor { return &tracing{traces: t} }

// Close sends the last spans.
func (t *Traces) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// A receiver that is away has lost earlier spans, too; the exporter has said so.
	_ = t.provider.Shutdown(ctx)
}
