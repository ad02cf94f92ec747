package fork

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/input"
	"weft/starter/runs"
	"weft/workflows/plan"
)

// A result that is given is left as the interpreter would have left it: as a message, as the value
// that flows along the edge that was taken, or as the outputs of the node.
func TestResultsThatAreGiven(t *testing.T) {
	node := func(id string) plan.Node { return plan.Node{ID: id, Name: strings.ToUpper(id), Kind: plan.KindAgent} }
	flow := func(change func(*plan.Flow)) *plan.Flow {
		f := &plan.Flow{Nodes: []plan.Node{node("a"), node("b"), node("c")}, Edges: []plan.Edge{{ID: "ab", From: "a", To: "b"}, {ID: "bc", From: "b", To: "c"}}}
		if change != nil {
			change(f)
		}
		return f
	}
	ports := func(f *plan.Flow) {
		f.Values = &plan.Values{}
		f.Nodes[0].Ports = &plan.Ports{Out: []plan.Out{{Name: "n", Keys: []string{"a.n"}, Type: json.RawMessage(`{"type":"integer"}`)}}}
		f.Nodes[1].Ports = &plan.Ports{Out: []plan.Out{{Name: "x", Keys: []string{"b.x", "c.x"}}, {Name: "y"}}}
	}
	tests := map[string]struct {
		flow *plan.Flow
		give string
		talk bool
		text string
		left map[string]string
		want string
	}{
		"a text":                      {flow: flow(nil), give: "a=well", text: "well", left: map[string]string{"own": `1`}},
		"by its name":                 {flow: flow(nil), give: "A=well", text: "well", left: map[string]string{"own": `1`}},
		"JSON":                        {flow: flow(nil), give: `a#1:={"k": 1}`, text: `{"k":1}`, left: map[string]string{"own": `1`}},
		"the value along the edge":    {flow: flow(func(f *plan.Flow) { f.Values = &plan.Values{} }), give: "a=well", text: "well", left: map[string]string{"own": `1`, contract.ValueKey: `"well"`}},
		"a value with a place":        {flow: flow(func(f *plan.Flow) { f.Values = &plan.Values{}; f.Nodes[0].StateKey = "$there" }), give: "a:=7", text: "7", left: map[string]string{"own": `1`, "$there": `7`}},
		"the only output":             {flow: flow(ports), give: "a=7", text: `{"n":7}`, left: map[string]string{"own": `1`, "a.n": `7`}},
		"all outputs":                 {flow: flow(ports), give: `b:={"y": 1, "x": [2]}`, text: `{"x":[2],"y":1}`, left: map[string]string{"b.x": `[2]`, "c.x": `[2]`}},
		"an output too few":           {flow: flow(ports), give: `b:={"x": [2]}`, want: `-override b has no "y"; use an object with all outputs of the node`},
		"an output of another type":   {flow: flow(ports), give: `a=seven`, want: `-override a: the output "n": `},
		"a node that did not run":     {flow: flow(nil), give: "c=x", want: `-override has "c", but no such node ran before c#3`},
		"a node that ran twice":       {flow: flow(nil), give: "b=x", want: `-override has "b", which ran 2 times; specify which: b#2 or b#4`},
		"a part of a conversation":    {flow: flow(nil), give: "a=x", talk: true, want: "fork at a, or change its prompt there"},
		"no result at all":            {flow: flow(nil), give: "a", want: "expected KEY=TEXT or KEY:=JSON"},
		"no JSON":                     {flow: flow(nil), give: "a:={", want: "-override a"},
		"one of those that ran twice": {flow: flow(nil), give: "b#4=x", text: "x"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			past := []runs.Record{{ExecutionRecord: contract.ExecutionRecord{Execution: contract.Execution{Node: "a", Step: 1, Taken: []string{"ab"}}, SHA: "old", Writes: []contract.StateEntry{{Key: "own", Value: json.RawMessage(`1`)}}}},
				{ExecutionRecord: contract.ExecutionRecord{Execution: contract.Execution{Node: "b", Step: 2, Taken: []string{"bc"}}, SHA: "old"}}}
			if strings.Contains(name, "twice") {
				past = append(past, runs.Record{ExecutionRecord: contract.ExecutionRecord{Execution: contract.Execution{Node: "b", Step: 4}, SHA: "old"}})
			}
			if tc.talk {
				past[0].Conversation = &contract.Conversation{Messages: []contract.ThreadMessage{{}}}
			}
			given, err := input.Pairs("-override", []string{tc.give})
			var labels []string
			var content []json.RawMessage
			if err == nil {
				labels, content, err = override(tc.flow, past, given, contract.Execution{Node: "c", Step: 3})
			}
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("the error is %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil || len(labels) != 1 {
				t.Fatalf("%q, %v", labels, err)
			}
			said := map[string]string{}
			for _, raw := range content {
				m, err := contract.DecodeMessage(raw)
				if err != nil {
					t.Fatal(err)
				}
				said[contract.SHA(raw)] = m.Text
			}
			for i := range past {
				p := &past[i]
				if history.Label(p.Execution) != labels[0] {
					if p.SHA != "old" {
						t.Errorf("the result of %s is another, too", history.Label(p.Execution))
					}
					continue
				}
				left := map[string]string{}
				for _, w := range p.Writes {
					left[w.Key] = string(w.Value)
					if w.SHA != "" {
						left[w.Key] = said[w.SHA]
					}
				}
				if said[p.SHA] != tc.text || len(left) != len(tc.left) {
					t.Errorf("it said %q and left %v, want %q and %v", said[p.SHA], left, tc.text, tc.left)
				}
				for key, want := range tc.left {
					if left[key] != want {
						t.Errorf("%s is %s, want %s", key, left[key], want)
					}
				}
			}
		})
	}
}
