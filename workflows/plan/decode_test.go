package plan

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// validFlow returns a valid flow; each test case makes one change.
func validFlow() *Flow {
	agent := func() *Agent { return &Agent{Prompt: "p", System: "s", MaxCalls: 10, MaxErrors: 3, Builtins: Builtins} }
	sub := Flow{Version: Version, ID: "sub", Name: "Sub", Dialect: "test", Nodes: []Node{{ID: "x", Kind: KindAgent, Agent: agent()}},
		Edges: []Edge{{ID: "1", From: Start, To: "x"}}, Limits: DefaultLimits, Policy: DefaultPolicy}
	return &Flow{Version: Version, ID: "root", Name: "Root", Dialect: "test",
		Nodes:  []Node{{ID: "a", Kind: KindAgent, Agent: agent()}, {ID: "b", Kind: KindAgent, Exit: true, Agent: agent()}},
		Edges:  []Edge{{ID: "1", From: Start, To: "a"}, {ID: "2", From: "a", To: "b", Question: "Well?"}, {ID: "3", From: "b", To: End}},
		Agents: []Flow{sub}, Limits: DefaultLimits, Policy: DefaultPolicy}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		mutate func(*Flow)
		want   []string
	}{
		"valid":                      {func(*Flow) {}, nil},
		"another version":            {func(f *Flow) { f.Version = 2 }, []string{"version is 2, but this build supports 1"}},
		"too many nodes":             {func(f *Flow) { f.Nodes = make([]Node, MaxNodes+1) }, []string{"plan has 20001 nodes and 3 edges, at most 20000 and 100000 are allowed"}},
		"duplicate node id":          {func(f *Flow) { f.Nodes[1].ID = "a" }, []string{`two nodes have the id "a"`, `edge 2 leads to "b", which is not a node`, `edge 3 comes from "b", which is not a node`}},
		"node called START":          {func(f *Flow) { f.Nodes[0].ID = Start }, []string{`node 1 has the invalid id "START"`, `edge 1 leads to "a", which is not a node`, `edge 2 comes from "a", which is not a node`}},
		"unknown kind":               {func(f *Flow) { f.Nodes[0].Kind = "map" }, []string{`node "a" has the unknown kind "map"`}},
		"no configuration":           {func(f *Flow) { f.Nodes[0].Agent = nil }, []string{`node "a" has no agent configuration`}},
		"no call limit":              {func(f *Flow) { f.Nodes[0].Agent.MaxCalls = 0 }, []string{`node "a": max_calls and max_errors must be at least 1, got 0 and 3`}},
		"tool without a name":        {func(f *Flow) { f.Nodes[0].Agent.Tools = []Tool{{Name: "x"}} }, []string{`node "a" has a tool without a name`}},
		"tool named like a built-in": {func(f *Flow) { f.Nodes[0].Agent.Tools = []Tool{{Name: "x", As: BuiltinGetState}} }, []string{`node "a" has two tools named "get_state"`}},
		"duplicate tool name":        {func(f *Flow) { f.Nodes[0].Agent.Tools = []Tool{{Name: "x", As: "x"}, {Name: "y", As: "x"}} }, []string{`node "a" has two tools named "x"`}},
		"edge into START":            {func(f *Flow) { f.Edges[2].To = Start }, []string{`edge 3 leads to "START", which is not a node`}},
		"edge out of END":            {func(f *Flow) { f.Edges[2].From = End }, []string{`edge 3 comes from "END", which is not a node`}},
		"no entry":                   {func(f *Flow) { f.Edges = f.Edges[1:] }, []string{"no edge comes from START"}},
		"limits":                     {func(f *Flow) { f.Limits.MaxSteps, f.Policy.RetrySeconds, f.Limits.MaxStateBytes = 0, -1, 1<<30+1 }, []string{"limits.max_steps must be 1 to 31622400, got 0", "limits.max_state_bytes must be 1 to 1073741824, got 1073741825", "policy.retry_seconds must be 1 to 31622400, got -1"}},
		"inputs":                     {func(f *Flow) { f.Inputs = &Inputs{Mode: InputsMerged, Style: StyleDocumented} }, nil},
		"invalid output style":       {func(f *Flow) { f.Nodes[0].Agent.Output = &Output{Style: "loud"} }, []string{`node "a": output.style must be "documented" or empty, got "loud"`}},
		"invalid inputs":             {func(f *Flow) { f.Inputs = &Inputs{Style: "loud"} }, []string{`inputs.mode must be "merged", "authoritative", "procedural" or "named", got ""`, `inputs.style must be "documented" or empty, got "loud"`}},
		"unknown flow": {func(f *Flow) {
			k := &Contacts{Name: "ask", Schema: json.RawMessage(`{}`), To: []Contact{{Name: "s", Flow: "sub"}, {Name: "t", Flow: "none"}, {Name: "u", Flow: "sub", Thread: "x"}}}
			f.Nodes[0].Agent.Ask = k
		}, []string{`agent "a" refers to the unknown flow "none"`, `agent "a" refers to the unknown flow "sub"`}},
		"invalid choice": {func(f *Flow) { f.Choice = "best" }, []string{`choice must be "first" or empty, got "best"`}},
		"comparison without values": {func(f *Flow) {
			f.Edges[1].Question, f.Edges[1].Compare = "", &Compare{Op: "equals", Value: json.RawMessage(`1`)}
		},
			[]string{"edge 2 compares a value, but the flow has no values"}},
		"two conditions":           {func(f *Flow) { f.Edges[1].Compare = &Compare{} }, []string{"edge 2 has both a question and a comparison"}},
		"transform without values": {func(f *Flow) { f.Nodes[0].Kind = KindTransform }, []string{`node "a" is of kind "transform", but the flow has no values`}},
		"empty merge":              {func(f *Flow) { f.Values, f.Nodes[0].Kind, f.Nodes[0].Merge = &Values{}, KindMerge, &Merge{} }, []string{`node "a" has no configuration of its kind "merge"`}},
		"merge result out of range": {func(f *Flow) {
			n := 1
			f.Values, f.Nodes[0].Kind = &Values{}, KindMerge
			f.Nodes[0].Merge = &Merge{Results: []Result{{}}, Pick: &n}
		}, []string{`node "a" picks result 1 of 1`}},
		"edge that changes a value":  {func(f *Flow) { f.Edges[1].Pass = &Select{} }, []string{`edge 2 changes a value, which requires values and the choice "first"`}},
		"finish tool without a name": {func(f *Flow) { f.Nodes[0].Agent.Finish = &Finish{Name: "end"} }, []string{`node "a" has a finish tool without a name or a schema`}},
		"invalid react interval":     {func(f *Flow) { f.Nodes[0].Agent.React = &React{} }, []string{`node "a": react.interval must be at least 1, got 0`}},
		"invalid meter":              {func(f *Flow) { f.Meter = &Meter{} }, []string{"meter.limit must be at least 1, got 0"}},
		"sub-agent":                  {func(f *Flow) { f.Agents[0].Edges = nil }, []string{`agent "sub": no edge comes from START`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := validFlow()
			tc.mutate(f)
			if got := f.Check(); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	valid, err := json.Marshal(validFlow())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ raw, want string }{
		"valid":           {string(valid), ""},
		"empty":           {"", "decode plan: EOF"},
		"null":            {"null", `plan "": version is 0, but this build supports 1`},
		"not JSON":        {"{", "decode plan: unexpected EOF"},
		"invalid type":    {`{"version": "1"}`, "decode plan: json: cannot unmarshal string"},
		"trailing text":   {string(valid) + "x", "decode plan: unexpected data after the plan"},
		"another version": {`{"version": 99, "name": "n"}`, `plan "n": version is 99, but this build supports 1`},
		"invalid plan":    {strings.Replace(string(valid), `"to":"a"`, `"to":"z"`, 1), `plan "Root": edge 1 leads to "z", which is not a node`},
		"unknown fields":  {strings.Replace(string(valid), `{`, `{"later":1,`, 1), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := Decode([]byte(tc.raw))
			if tc.want == "" {
				if err != nil || !reflect.DeepEqual(f, validFlow()) {
					t.Errorf("got %v, %v", f, err)
				}
				return
			}
			if f != nil || err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want %s", f, err, tc.want)
			}
		})
	}
}

