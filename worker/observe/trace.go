package observe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
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

// Traces exports spans of runs and activities with OTLP over HTTP.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// closeTimeout bounds the export of the last spans when a worker stops.
const closeTimeout = 5 * time.Second

// NewTraces creates an exporter, configured by OpenTelemetry's standard variables
// (OTEL_EXPORTER_OTLP_ENDPOINT and so on). It returns nil if they set no endpoint or disable tracing.
// The error is [config.Problems] for unsupported values.
func NewTraces(ctx context.Context, env config.Env) (*Traces, error) {
	get := func(names ...string) (value string) {
		for _, name := range names {
			v, _ := env.LookupEnv(name)
			value = cmp.Or(value, v)
		}
		return value
	}
	if get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "" || get("OTEL_SDK_DISABLED") == "true" || get("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if e := get("OTEL_TRACES_EXPORTER"); e != "" && e != "otlp" {
		return nil, config.Problems{fmt.Sprintf("OTEL_TRACES_EXPORTER is %q, expected otlp or none", e)}
	}
	if p := get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, config.Problems{fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, expected http/protobuf; collectors usually accept it on port 4318", p)}
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

// Interceptor returns the tracing interceptor; add it to the worker's client options.
func (t *Traces) Interceptor() interceptor.ClientInterceptor { return &tracing{traces: t} }

// Close exports the last spans.
func (t *Traces) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// If the collector is unavailable, earlier spans are lost as well; the exporter has logged that.
	_ = t.provider.Shutdown(ctx)
}

// Span ids are derived from the ids of runs, activities and attempts. A workflow task that is repeated
// after a crash therefore reports the same span again, and an activity can refer to its run's span before
// that span has ended.

func digest(parts ...string) []byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return sum[:]
}

// traceOf returns the trace id of a root run and of all runs that continue it.
func traceOf(namespace, workflow, firstRun string) trace.TraceID {
	return trace.TraceID(digest("trace", namespace, workflow, firstRun)[:16])
}

func spanOfRun(run string) trace.SpanID { return newSeed(trace.TraceID{}, "run", run).next() }

// seed generates the ids of a span and its child spans, in the order of their start.
type seed struct {
	trace trace.TraceID
	sum   []byte
	n     atomic.Uint32
}

func newSeed(id trace.TraceID, parts ...string) *seed {
	return &seed{trace: id, sum: digest(parts...)}
}

func (s *seed) next() trace.SpanID {
	n := binary.BigEndian.AppendUint32(nil, s.n.Add(1)-1)
	return trace.SpanID(digest(string(s.sum), string(n))[:8])
}

type seedKey struct{}

// withSeed returns a context in which new spans get their ids from a seed.
func withSeed(ctx context.Context, s *seed) context.Context {
	return context.WithValue(ctx, seedKey{}, s)
}

// ids is an id generator for OpenTelemetry.
type ids struct{}

func (i ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s := seedOf(ctx)
	return s.trace, s.next()
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return seedOf(ctx).next()
}

// seedOf returns the context's seed. All spans of a worker start in an activity or a run, which
// have a seed; any other span is part of the stray trace.
func seedOf(ctx context.Context) *seed {
	if s, ok := ctx.Value(seedKey{}).(*seed); ok {
		return s
	}
	return stray
}

// stray is the seed of spans outside of runs.
var stray = newSeed(trace.TraceID(digest("stray")[:16]), "stray")
