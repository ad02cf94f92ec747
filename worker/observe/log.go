// Package observe is how operators see a worker at work: its log, its metrics for Prometheus
// and its traces for OpenTelemetry.
//
// Nothing here decides anything; a worker without all of it works the same.
//
// Start at [Logger], [NewMetrics] and [NewTraces].
package observe

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

// Keys of the log that Temporal's SDK sets, and the one that is added.
const (
	keyActivity = "ActivityID"
	keyNode     = "Node"
)

// Logger writes a line per event, as text or as JSON. Lines about a call have its run
// (WorkflowID, RunID), its node (Node) and its Attempt.
func Logger(w io.Writer, json bool, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(nodes{slog.NewJSONHandler(w, o)})
	}
	return slog.New(nodes{slog.NewTextHandler(w, o)})
}

// nodes adds the node to what the SDK says about an activity, whose id begins with it.
type nodes struct{ slog.Handler }

// said is what the SDK says of each activity's error, without naming the activity. The
// activities say it with their node, their class and whether the call is made again.
const said = "Activity error."

// Handle adds the node where the line itself names the activity.
func (n nodes) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == said {
		return nil
	}
	node := ""
	r.Attrs(func(a slog.Attr) bool {
		node = nodeIn(a)
		return node == ""
	})
	if node != "" {
		r.AddAttrs(slog.String(keyNode, node))
	}
	return n.Handler.Handle(ctx, r)
}

// WithAttrs adds the node where the logger of an activity is made.
func (n nodes) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if node := nodeIn(a); node != "" {
			attrs = append(attrs[:len(attrs):len(attrs)], slog.String(keyNode, node))
			break
		}
	}
	return nodes{n.Handler.WithAttrs(attrs)}
}

// WithGroup keeps adding nodes.
func (n nodes) WithGroup(name string) slog.Handler { return nodes{n.Handler.WithGroup(name)} }

// nodeOf is the node of an activity's id, <node>#<step>/<kind>/<turn>, or "".
func nodeOf(activity string) string {
	node, _, ok := strings.Cut(activity, "#")
	if !ok {
		return ""
	}
	return node
}

// nodeIn is the node of the activity that an attribute names, or "".
func nodeIn(a slog.Attr) string {
	if a.Key != keyActivity || a.Value.Kind() != slog.KindString {
		return ""
	}
	return nodeOf(a.Value.String())
}
