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

// TestOverrides checks that an overridden result is stored as the interpreter stores one: as a message, as the value
// of the edge that was taken, or as the outputs of the node.
func TestOverrides(t *testing.T) {
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
		flow         *plan.Flow
		override     string
		conversation bool
		text         string
		writes       map[string]string
		want         string
	}{
		"text":                                   {flow: flow(nil), override: "a=well", text: "well", writes: map[string]string{"own": `1`}},
		"node given by name":                     {flow: flow(nil), override: "A=well", text: "well", writes: map[string]string{"own": `1`}},
		"JSON":                                   {flow: flow(nil), override: `a#1:={"k": 1}`, text: `{"k":1}`, writes: map[string]string{"own": `1`}},
		"value of the edge":                      {flow: flow(func(f *plan.Flow) { f.Values = &plan.Values{} }), override: "a=well", text: "well", writes: map[string]string{"own": `1`, contract.ValueKey: `"well"`}},
		"value with a state key":                 {flow: flow(func(f *plan.Flow) { f.Values = &plan.Values{}; f.Nodes[0].StateKey = "$there" }), override: "a:=7", text: "7", writes: map[string]string{"own": `1`, "$there": `7`}},
		"only output":                            {flow: flow(ports), override: "a=7", text: `{"n":7}`, writes: map[string]string{"own": `1`, "a.n": `7`}},
		"all outputs":                            {flow: flow(ports), override: `b:={"y": 1, "x": [2]}`, text: `{"x":[2],"y":1}`, writes: map[string]string{"b.x": `[2]`, "c.x": `[2]`}},
		"missing output":                         {flow: flow(ports), override: `b:={"x": [2]}`, want: `-override b has no "y"; use an object with all outputs of the node`},
		"output of the wrong type":               {flow: flow(ports), override: `a=seven`, want: `-override a: the output "n": `},
		"node did not run":                       {flow: flow(nil), override: "c=x", want: `-override has "c", but no such node ran before c#3`},
		"node ran twice":                         {flow: flow(nil), override: "b=x", want: `-override has "b", which ran 2 times; specify which: b#2 or b#4`},
		"part of a conversation":                 {flow: flow(nil), override: "a=x", conversation: true, want: "fork at a, or change its prompt there"},
		"no result":                              {flow: flow(nil), override: "a", want: "expected KEY=TEXT or KEY:=JSON"},
		"invalid JSON":                           {flow: flow(nil), override: "a:={", want: "-override a"},
		"one execution of a node that ran twice": {flow: flow(nil), override: "b#4=x", text: "x"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			past := []runs.Record{{ExecutionRecord: contract.ExecutionRecord{Execution: contract.Execution{Node: "a", Step: 1, Taken: []string{"ab"}}, SHA: "old", Writes: []contract.StateEntry{{Key: "own", Value: json.RawMessage(`1`)}}}},
				{ExecutionRecord: contract.ExecutionRecord{Execution: contract.Execution{Node: "b", Step: 2, Taken: []string{"bc"}}, SHA: "old"}}}
			if strings.Contains(name, "twice") {
				past = append(past, runs.Record{ExecutionRecord: contract.ExecutionRecord{Execution: contract.Execution{Node: "b", Step: 4}, SHA: "old"}})
			}
			if tc.conversation {
				past[0].Conversation = &contract.Conversation{Messages: []contract.ThreadMessage{{}}}
			}
			given, err := input.Pairs("-override", []string{tc.override})
			var labels []string
			var content []json.RawMessage
			if err == nil {
				labels, content, err = override(tc.flow, past, given, contract.Execution{Node: "c", Step: 3})
			}
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error = %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil || len(labels) != 1 {
				t.Fatalf("%q, %v", labels, err)
			}
			texts := map[string]string{}
			for _, raw := range content {
				m, err := contract.DecodeMessage(raw)
				if err != nil {
					t.Fatal(err)
				}
				texts[contract.SHA(raw)] = m.Text
			}
			for i := range past {
				p := &past[i]
				if history.Label(p.Execution) != labels[0] {
					if p.SHA != "old" {
						t.Errorf("the result of %s changed, too", history.Label(p.Execution))
					}
					continue
				}
				writes := map[string]string{}
				for _, w := range p.Writes {
					writes[w.Key] = string(w.Value)
					if w.SHA != "" {
						writes[w.Key] = texts[w.SHA]
					}
				}
				if texts[p.SHA] != tc.text || len(writes) != len(tc.writes) {
					t.Errorf("text = %q and writes = %v, want %q and %v", texts[p.SHA], writes, tc.text, tc.writes)
				}
				for key, want := range tc.writes {
					if writes[key] != want {
						t.Errorf("%s is %s, want %s", key, writes[key], want)
					}
				}
			}
		})
	}
}
