// Package observe provides a worker's log, its metrics for Prometheus and its traces for OpenTelemetry.
//
// It has no influence on the worker's behaviour.
//
// Start at [Logger], [NewMetrics] and [NewTraces].
package observe

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"weft/activities/contract"
)

// Log keys: keyActivity is set by Temporal's SDK, keyNode by this package.
const (
	keyActivity = "ActivityID"
	keyNode     = "Node"
)

// Logger returns a logger that writes one line per event, as text or as JSON. Lines about a call have its
// run (WorkflowID, RunID), its node (Node) and its Attempt.
func Logger(w io.Writer, json bool, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(nodes{slog.NewJSONHandler(w, o)})
	}
	return slog.New(nodes{slog.NewTextHandler(w, o)})
}

// nodes adds the node to the SDK's records about an activity, whose id begins with the node.
type nodes struct{ slog.Handler }

// redundant is the SDK's message for each activity error, without the activity's name. The activities
// log it with their node, the class and whether the call is retried.
const redundant = "Activity error."

// Handle adds the node if the record itself has the activity's id.
func (n nodes) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == redundant {
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

// WithAttrs adds the node if the attributes have an activity's id.
func (n nodes) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if node := nodeIn(a); node != "" {
			attrs = append(attrs[:len(attrs):len(attrs)], slog.String(keyNode, node))
			break
		}
	}
	return nodes{n.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that also adds nodes.
func (n nodes) WithGroup(name string) slog.Handler { return nodes{n.Handler.WithGroup(name)} }

// nodeOf returns the node of an activity's id, <node>#<step>/<kind>/<turn>, or "".
func nodeOf(activity string) string {
	_, activity = contract.SplitPlace(activity)
	node, _, ok := strings.Cut(activity, "#")
	if !ok {
		return ""
	}
	return node
}

// nodeIn returns the node of the activity whose id an attribute holds, or "".
func nodeIn(a slog.Attr) string {
	if a.Key != keyActivity || a.Value.Kind() != slog.KindString {
		return ""
	}
	return nodeOf(a.Value.String())
}
