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

// Traces exports spans of runs and activities by OTLP over HTTP.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// closeTimeout bounds the export of the last spans when a worker stops.
const closeTimeout = 5 * time.Second

// NewTraces creates the exporter that OpenTelemetry's own variables configure
// (OTEL_EXPORTER_OTLP_ENDPOINT and so on), or returns nil if they name no endpoint. The error is
// [config.Problems] for unsupported values.
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
		return nil, config.Problems{fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, want http/protobuf; collectors usually accept it on port 4318", p)}
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

// Interceptor belongs into the worker's client options.
func (t *Traces) Interceptor() interceptor.ClientInterceptor { return &tracing{traces: t} }

// Close exports the last spans.
func (t *Traces) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// If the collector is unavailable earlier spans are lost, too; the exporter has logged that.
	_ = t.provider.Shutdown(ctx)
}
