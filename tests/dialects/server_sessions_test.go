package dialects

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// sessionRecorder gives every tool call a new server session, and records the session and task queue that it continues.
type sessionRecorder struct {
	worker.ActivityRegistry
	mu    sync.Mutex
	calls []string
}

func (s *sessionRecorder) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	call, ok := fn.(func(context.Context, contract.ToolInput, *contract.Grant) (*contract.ToolResult, error))
	if !ok {
		s.ActivityRegistry.RegisterActivityWithOptions(fn, o)
		return
	}
	s.ActivityRegistry.RegisterActivityWithOptions(func(ctx context.Context, in contract.ToolInput, g *contract.Grant) (*contract.ToolResult, error) {
		s.mu.Lock()
		s.calls = append(s.calls, in.Session+"@"+activity.GetInfo(ctx).TaskQueue)
		n := strconv.Itoa(len(s.calls))
		s.mu.Unlock()
		out, err := call(ctx, in, g)
		if err == nil {
			out.Session = contract.ServerSession{Sealed: n, Queue: "one" + n}
		}
		return out, err
	}, o)
}

// TestServerSessionsOfATree checks that in all runs of a tree a call continues the server session of its agent's previous call,
// or of another agent's if it is the first.
func TestServerSessionsOfATree(t *testing.T) {
	searching := func(doc string) string {
		return strings.NewReplacer(`"data_connections":[
{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}}],`, "", // supplied by the run
			`"prompt":"p"`, `"prompt":"p"`+harness.SearchTool,
			`{"name":"call_sub_agent","data_connection_id":"helper"}]}],
"edges":[{"id":"e1","source":"START","target":"s"}`, `{"name":"search","data_connection_id":"web"}]}],
"edges":[{"id":"e1","source":"START","target":"s"}`).Replace(doc)
	}
	search := "call: [{tool: search}]}\n"
	ask := "call: [{tool: call_sub_agent, arguments: {user_question: why}}]}\n"
	branches := "rules:\n- {node: a, turn: 1, " + search + "- {node: a, turn: 2, " + search + "- {node: j, turn: 1, " + search + "- {say: done}"
	last := []string{"1@one1", "2@one2"}
	tests := map[string]struct {
		doc, script string
		want        []string
	}{
		"a branch in the parent": {harness.ForkAndJoin, branches, last},
		"a child":                {harness.ChildBranches, branches, last},
		"alternating agents": {harness.ForkAndJoin, "rules:\n- {node: a, turn: 1, " + search + "- {node: b, turn: 1, delay: 400ms, " + search + "- {node: a, turn: 2, delay: 1200ms, " + search + "- {say: done}",
			[]string{"1@one1", "1@one1"}},
		"sub-agents": {harness.SubAgentFlow, "rules:\n- {node: s, turn: 1, " + search + "- {node: s, say: so}\n- {node: a, turn: 1, " + ask + "- {node: a, turn: 2, " + ask + "- {node: a, turn: 3, " + ask + "- {say: done}", last},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &sessionRecorder{}
			p := harness.TestRun{Document: searching(tc.doc), Script: tc.script,
				Tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "found", false }},
				SetInput: func(in *contract.RunInput) {
					in.DataConnections = []contract.DataConnection{{ID: "helper", Kind: plan.ConnectionAgent, Agent: "sub"}}
				},
				Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry {
					s.ActivityRegistry = r
					return s
				}}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err, p.Err.Diagnostics)
			}
			first, rest := s.calls[0], s.calls[1:]
			if diff := cmp.Diff(tc.want, rest); diff != "" || !strings.HasPrefix(first, "@") || p.Result.ServerSessions != nil {
				t.Errorf("sessions after %q (-want +got):\n%s; result has %v", first, diff, p.Result.ServerSessions)
			}
		})
	}
}

// TestServerSessionsOfALoop checks that a node that runs again continues its own server session, even if other nodes have used
// others since, so that its model is notified if that session is lost.
func TestServerSessionsOfALoop(t *testing.T) {
	const node = `{"id":"ID","name":"ID","prompt":"p"` + harness.SearchTool + `}`
	nodes := func(ids ...string) (out string) {
		for _, id := range ids {
			out += strings.ReplaceAll(node, "ID", id) + ","
		}
		return out
	}
	const ends = `{"id":"again","source":"b","target":"a","condition_prompt":"again?"},{"id":"out","source":"b","target":"x","condition_prompt":"done?"},{"id":"end","source":"x","target":"END"}]}`
	loop := `{"name":"loop","nodes":[` + nodes("a", "b") + `{"id":"x","name":"X","prompt":"p","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"b"},` + ends
	// Node a runs in a branch the first time, and alone the second time.
	branch := `{"name":"loop","nodes":[` + nodes("a", "b") + `{"id":"c","name":"C","prompt":"p"},{"id":"j","name":"J","prompt":"p","defer":true},{"id":"x","name":"X","prompt":"p","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"c"},{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"c","target":"j"},{"id":"e5","source":"j","target":"b"},` + ends
	script := func(last string) string {
		return "rules:\n- {question: \"again?\", step: " + last + ", yes: false}\n- {question: \"done?\", step: " + last + ", yes: true}\n- {question: \"again?\", yes: true}\n- {question: \"done?\", yes: false}\n" +
			"- {node: a, turn: 1, call: [{tool: search}]}\n- {node: b, turn: 1, call: [{tool: search}]}\n- {say: done}"
	}
	for name, tc := range map[string]struct{ document, last string }{
		"a loop":            {loop, "4"},
		"first in a branch": {branch, "6"},
		"first in a child":  {strings.ReplaceAll(branch, `"prompt":`, `"max_iterations":100,"prompt":`), "6"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sessionRecorder{}
			p := harness.TestRun{Document: tc.document, Script: script(tc.last),
				Tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "found", false }},
				Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry {
					s.ActivityRegistry = r
					return s
				}}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err, p.Err.Diagnostics)
			}
			// b's first call continues a's session; then each node continues its own.
			if diff := cmp.Diff([]string{"1@one1", "1@one1", "2@one2"}, s.calls[1:]); diff != "" {
				t.Errorf("sessions (-want +got):\n%s", diff)
			}
		})
	}
}
