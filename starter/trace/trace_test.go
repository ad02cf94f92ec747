package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/starter/history/historytest"
	"weft/starter/runs"
	"weft/starter/runtree"
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
	spans := map[string]*trace.Span{}
	for _, s := range out.Spans {
		if spans[s.ID] != nil {
			t.Errorf("two spans have the id %s", s.ID)
		}
		spans[s.ID] = s
	}
	for _, s := range out.Spans {
		if s.ParentID == nil != (s.ID == out.ID) || s.ParentID != nil && spans[*s.ParentID] == nil {
			t.Errorf("the span %s is in none", s.ID)
		}
		last := s.StartTime
		for _, e := range s.Events {
			at := e["timestamp"].(int64)
			if at < last || s.EndTime != nil && at > *s.EndTime {
				t.Errorf("the event %s of %s is outside its span, or before another", e["type"], s.ID)
			}
			last = at
			attributes(t, s, e)
		}
		components := slices.DeleteFunc([]trace.Object{s.Flow, s.Agent, s.Swarm, s.ManagerWorkers, s.Node, s.LLMConfig, s.Tool}, func(o trace.Object) bool { return o == nil })
		if len(components) != 1 {
			t.Errorf("the span %s is of %d components", s.ID, len(components))
		}
		begins, ends := s.Events[0]["type"].(string), s.Events[len(s.Events)-1]["type"].(string)
		kind := strings.TrimSuffix(s.Type, "Span")
		if begins != kind+"Start" && begins != kind+"Request" {
			t.Errorf("the span %s begins with %s", s.ID, begins)
		}
		if s.Node != nil && ended(spans[*s.ParentID]) && ends != kind+"End" && ends != "ExceptionRaised" {
			t.Errorf("the span %s ends with %s", s.ID, ends)
		}
		if s.ParentID != nil {
			if parent := spans[*s.ParentID]; parent.StartTime > s.StartTime || parent.EndTime != nil && (s.EndTime == nil || *parent.EndTime < *s.EndTime) {
				t.Errorf("the span %s is not within %s: %d to %v, %d to %v", s.ID, parent.ID, s.StartTime, value(s.EndTime), parent.StartTime, value(parent.EndTime))
			}
		}
	}
	if raw, err := json.Marshal(out); err != nil || !json.Valid(raw) {
		t.Errorf("%s, %v", raw, err)
	}
}

// fields are the attributes of events, besides those of all; a question mark marks those that may be absent.
var fields = map[string]string{
	"LlmGenerationRequest":  "llm_config request_id llm_generation_config prompt tools",
	"LlmGenerationResponse": "llm_config request_id tool_calls completion_id content input_tokens? output_tokens?",
	"ToolExecutionRequest":  "tool request_id inputs", "ToolExecutionResponse": "tool request_id output",
	"ToolConfirmationRequest": "tool tool_execution_request_id request_id", "ToolConfirmationResponse": "tool tool_execution_request_id request_id execution_confirmed",
	"AgentExecutionStart": "agent inputs", "AgentExecutionEnd": "agent outputs",
	"ManagerWorkersExecutionStart": "managerworkers inputs", "ManagerWorkersExecutionEnd": "managerworkers outputs",
	"SwarmExecutionStart": "swarm inputs", "SwarmExecutionEnd": "swarm outputs",
	"FlowExecutionStart": "flow inputs", "FlowExecutionEnd": "flow outputs branch_selected",
	"NodeExecutionStart": "node inputs", "NodeExecutionEnd": "node outputs branch_selected",
	"ConversationMessageAdded": "message", "ExceptionRaised": "exception_type exception_message exception_stacktrace",
	"HumanInTheLoopRequest": "request_id content", "HumanInTheLoopResponse": "request_id content",
}

// attributes holds an event to the attributes of its type. Components have a type that a document can have.
func attributes(t *testing.T, s *trace.Span, e trace.Object) {
	t.Helper()
	kind := e["type"].(string)
	left := maps.Clone(e)
	for _, name := range append(strings.Fields(fields[kind]), "id", "type", "name", "description", "metadata", "timestamp") {
		name, optional := strings.CutSuffix(name, "?")
		if _, ok := left[name]; !ok && !optional {
			t.Errorf("%s of %s has no %s", kind, s.ID, name)
		}
		delete(left, name)
	}
	if len(left) > 0 || fields[kind] == "" {
		t.Errorf("%s of %s has attributes that no such event has: %v", kind, s.ID, left)
	}
	tools, _ := e["tools"].([]trace.Object)
	if tool, ok := e["tool"].(trace.Object); ok {
		tools = append(tools, tool)
	}
	for _, tool := range tools {
		if tool["component_type"] == "Tool" {
			t.Errorf("%s of %s has a tool without a type: %v", kind, s.ID, tool)
		}
	}
}

