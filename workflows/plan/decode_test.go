package plan

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// good returns a valid flow; each test makes one change.
func good() *Flow {
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
		breakIt func(*Flow)
		want    []string
	}{
		"valid":                 {func(*Flow) {}, nil},
		"another version":       {func(f *Flow) { f.Version = 2 }, []string{"version is 2, but this build supports 1"}},
		"too many nodes":        {func(f *Flow) { f.Nodes = make([]Node, MaxNodes+1) }, []string{"plan has 20001 nodes and 3 edges, at most 20000 and 100000 are allowed"}},
		"two nodes of one id":   {func(f *Flow) { f.Nodes[1].ID = "a" }, []string{`two nodes have the id "a"`, `edge 2 leads to "b", which is not a node`, `edge 3 comes from "b", which is not a node`}},
		"node called START":     {func(f *Flow) { f.Nodes[0].ID = Start }, []string{`node 1 has the invalid id "START"`, `edge 1 leads to "a", which is not a node`, `edge 2 comes from "a", which is not a node`}},
		"unknown kind":          {func(f *Flow) { f.Nodes[0].Kind = "map" }, []string{`node "a" has the unknown kind "map"`}},
		"no configuration":      {func(f *Flow) { f.Nodes[0].Agent = nil }, []string{`node "a" has no agent configuration`}},
		"no budget":             {func(f *Flow) { f.Nodes[0].Agent.MaxCalls = 0 }, []string{`node "a": max_calls and max_errors must be at least 1, got 0 and 3`}},
		"tool without a name":   {func(f *Flow) { f.Nodes[0].Agent.Tools = []Tool{{Name: "x"}} }, []string{`node "a" has a tool without a name`}},
		"tool like a builtin":   {func(f *Flow) { f.Nodes[0].Agent.Tools = []Tool{{Name: "x", As: BuiltinGetState}} }, []string{`node "a" has two tools named "get_state"`}},
		"two tools":             {func(f *Flow) { f.Nodes[0].Agent.Tools = []Tool{{Name: "x", As: "x"}, {Name: "y", As: "x"}} }, []string{`node "a" has two tools named "x"`}},
		"edge into START":       {func(f *Flow) { f.Edges[2].To = Start }, []string{`edge 3 leads to "START", which is not a node`}},
		"edge out of END":       {func(f *Flow) { f.Edges[2].From = End }, []string{`edge 3 comes from "END", which is not a node`}},
		"no entry":              {func(f *Flow) { f.Edges = f.Edges[1:] }, []string{"no edge comes from START"}},
		"limits":                {func(f *Flow) { f.Limits.MaxSteps, f.Policy.RetrySeconds, f.Limits.MaxStateBytes = 0, -1, 1<<30+1 }, []string{"limits.max_steps must be 1 to 31622400, got 0", "limits.max_state_bytes must be 1 to 1073741824, got 1073741825", "policy.retry_seconds must be 1 to 31622400, got -1"}},
		"inputs":                {func(f *Flow) { f.Inputs = &Inputs{Mode: InputsMerged, Style: StyleDocumented} }, nil},
		"an output that is not": {func(f *Flow) { f.Nodes[0].Agent.Output = &Output{Style: "loud"} }, []string{`node "a": output.style must be "documented" or empty, got "loud"`}},
		"inputs that are not":   {func(f *Flow) { f.Inputs = &Inputs{Style: "loud"} }, []string{`inputs.mode must be "merged", "authoritative", "procedural" or "named", got ""`, `inputs.style must be "documented" or empty, got "loud"`}},
		"a flow that is not there": {func(f *Flow) {
			k := &Contacts{Name: "ask", Schema: json.RawMessage(`{}`), To: []Contact{{Name: "s", Flow: "sub"}, {Name: "t", Flow: "none"}, {Name: "u", Flow: "sub", Thread: "x"}}}
			f.Nodes[0].Agent.Ask = k
		}, []string{`agent "a" refers to the unknown flow "none"`, `agent "a" refers to the unknown flow "sub"`}},
		"a choice": {func(f *Flow) { f.Choice = "best" }, []string{`choice must be "first" or empty, got "best"`}},
		"a value from nowhere": {func(f *Flow) {
			f.Edges[1].Question, f.Edges[1].Compare = "", &Compare{Op: "equals", Value: json.RawMessage(`1`)}
		},
			[]string{"edge 2 compares a value, but the flow has no values"}},
		"two conditions": {func(f *Flow) { f.Edges[1].Compare = &Compare{} }, []string{"edge 2 has both a question and a comparison"}},
		"a transform":    {func(f *Flow) { f.Nodes[0].Kind = KindTransform }, []string{`node "a" is of kind "transform", but the flow has no values`}},
		"an empty merge": {func(f *Flow) { f.Values, f.Nodes[0].Kind, f.Nodes[0].Merge = &Values{}, KindMerge, &Merge{} }, []string{`node "a" has no configuration of its kind "merge"`}},
		"a merge of none": {func(f *Flow) {
			n := 1
			f.Values, f.Nodes[0].Kind = &Values{}, KindMerge
			f.Nodes[0].Merge = &Merge{Results: []Result{{}}, Pick: &n}
		}, []string{`node "a" picks result 1 of 1`}},
		"a passing edge": {func(f *Flow) { f.Edges[1].Pass = &Select{} }, []string{`edge 2 changes a value, which requires values and the choice "first"`}},
		"no way to end":  {func(f *Flow) { f.Nodes[0].Agent.Finish = &Finish{Name: "end"} }, []string{`node "a" has a finish tool without a name or a schema`}},
		"no interval":    {func(f *Flow) { f.Nodes[0].Agent.React = &React{} }, []string{`node "a": react.interval must be at least 1, got 0`}},
		"a meter":        {func(f *Flow) { f.Meter = &Meter{} }, []string{"meter.limit must be at least 1, got 0"}},
		"sub-agent":      {func(f *Flow) { f.Agents[0].Edges = nil }, []string{`agent "sub": no edge comes from START`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := good()
			tc.breakIt(f)
			if got := f.Check(); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	whole, err := json.Marshal(good())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ raw, want string }{
		"valid":           {string(whole), ""},
		"nothing":         {"", "decode plan: EOF"},
		"null":            {"null", `plan "": version is 0, but this build supports 1`},
		"not JSON":        {"{", "decode plan: unexpected EOF"},
		"wrong type":      {`{"version": "1"}`, "decode plan: json: cannot unmarshal string"},
		"text behind it":  {string(whole) + "x", "decode plan: unexpected data after the plan"},
		"another version": {`{"version": 99, "name": "n"}`, `plan "n": version is 99, but this build supports 1`},
		"a wrong plan":    {strings.Replace(string(whole), `"to":"a"`, `"to":"z"`, 1), `plan "Root": edge 1 leads to "z", which is not a node`},
		"unknown fields":  {strings.Replace(string(whole), `{`, `{"later":1,`, 1), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := Decode([]byte(tc.raw))
			if tc.want == "" {
				if err != nil || !reflect.DeepEqual(f, good()) {
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

// The hash says what a flow is, and nothing about how its JSON was written.
func TestHash(t *testing.T) {
	hash := func(f *Flow) string {
		h, err := f.Hash()
		if err != nil || len(h) != 64 {
			t.Fatalf("hash %q, %v", h, err)
		}
		return h
	}
	want := hash(good())
	raw, err := json.MarshalIndent(good(), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := hash(again); got != want {
		t.Errorf("hash %s became %s behind indented JSON", want, got)
	}
	f := good()
	f.Edges[1].Question = "Really?"
	if hash(f) == want {
		t.Error("another question has the same hash")
	}
	f = good()
	f.Nodes[0].Agent.Output = &Output{Schema: json.RawMessage(`{`)}
	if h, err := f.Hash(); err == nil {
		t.Errorf("a schema that is no JSON has the hash %s", h)
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
		"a node":              {s, NodePath("a"), "f.json:3"},
		"an edge":             {s, EdgePath(0), "f.json:9"},
		"a tool":              {s, ToolPath("a", 1), "f.json:4"},
		"what has no place":   {s, NodePath("b"), "f.json"},
		"a sub-agent's node":  {s.Sub("sub"), NodePath("x"), "f.json:20"},
		"the other one's":     {s.Sub("sub2"), NodePath("x"), "f.json:30"},
		"not the root's":      {s.Sub("sub"), NodePath("a"), "f.json"},
		"without a file":      {Source{Positions: s.Positions}, NodePath("a"), "line:3"},
		"without anything":    {Source{}, NodePath("a"), ""},
		"an unknown agent":    {s.Sub("none"), NodePath("x"), "f.json"},
		"the id of a sub":     {s.Sub("su"), "b/" + NodePath("x"), "f.json"},
		"nothing of a prefix": {s.Sub(""), "sub/" + NodePath("x"), "f.json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.source.At(tc.path); got != tc.want {
				t.Errorf("At(%q) = %q, want %q", tc.path, got, tc.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	f := good()
	if n := f.Node("b"); n == nil || n.ID != "b" || f.Node("zz") != nil {
		t.Errorf("Node(b) = %v, Node(zz) = %v", n, f.Node("zz"))
	}
	if f.SubFlow("root") != f || f.SubFlow("sub") != &f.Agents[0] || f.SubFlow("") != nil || f.SubFlow("zz") != nil {
		t.Error("SubFlow finds another flow")
	}
}

func FuzzDecode(f *testing.F) {
	raw, err := json.Marshal(good())
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
			t.Fatalf("decoded, but %q", p)
		}
		if _, err := flow.Hash(); err != nil {
			t.Fatal(err)
		}
	})
}
