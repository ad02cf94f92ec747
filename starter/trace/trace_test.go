package trace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/starter/history/historytest"
	"weft/starter/trace"
)

const root = "../../tests"

// recorded are the histories of runs, with those of their children, by the names of the roots.
func recorded(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(root + "/testdata/history/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories, %v", err)
	}
	out := map[string][]string{}
	for _, file := range files {
		name, child, below := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "@")
		if out[name] = append(out[name][:len(out[name]):len(out[name])], child); !below {
			out[name] = out[name][:len(out[name])-1]
		}
	}
	return out
}

// TestRead makes the traces of all recorded histories. testdata has the outlines of some; UPDATE=1 rewrites them.
func TestRead(t *testing.T) {
	all := recorded(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			if historytest.Recorded(t, root, name).Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId() != "" {
				t.Skip("the run before it is not recorded")
			}
			source := historytest.RecordedTree(t, root, name, all[name]...)
			whole, err := trace.Read(t.Context(), source, "root", "r", trace.Options{Content: true})
			if err != nil {
				t.Fatal(err)
			}
			check(t, whole)
			masked, err := trace.Read(t.Context(), source, "root", "r", trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			sensitive(t, masked)
			file := filepath.Join("testdata", name+".txt")
			want, err := os.ReadFile(file)
			if err != nil {
				return
			}
			got := outline(whole)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s differs; rewrite it with UPDATE=1:\n%s", file, got)
			}
		})
	}
}

// check holds a trace to the rules of the extension.
func check(t *testing.T, out *trace.Trace) {
	t.Helper()
	ids := map[string]bool{}
	for _, s := range out.Spans {
		if ids[s.ID] {
			t.Errorf("two spans have the id %s", s.ID)
		}
		ids[s.ID] = true
	}
	for _, s := range out.Spans {
		if s.ParentID == nil != (s.ID == out.ID) || s.ParentID != nil && !ids[*s.ParentID] {
			t.Errorf("the span %s is in none", s.ID)
		}
		last := s.StartTime
		for _, e := range s.Events {
			at := e["timestamp"].(int64)
			if at < last || s.EndTime != nil && at > *s.EndTime {
				t.Errorf("the event %s of %s is outside its span, or before another", e["type"], s.ID)
			}
			last = at
		}
		if components := []trace.Object{s.Flow, s.Agent, s.Node, s.LLMConfig, s.Tool}; len(slices.DeleteFunc(components, func(o trace.Object) bool { return o == nil })) != 1 {
			t.Errorf("the span %s is of %d components", s.ID, len(components))
		}
	}
	if raw, err := json.Marshal(out); err != nil || !json.Valid(raw) {
		t.Errorf("%s, %v", raw, err)
	}
}

// sensitive looks for what must be masked.
func sensitive(t *testing.T, out *trace.Trace) {
	t.Helper()
	for _, s := range out.Spans {
		for _, e := range s.Events {
			for _, key := range []string{"prompt", "content", "tool_calls", "inputs", "outputs", "output", "message", "exception_message"} {
				if v, ok := e[key]; ok && v != trace.Masked {
					t.Errorf("%s of %s of %s is %v", key, e["type"], s.ID, v)
				}
			}
		}
	}
}

// outline is a trace without times.
func outline(out *trace.Trace) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %q\n", out.ID, out.Name)
	depth := map[string]int{}
	for _, s := range out.Spans {
		if s.ParentID != nil {
			depth[s.ID] = depth[*s.ParentID] + 1
		}
		var events []string
		for _, e := range s.Events {
			events = append(events, e["type"].(string))
		}
		fmt.Fprintf(&b, "%s%s %s: %s\n", strings.Repeat("  ", depth[s.ID]), s.Type, s.ID, strings.Join(events, ", "))
	}
	return b.String()
}