// ended reports whether a span has an event that ends it, so that all in it have.
func ended(s *trace.Span) bool {
	return strings.HasSuffix(s.Events[len(s.Events)-1]["type"].(string), "ExecutionEnd")
}

func value(at *int64) int64 {
	if at == nil {
		return -1
	}
	return *at
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

// What workers tell of a flow's nodes counts before what its history implies: executions that make no call, their values, and
// which have ended.
func TestNodeRuns(t *testing.T) {
	source := historytest.RecordedTree(t, root, "agentspec-loop")
	told := func(_ context.Context, _ *runtree.Tree, of *runtree.Workflow) ([]runs.NodeRun, error) {
		if of.Flow.Name != "loop" {
			t.Errorf("asked for %s", of.Flow.Name)
		}
		return []runs.NodeRun{
			{Execution: contract.Execution{Node: "start", Step: 1}, Ended: true, Inputs: map[string]json.RawMessage{"n": json.RawMessage("3")}, Outputs: map[string]json.RawMessage{"n": json.RawMessage("4")}},
			{Execution: contract.Execution{Node: "enough", Step: 3, Branch: "again"}, Ended: true},
			{Execution: contract.Execution{Node: "step", Step: 4}},
		}, nil
	}
	out, err := trace.Read(t.Context(), source, "root", "r", trace.Options{Content: true, NodeRuns: told})
	if err != nil || out.FromHistory {
		t.Fatal(err, out.FromHistory)
	}
	var got []string
	for _, s := range out.Spans {
		if s.Node == nil {
			continue
		}
		line := s.ID
		for _, e := range s.Events {
			raw, err := json.Marshal([]any{e["inputs"], e["outputs"], e["branch_selected"]})
			if err != nil {
				t.Fatal(err)
			}
			line += " " + string(raw)
		}
		got = append(got, line)
	}
	want := []string{`start#1 [{"n":3},null,null] [null,{"n":4},"next"]`, `enough#3 [{"reached":1},null,null] [null,{},"again"]`, `step#4 [{"n":1,"unit":"laps"},null,null]`}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s is missing in\n%s", line, strings.Join(got, "\n"))
		}
	}
	silent := func(context.Context, *runtree.Tree, *runtree.Workflow) ([]runs.NodeRun, error) {
		return nil, errors.New("no worker")
	}
	if out, err = trace.Read(t.Context(), source, "root", "r", trace.Options{NodeRuns: silent}); err != nil || !out.FromHistory || len(out.Spans) < 8 {
		t.Errorf("%v, %+v", err, out)
	}
}

// The nodes of a FlowNode's flow are in a span of that flow, and each node has the type of its component. An agent, a Swarm
// and a ManagerWorkers alone are no flow, and have no nodes.
func TestComponents(t *testing.T) {
	tests := map[string][]string{
		"agentspec-outer": {"outer Flow", "start StartNode", "pick BranchingNode", "inner FlowNode", "once Flow", "o1 StartNode", "greet LlmNode", "o2 EndNode", "each MapNode", "end EndNode"},
		"agentspec-talk":  {"talk Flow", "start StartNode", "greet OutputMessageNode", "last AgentNode", "b Agent", "end EndNode"},
		"agentspec-team":  {"team ManagerWorkers", "library Agent", "counter Agent"},
		"agentspec-apart": {"alone AgentNode"},
		"agent-tools":     {"one Agent"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := trace.Read(t.Context(), historytest.RecordedTree(t, root, name, recorded(t)[name]...), "root", "r", trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, s := range out.Spans {
				for _, c := range []trace.Object{s.Flow, s.Agent, s.Swarm, s.ManagerWorkers, s.Node} {
					if c != nil {
						got[c["name"].(string)+" "+c["component_type"].(string)] = true
					}
				}
			}
			for _, c := range want {
				if !got[c] {
					t.Errorf("no span is of %s; there are %v", c, slices.Sorted(maps.Keys(got)))
				}
			}
		})
	}
}