// TestHash checks that the hash depends on the content of a flow, and not on the format of its JSON.
func TestHash(t *testing.T) {
	hash := func(f *Flow) string {
		h, err := f.Hash()
		if err != nil || len(h) != 64 {
			t.Fatalf("hash %q, %v", h, err)
		}
		return h
	}
	want := hash(validFlow())
	raw, err := json.MarshalIndent(validFlow(), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := hash(decoded); got != want {
		t.Errorf("hash is %s, but %s after decoding indented JSON", want, got)
	}
	f := validFlow()
	f.Edges[1].Question = "Really?"
	if hash(f) == want {
		t.Error("flows with different questions have the same hash")
	}
	f = validFlow()
	f.Nodes[0].Agent.Output = &Output{Schema: json.RawMessage(`{`)}
	if h, err := f.Hash(); err == nil {
		t.Errorf("flow whose schema is not JSON has the hash %s", h)
	}
}

func TestSource(t *testing.T) {
	s := Source{File: "f.json", Positions: []Position{
		{NodePath("a"), 3, 5}, {EdgePath(0), 9, 1}, {ToolPath("a", 1), 4, 7},
		{AgentPath("sub") + NodePath("x"), 20, 2}, {AgentPath("sub2") + NodePath("x"), 30, 2},
	}}
	tests := map[string]struct {
		source     Source
		path, want string
	}{
		"node":                            {s, NodePath("a"), "f.json:3"},
		"edge":                            {s, EdgePath(0), "f.json:9"},
		"tool":                            {s, ToolPath("a", 1), "f.json:4"},
		"path without a position":         {s, NodePath("b"), "f.json"},
		"node of a sub-agent":             {s.Sub("sub"), NodePath("x"), "f.json:20"},
		"node of another sub-agent":       {s.Sub("sub2"), NodePath("x"), "f.json:30"},
		"node of the root in a sub-agent": {s.Sub("sub"), NodePath("a"), "f.json"},
		"no file":                         {Source{Positions: s.Positions}, NodePath("a"), "line:3"},
		"empty source":                    {Source{}, NodePath("a"), ""},
		"unknown agent":                   {s.Sub("none"), NodePath("x"), "f.json"},
		"prefix of an agent id":           {s.Sub("su"), "b/" + NodePath("x"), "f.json"},
		"empty agent id":                  {s.Sub(""), "sub/" + NodePath("x"), "f.json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.source.At(tc.path); got != tc.want {
				t.Errorf("At(%q) = %q, want %q", tc.path, got, tc.want)
			}
		})
	}
}

func TestNodeAndSubFlow(t *testing.T) {
	f := validFlow()
	if n := f.Node("b"); n == nil || n.ID != "b" || f.Node("zz") != nil {
		t.Errorf("Node(b) = %v, Node(zz) = %v", n, f.Node("zz"))
	}
	if f.SubFlow("root") != f || f.SubFlow("sub") != &f.Agents[0] || f.SubFlow("") != nil || f.SubFlow("zz") != nil {
		t.Error("SubFlow returns another flow")
	}
}

func FuzzDecode(f *testing.F) {
	raw, err := json.Marshal(validFlow())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"version":1,"agents":[{"version":1}],"nodes":[{"id":"a","kind":"agent"}]}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		flow, err := Decode(raw)
		if (flow == nil) != (err != nil) {
			t.Fatalf("flow %v with error %v", flow, err)
		}
		if flow == nil {
			return
		}
		if p := flow.Check(); len(p) > 0 {
			t.Fatalf("Decode accepts a flow with the problems %q", p)
		}
		if _, err := flow.Hash(); err != nil {
			t.Fatal(err)
		}
	})
}
