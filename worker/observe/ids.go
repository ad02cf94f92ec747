package observe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

// Ids of spans follow from the ids of runs, activities and attempts. A workflow task that a
// worker repeats after a crash therefore reports the same span again and not another one, and
// a call knows its run's span long before that span has ended.

// digest is a hash of texts, with their borders.
func digest(parts ...string) []byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return sum[:]
}

// traceOf is the trace of a root run, in all runs that continue it.
func traceOf(namespace, workflow, firstRun string) trace.TraceID {
	return trace.TraceID(digest("trace", namespace, workflow, firstRun)[:16])
}

// spanOfRun is the span of a run.
func spanOfRun(run string) trace.SpanID { return newSeed(trace.TraceID{}, "run", run).next() }

// seed gives the ids of one span and of the spans inside it, in the order of their begin.
type seed struct {
	trace trace.TraceID
	sum   []byte
	n     atomic.Uint32
}

func newSeed(id trace.TraceID, parts ...string) *seed {
	return &seed{trace: id, sum: digest(parts...)}
}

// next is the next span's id.
func (s *seed) next() trace.SpanID {
	n := binary.BigEndian.AppendUint32(nil, s.n.Add(1)-1)
	return trace.SpanID(digest(string(s.sum), string(n))[:8])
}

type seedKey struct{}

// withSeed lets spans that begin in a context take their ids from a seed.
func withSeed(ctx context.Context, s *seed) context.Context {
	return context.WithValue(ctx, seedKey{}, s)
}

// ids is OpenTelemetry's source of ids.
type ids struct{}

// NewIDs gives the ids of a trace's first span.
func (i ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s := seedOf(ctx)
	return s.trace, s.next()
}

// NewSpanID gives the id of another span.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return seedOf(ctx).next()
}

// seedOf is the context's seed. All spans of a worker begin in an activity or a run, which
// have one; a span elsewhere would be a trace of its own.
func seedOf(ctx context.Context) *seed {
	if s, ok := ctx.Value(seedKey{}).(*seed); ok {
		return s
	}
	return stray
}

// stray numbers the spans that belong to nothing.
var stray = newSeed(trace.TraceID(digest("stray")[:16]), "stray")
