package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
)

func TestUnescape(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"the signs that encoding/json escapes":   {`{"a":"\u003cb\u003e \u0026 c"}`, `{"a":"<b> & c"}`},
		"in names too":                           {`{"\u003c":1}`, `{"<":1}`},
		"a backslash before what looks like one": {`"\\u003c"`, `"\\u003c"`},
		"two backslashes before one":             {`"\\\u003c"`, `"\\<"`},
		"other escapes stay":                     {`"\n\"\u000a\u2028\/"`, `"\n\"\u000a\u2028\/"`},
		"nothing to do":                          {`{"a":[1,"é"]}`, `{"a":[1,"é"]}`},
		"nothing":                                {``, ``},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(unescape([]byte(tc.raw))); got != tc.want {
				t.Errorf("unescape(%s) = %s, want %s", tc.raw, got, tc.want)
			}
		})
	}
}

func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"<a> & b", `\u003c`, `\\u003c`, "\\", "é\x00\n\"", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var plain bytes.Buffer
		enc := json.NewEncoder(&plain)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSuffix(plain.String(), "\n")
		escaped, err := json.Marshal(json.RawMessage(want))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(unescape(escaped)); got != want {
			t.Fatalf("%s became %s on its way and %s again", want, escaped, got)
		}
	})
}

func TestRepairTextShowsTheSchemaAsItWasWritten(t *testing.T) {
	schema, err := json.Marshal(json.RawMessage(`{"z":"<b>","a":1}`)) // as it is after a payload
	if err != nil {
		t.Fatal(err)
	}
	got := repairText(schema, []contract.FieldError{{Path: "$", Message: "'a' is a required property"}, {Path: "$.b", Message: "x"}})
	want := "<output-validation-error>\nYour output did not match the required schema.\n\n## Validation Errors\n" +
		"- $: 'a' is a required property\n- $.b: x\n\n## Required Schema\n```json\n{\n  \"z\": \"<b>\",\n  \"a\": 1\n}\n```\n\n" +
		"Please provide output matching the schema exactly. Output ONLY valid JSON.\n</output-validation-error>"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// calls gives a flow whose only node can call some agents.
func calls(id string, agents ...string) plan.Flow {
	f := *scheduletest.Sketch("START>a a>END")
	f.ID = id
	for _, a := range agents {
		f.Nodes[0].Agent.Tools = append(f.Nodes[0].Agent.Tools, plan.Tool{Name: "ask", As: "ask-" + a, Connection: "to-" + a})
	}
	return f
}

// bundle is a flow with agents that call each other; all of them share its connections.
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
		"one that calls none":                       {"d", "d"},
		"all that can be called, each once":         {"a", "a b c root d"},
		"one that calls those above it":             {"c", "c root a d b"},
		"the flow itself":                           {"root", "root a d b c"},
		"one that is not there":                     {"missing", ""},
		"no id is nobody's, not that of a flow too": {"", ""},
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
						t.Errorf("%s brings its own agents or connections", a.ID)
					}
				}
				if diff := cmp.Diff(f.Connections, c.Connections); diff != "" {
					t.Errorf("connections:\n%s", diff)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("closure(%q) = %v, want %s", tc.id, got, tc.want)
			}
			// A sub-agent's sub-agent is the same as if the flow had called it.
			if c != nil && tc.id != "d" {
				for _, next := range c.Agents {
					ours, theirs := ids(f.Closure(next.ID)), ids(c.Closure(next.ID))
					if diff := cmp.Diff(ours, theirs); diff != "" {
						t.Errorf("closure of %s (-from above +from %s):\n%s", next.ID, tc.id, diff)
					}
				}
			}
		})
	}
	if len(f.Agents) != 5 || f.Agents[0].Connections != nil {
		t.Error("the flow was changed")
	}
}

func ids(f *plan.Flow) []string {
	out := []string{f.ID}
	for _, a := range f.Agents {
		out = append(out, a.ID)
	}
	return out
}

func TestCalled(t *testing.T) {
	f := bundle(calls("root", "a", "web", "b", "a"))
	if got := fmt.Sprint(f.Calls(f.Nodes)); got != "[a b a]" {
		t.Errorf("called = %s", got)
	}
	stop := plan.Node{ID: "stop"}
	if got := f.Calls([]plan.Node{stop}); got != nil {
		t.Errorf("a node without configuration calls %v", got)
	}
}

// agentAlone is an agent's execution on its own, for what it does to the state.
func agentAlone(limit int) *agentRun {
	f := scheduletest.Sketch("START>a a>END")
	f.Limits.MaxStateBytes = limit
	return &agentRun{run: (&run{flow: f}).link(), execution: &execution{node: &f.Nodes[0], id: "a#1", step: 1, strand: "a#1", view: &contract.View{}}}
}

