package report

import (
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

// Failure says why a run failed: class, place, text, what led there, what to do.
func Failure(id string, f *contract.Failure) []string {
	out := []string{fmt.Sprintf("starter: run %s failed: %s", id, f.Class)}
	add := func(label, format string, args ...any) {
		out = append(out, fmt.Sprintf("  %-8s%s", label, fmt.Sprintf(format, args...)))
	}
	var where []string
	if f.Node != "" {
		where = append(where, fmt.Sprintf("node %q", plaintext.Line(f.Node, 200)))
		if f.Step > 0 {
			where = append(where, fmt.Sprintf("step %d", f.Step))
		}
	}
	if f.At != "" {
		where = append(where, plaintext.Line(f.At, 300))
	}
	if len(where) > 0 {
		add("where:", "%s", strings.Join(where, ", "))
	}
	what, more := f.Text, f.Diagnostics
	if len(more) > 0 && what == strings.Join(more, "; ") {
		what, more = more[0], more[1:]
	}
	add("what:", "%s", plaintext.Line(what, 2000))
	for _, d := range more {
		add("", "%s", plaintext.Line(d, 500))
	}
	if len(f.Data) > 0 {
		add("", "it left %s", plaintext.Line(string(f.Data), 2000))
	}
	for _, e := range f.Errors {
		add("", "%s: %s", plaintext.Line(e.Path, 200), plaintext.Line(e.Message, 500))
	}
	for _, n := range f.NoRoute {
		add("", "%s: all conditions said no", plaintext.Line(n, 200))
	}
	for _, q := range f.Answers {
		reason := ""
		if q.Reason != "" {
			reason = " (" + plaintext.Line(q.Reason, 300) + ")"
		}
		add("", "%s asked %q: %s%s", plaintext.Line(q.Execution, 200), plaintext.Line(q.Question, 300), plaintext.YesNo(q.Yes), reason)
	}
	if f.Remedy != "" {
		add("remedy:", "%s", plaintext.Line(f.Remedy, 1000))
	}
	return out
}
