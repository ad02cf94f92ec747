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

// recorded returns the recorded runs: for the name of each root, the names of its children.
func recorded(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(root + "/testdata/history/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories, %v", err)
	}
	out := map[string][]string{}
	for _, file := range files {
		name, child, isChild := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "@")
		if out[name] = append(out[name][:len(out[name]):len(out[name])], child); !isChild {
			out[name] = out[name][:len(out[name])-1]
		}
	}
	return out
}

// TestGoldenOutlines reads the traces of all recorded histories, and compares some with the outlines in testdata. UPDATE=1 rewrites them.
func TestGoldenOutlines(t *testing.T) {
	all := recorded(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			if historytest.Recorded(t, root, name).Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId() != "" {
				t.Skip("the previous run is not recorded")
			}
			source := historytest.RecordedTree(t, root, name, all[name]...)
			full, err := trace.Read(t.Context(), source, "root", "r", trace.Options{Content: true})
			if err != nil {
				t.Fatal(err)
			}
			check(t, full)
			masked, err := trace.Read(t.Context(), source, "root", "r", trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkMasked(t, masked)
			file := filepath.Join("testdata", name+".txt")
			want, err := os.ReadFile(file)
			if err != nil {
				return
			}
			got := outline(full)
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

// check checks that a trace conforms to the extension.
func check(t *testing.T, out *trace.Trace) {
	t.Helper()
	spans := map[string]*trace.Span{}
	for _, s := range out.Spans {
		if spans[s.ID] != nil {
			t.Errorf("duplicate span id %s", s.ID)
		}
		spans[s.ID] = s
	}
	for _, s := range out.Spans {
		if s.ParentID == nil != (s.ID == out.ID) || s.ParentID != nil && spans[*s.ParentID] == nil {
			t.Errorf("the span %s has no valid parent", s.ID)
		}
		last := s.StartTime
		for _, e := range s.Events {
			at := e["timestamp"].(int64)
			if at < last || s.EndTime != nil && at > *s.EndTime {
				t.Errorf("the event %s of %s is outside of its span, or before the previous event", e["type"], s.ID)
			}
			last = at
			checkAttributes(t, s, e)
		}
		components := slices.DeleteFunc([]trace.Object{s.Flow, s.Agent, s.Swarm, s.ManagerWorkers, s.Node, s.LLMConfig, s.Tool}, func(o trace.Object) bool { return o == nil })
		if len(components) != 1 {
			t.Errorf("the span %s has %d components, want 1", s.ID, len(components))
		}
		first, end := s.Events[0]["type"].(string), s.Events[len(s.Events)-1]["type"].(string)
		kind := strings.TrimSuffix(s.Type, "Span")
		if first != kind+"Start" && first != kind+"Request" {
			t.Errorf("first event of the span %s = %s", s.ID, first)
		}
		if s.Node != nil && ended(spans[*s.ParentID]) && end != kind+"End" && end != "ExceptionRaised" {
			t.Errorf("last event of the span %s = %s", s.ID, end)
		}
		if s.ParentID != nil {
			if parent := spans[*s.ParentID]; parent.StartTime > s.StartTime || parent.EndTime != nil && (s.EndTime == nil || *parent.EndTime < *s.EndTime) {
				t.Errorf("the span %s is not within %s: %d to %v, %d to %v", s.ID, parent.ID, s.StartTime, value(s.EndTime), parent.StartTime, value(parent.EndTime))
			}
		}
	}
	if raw, err := json.Marshal(out); err != nil || !json.Valid(raw) {
		t.Errorf("invalid JSON: %s, %v", raw, err)
	}
}

// fields are the attributes of each type of event, in addition to the common ones; those with a question mark are optional.
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

// checkAttributes checks that an event has exactly the attributes of its type, and that its tools have a concrete type.
func checkAttributes(t *testing.T, s *trace.Span, e trace.Object) {
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
		t.Errorf("%s of %s has unknown attributes: %v", kind, s.ID, left)
	}
	tools, _ := e["tools"].([]trace.Object)
	if tool, ok := e["tool"].(trace.Object); ok {
		tools = append(tools, tool)
	}
	for _, tool := range tools {
		if tool["component_type"] == "Tool" {
			t.Errorf("%s of %s has a tool without a concrete type: %v", kind, s.ID, tool)
		}
	}
}

// ended reports whether a span has ended normally, so that the spans in it must have ended as well.
func ended(s *trace.Span) bool {
	return strings.HasSuffix(s.Events[len(s.Events)-1]["type"].(string), "ExecutionEnd")
}

func value(at *int64) int64 {
	if at == nil {
		return -1
	}
	return *at
}

// checkMasked checks that all sensitive attributes are masked.
func checkMasked(t *testing.T, out *trace.Trace) {
	t.Helper()
	for _, s := range out.Spans {
		for _, e := range s.Events {
			for _, key := range []string{"prompt", "content", "tool_calls", "inputs", "outputs", "output", "message", "exception_message"} {
				if v, ok := e[key]; ok && v != trace.Masked {
					t.Errorf("%s of %s of %s = %v, want %v", key, e["type"], s.ID, v, trace.Masked)
				}
			}
		}
	}
}

// outline formats the tree of spans with the types of their events.
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

// TestNodeRuns checks that executions, values and ends that a worker reports take precedence over what the history implies, and
// that the trace is from history if no worker answers.
func TestNodeRuns(t *testing.T) {
	source := historytest.RecordedTree(t, root, "agentspec-loop")
	nodeRuns := func(_ context.Context, _ *runtree.Tree, w *runtree.Workflow) ([]runs.NodeRun, error) {
		if w.Flow.Name != "loop" {
			t.Errorf("NodeRuns called for the flow %s", w.Flow.Name)
		}
		return []runs.NodeRun{
			{Execution: contract.Execution{Node: "start", Step: 1}, Ended: true, Inputs: map[string]json.RawMessage{"n": json.RawMessage("3")}, Outputs: map[string]json.RawMessage{"n": json.RawMessage("4")}},
			{Execution: contract.Execution{Node: "enough", Step: 3, Branch: "again"}, Ended: true},
			{Execution: contract.Execution{Node: "step", Step: 4}},
		}, nil
	}
	out, err := trace.Read(t.Context(), source, "root", "r", trace.Options{Content: true, NodeRuns: nodeRuns})
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
	noWorker := func(context.Context, *runtree.Tree, *runtree.Workflow) ([]runs.NodeRun, error) {
		return nil, errors.New("no worker")
	}
	if out, err = trace.Read(t.Context(), source, "root", "r", trace.Options{NodeRuns: noWorker}); err != nil || !out.FromHistory || len(out.Spans) < 8 {
		t.Errorf("trace without a worker = %+v, %v", out, err)
	}
}

// TestComponents checks the components of spans: a FlowNode contains a span of its flow, and an Agent, Swarm or ManagerWorkers that
// is not in a flow has a span without nodes.
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
					t.Errorf("no span of %s, got %v", c, slices.Sorted(maps.Keys(got)))
				}
			}
		})
	}
}