func TestSetState(t *testing.T) {
	tests := map[string]struct {
		args   []string
		state  string
		failed string
	}{
		"a value":                                 {[]string{`{"key":"k","value":{"b": 1,  "a": "x"}}`}, `k={"b":1,"a":"x"}`, ""},
		"null is a value":                         {[]string{`{"key":"k","value":null}`}, "k=null", ""},
		"the last one of two":                     {[]string{`{"key":"k","value":1}`, `{"key":"k","value":2}`}, "k=2", ""},
		"keys are sorted":                         {[]string{`{"key":"z","value":1}`, `{"key":"a","value":2}`}, "a=2 z=1", ""},
		"just as much as fits":                    {[]string{`{"key":"key","value":"123456789012345"}`}, "key=123456789012345", ""},
		"as much again in its place":              {[]string{`{"key":"key","value":"123456789012345"}`, `{"key":"key","value":"abcdefghijklmno"}`}, "key=abcdefghijklmno", ""},
		"one byte too many":                       {[]string{`{"key":"key","value":"1234567890123456"}`}, "", "would hold 21 bytes, at most 20"},
		"one byte too many beside another":        {[]string{`{"key":"a","value":123456789}`, `{"key":"b","value":1234567890}`}, "a=123456789", "would hold 21 bytes"},
		"one byte too many in the place of a key": {[]string{`{"key":"key","value":"123456789012345"}`, `{"key":"key","value":"1234567890123456"}`}, "key=123456789012345", "would hold 21 bytes"},
		"no key":       {[]string{`{"value":1}`}, "", "wants"},
		"an empty key": {[]string{`{"key":"","value":1}`}, "", "wants"},
		"no value":     {[]string{`{"key":"k"}`}, "", "wants"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := agentAlone(20)
			failed := ""
			for _, raw := range tc.args {
				var args builtinArgs
				if err := json.Unmarshal([]byte(raw), &args); err != nil {
					t.Fatal(err)
				}
				if r := a.setState(&args, args.Value); r.Failed {
					failed = r.Text
				} else if r.Text != "ok" {
					t.Errorf("it says %q", r.Text)
				}
			}
			if got := reserved(a.execution.view); got != tc.state {
				t.Errorf("state is %s, want %s", got, tc.state)
			}
			if (failed == "") != (tc.failed == "") || !strings.Contains(failed, tc.failed) {
				t.Errorf("failure is %q, want %q", failed, tc.failed)
			}
		})
	}
}

func TestGetState(t *testing.T) {
	a := agentAlone(100)
	write(a.execution.view, "s", 1, "k", "v")
	write(a.execution.view, "s", 1, "odd \"<key>", "w")
	tests := map[string]struct{ args, want string }{
		"one key":                {`{"keys":["k"]}`, `{"k":"v"}`},
		"several, in that order": {`{"keys":["odd \"<key>","none","k"]}`, `{"odd \"<key>":"w","none":null,"k":"v"}`},
		"a string is one key":    {`{"keys":"k"}`, `{"k":"v"}`},
		"key instead of keys":    {`{"key":"k"}`, `{"k":"v"}`},
		"no keys":                {`{"keys":[]}`, `{}`},
		"nothing":                {`{}`, `!get_state wants {"keys": ["name", …]}`},
		"numbers":                {`{"keys":[1]}`, `!get_state wants {"keys": ["name", …]}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var args builtinArgs
			if err := json.Unmarshal([]byte(tc.args), &args); err != nil {
				t.Fatal(err)
			}
			r := a.getState(&args)
			got := r.Text
			if r.Failed {
				got = "!" + got
			} else if !json.Valid([]byte(got)) {
				t.Errorf("%s is no JSON", got)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	tests := map[string]struct{ text, want, problem string }{
		"an object":        {` {"a": 1} `, `{"a": 1}`, ""},
		"nothing":          {" \n", "{}", ""},
		"null":             {"null", "{}", ""},
		"a list":           {"[1]", "", "cannot unmarshal array"},
		"half an object":   {`{"a":`, "", "unexpected end"},
		"two objects":      {`{} {}`, "", "invalid character"},
		"deeper than JSON": {strings.Repeat(`{"a":`, 11_000) + "1" + strings.Repeat("}", 11_000), "", "exceeded max depth"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, problem := arguments(tc.text)
			if string(got) != tc.want || (problem == "") != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
				t.Errorf("arguments(%.40q) = %s, %q", tc.text, got, problem)
			}
		})
	}
}

func TestJudgedState(t *testing.T) {
	v := &contract.View{}
	if got, long := judgedState(v); got != nil || long != nil {
		t.Errorf("no state is %s, %v", got, long)
	}
	schedule.SetEntry(v, contract.StateEntry{Key: "short", Value: json.RawMessage(`{"a":1}`)})
	schedule.SetEntry(v, contract.StateEntry{Key: "long", SHA: "abc", Size: 5000})
	raw, long := judgedState(v)
	if string(raw) != `{"short":{"a":1}}` || len(long) != 1 || long[0] != (contract.LongValue{Key: "long", SHA: "abc"}) {
		t.Errorf("state is %s, long %v", raw, long)
	}
	for i := range 200 {
		schedule.SetEntry(v, contract.StateEntry{Key: fmt.Sprintf("key%03d", i), Value: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)})
	}
	raw, _ = judgedState(v)
	if len(raw) > maxJudgedState+2000 || !strings.Contains(string(raw), "more keys are left out") || !json.Valid(raw) {
		t.Errorf("%d bytes: %.100s", len(raw), raw)
	}
}
