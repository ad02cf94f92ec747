package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"

	"github.com/google/go-cmp/cmp"
)

// calls returns a flow whose only node can call some agents.
func calls(id string, agents ...string) plan.Flow {
	f := *scheduletest.Sketch("START>a a>END")
	f.ID = id
	for _, a := range agents {
		f.Nodes[0].Agent.Tools = append(f.Nodes[0].Agent.Tools, plan.Tool{Name: "ask", As: "ask-" + a, Connection: "to-" + a})
	}
	return f
}

// bundle returns a flow with agents that call each other. All share the connections of the flow.
func bundle(root plan.Flow, agents ...plan.Flow) *plan.Flow {
	root.Agents = agents
	for _, id := range []string{"root", "a", "b", "c", "d"} {
		root.Connections = append(root.Connections, plan.Connection{ID: "to-" + id, Kind: plan.ConnectionAgent, Agent: id})
	}
	root.Connections = append(root.Connections, plan.Connection{ID: "to-web", Kind: plan.ConnectionMCP})
	return &root
}

func TestClosure(t *testing.T) {
	f := bundle(calls("root", "a", "web", "d"),
		calls("a", "b"), calls("b", "c", "a", "missing"), calls("c", "root"), calls("d"), calls("unused"))
	tests := map[string]struct{ id, want string }{
		"agent without calls":             {"d", "d"},
		"all reachable agents, each once": {"a", "a b c root d"},
		"agent that calls its callers":    {"c", "c root a d b"},
		"root flow":                       {"root", "root a d b c"},
		"unknown id":                      {"missing", ""},
		"empty id":                        {"", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := f.Closure(tc.id)
			var got []string
			if c != nil {
				got = append(got, c.ID)
				for _, a := range c.Agents {
					got = append(got, a.ID)
					if a.Agents != nil || a.Connections != nil {
						t.Errorf("%s has agents or connections of its own", a.ID)
					}
				}
				if diff := cmp.Diff(f.Connections, c.Connections); diff != "" {
					t.Errorf("connections:\n%s", diff)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("Closure(%q) = %v, want %s", tc.id, got, tc.want)
			}
			// The closure of a nested agent does not depend on the flow that calls it.
			if c != nil && tc.id != "d" {
				for _, next := range c.Agents {
					want, got := ids(f.Closure(next.ID)), ids(c.Closure(next.ID))
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("closure of %s (-from root +from %s):\n%s", next.ID, tc.id, diff)
					}
				}
			}
		})
	}
	if len(f.Agents) != 5 || f.Agents[0].Connections != nil {
		t.Error("flow was modified")
	}
}

func ids(f *plan.Flow) []string {
	out := []string{f.ID}
	for _, a := range f.Agents {
		out = append(out, a.ID)
	}
	return out
}

func TestFlowCalls(t *testing.T) {
	f := bundle(calls("root", "a", "web", "b", "a"))
	if got := fmt.Sprint(f.Calls(f.Nodes)); got != "[a b a]" {
		t.Errorf("Calls() = %s, want [a b a]", got)
	}
	stop := plan.Node{ID: "stop"}
	if got := f.Calls([]plan.Node{stop}); got != nil {
		t.Errorf("calls of a node without configuration: %v", got)
	}
}
