package observe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

// Span ids are derived from the ids of runs, activities and attempts. A workflow task that is repeated
// after a crash therefore reports the same span again, and an activity knows its run's span before that
// span has ended.

func digest(parts ...string) []byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return sum[:]
}

// traceOf is the trace id of a root run and of all runs that continue it.
func traceOf(namespace, workflow, firstRun string) trace.TraceID {
	return trace.TraceID(digest("trace", namespace, workflow, firstRun)[:16])
}

func spanOfRun(run string) trace.SpanID { return newSeed(trace.TraceID{}, "run", run).next() }

// seed generates the ids of a span and of the spans in it, in the order of their start.
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

// withSeed makes spans that start in a context take their ids from a seed.
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

// seedOf is the context's seed. All spans of a worker start in an activity or a run, which
// have one; a span elsewhere would be a separate trace.
func seedOf(ctx context.Context) *seed {
	if s, ok := ctx.Value(seedKey{}).(*seed); ok {
		return s
	}
	return stray
}

// stray is the seed of spans outside of runs.
var stray = newSeed(trace.TraceID(digest("stray")[:16]), "stray")
