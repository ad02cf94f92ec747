package dialects

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/tests/harness"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// koogValue is a value in the format of the case files.
type koogValue struct {
	T, Feedback string
	V           json.RawMessage
	Success     bool
	Input       *koogValue
}

func (k *koogValue) value(t *testing.T) value.Value {
	t.Helper()
	switch k.T {
	case "critique":
		return value.Critique(k.Success, k.Feedback, k.Input.value(t))
	case "double":
		text := strings.Trim(string(k.V), `"`)
		v, err := value.Constant(value.Tagged, value.Of(text))
		if err != nil {
			t.Fatal(err)
		}
		return value.Of(v.Float)
	}
	v, err := value.Parse(k.V)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func koogLines(t *testing.T, file string, least int, each func(t *testing.T, name string, line []byte)) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(harness.SpecFile(t, "cases/"+file))), "\n")
	if len(lines) < least {
		t.Fatalf("%s has %d rows, want at least %d", file, len(lines), least)
	}
	for i, line := range lines {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) { each(t, file, []byte(line)) })
	}
}

// conditionFlow returns a flow that routes its input value to the node yes or no by one condition.
func conditionFlow(c plan.Compare) *plan.Flow {
	node := func(id string, exit bool) plan.Node {
		return plan.Node{ID: id, Name: id, Kind: plan.KindTransform, Exit: exit, Transform: &plan.Transform{}}
	}
	return &plan.Flow{Version: plan.Version, Name: "deciding", Dialect: "koog", Choice: plan.ChooseFirst, NoRoute: &plan.NoRoute{},
		Values: &plan.Values{Read: value.Literal}, Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy,
		Nodes: []plan.Node{node("in", false), node("yes", true), node("no", true)},
		Edges: []plan.Edge{{ID: "1", From: plan.Start, To: "in"}, {ID: "2", From: "in", To: "yes", Compare: &c}, {ID: "3", From: "in", To: "no"}}}
}

// decide runs a [conditionFlow] and returns the node that produced the result.
func decide(t *testing.T, v value.Value, c plan.Compare) (string, *contract.Failure) {
	t.Helper()
	env := harness.NewGraphEnv(t, harness.Fakes{})
	env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: conditionFlow(c)}, Value: v.JSON(), Model: "script"})
	if err := env.GetWorkflowError(); err != nil {
		return "", contract.FailureOf(err)
	}
	var out contract.RunResult
	if err := env.GetWorkflowResult(&out); err != nil {
		t.Fatal(err)
	}
	return out.ResultNode, nil
}

// byValue are the rows whose result differs in the profile default, which compares numbers by
// value.
var byValue = map[string]bool{
	"testConditionEquals_withMixedNumericTypes_intAndDouble": true, "ne_int_vs_double_is_true": true, "zero_vs_negative_zero_equals": true,
	"nan_equals_nan": true, "array_output": true, "critique_unknown_property": true, "critique_input_not_reachable": true,
	"critique_empty_variable": true, "critique_last_segment_only": true,
}

func TestKoogConditions(t *testing.T) {
	t.Parallel()
	koogLines(t, "koog_conditions.jsonl", 73, func(t *testing.T, _ string, line []byte) {
		var c struct {
			Name, Variable, Operation string
			Output, Value             koogValue
			Want                      json.RawMessage
		}
		harness.DecodeJSON(t, line, &c)
		path := strings.Split(c.Variable, ".")
		got, fail := decide(t, c.Output.value(t), plan.Compare{Text: "x", Path: path[len(path)-1:], Op: c.Operation, Value: c.Value.value(t).JSON(), Rules: value.ByType})
		want := map[string]string{"true": "yes", "false": "no"}[string(c.Want)]
		if want == "" {
			text, _ := strings.CutPrefix(strings.Trim(string(c.Want), `"`), "error: ")
			if fail == nil || !strings.Contains(fail.Text, strings.TrimSpace(text)) || fail.Node != "in" {
				t.Errorf("%s: failure = %v, want %q", c.Name, fail, text)
			}
			return
		}
		if fail != nil || got != want {
			t.Errorf("%s: routed to %q, %v, want %s", c.Name, got, fail, want)
		}
		other, fail := decide(t, c.Output.value(t), plan.Compare{Text: "x", Path: path[max(0, len(path)-1):], Op: c.Operation, Value: c.Value.value(t).JSON(), Rules: value.ByValue})
		if same := fail == nil && other == want; same == byValue[c.Name] && c.Name != "critique_last_segment_only" {
			t.Errorf("%s: by value: routed to %q, %v", c.Name, other, fail)
		}
	})
}

// TestKoogConditionLiterals checks how the adapter reads the literals of conditions: as Koog's first
// and later code do, and by their JSON types in the profile default.
func TestKoogConditionLiterals(t *testing.T) {
	t.Parallel()
	koogLines(t, "koog_condition_literals.jsonl", 22, func(t *testing.T, _ string, line []byte) {
		var c struct {
			JSON        string
			Seed, Later json.RawMessage
			SeedValue   json.RawMessage `json:"seed_value"`
			LaterValue  json.RawMessage `json:"later_value"`
		}
		harness.DecodeJSON(t, line, &c)
		for variable, want := range map[string]json.RawMessage{"input.data": c.SeedValue, "output.data": c.LaterValue} {
			doc := `{"id":"x","version":"1","defaultModel":"openai/gpt-4o","agents":[{"name":"a","type":"task","params":{"task":"t"}}],
"transitions":[{"from":"a","to":"__finish__","condition":{"variable":"` + variable + `","operation":"equals","value":` + c.JSON + `}},{"from":"a","to":"__finish__"}]}`
			res, diags := specadapter.Load("x.json", []byte(doc), specadapter.Options{Profile: "koog"})
			var text string
			if json.Unmarshal(want, &text) == nil {
				if res != nil {
					t.Errorf("%s, %s: accepted, want %s", c.JSON, variable, text)
				}
				continue
			}
			if res == nil {
				t.Errorf("%s, %s: %v", c.JSON, variable, diags)
				continue
			}
			var v koogValue
			harness.DecodeJSON(t, want, &v)
			if got := string(res.Flow.Edges[1].Compare.Value); got != string(v.value(t).JSON()) {
				t.Errorf("%s, %s: got %s, want %s", c.JSON, variable, got, v.value(t).JSON())
			}
			res, diags = specadapter.Load("x.json", []byte(doc), specadapter.Options{})
			if res == nil {
				t.Fatal(diags)
			}
			literal, err := value.Parse([]byte(c.JSON))
			if got := string(res.Flow.Edges[1].Compare.Value); err != nil || got != string(literal.JSON()) {
				t.Errorf("profile default: %s is read as %s", c.JSON, got)
			}
		}
	})
}

// describe formats a value as the case files do.
func describe(v value.Value) string {
	names := map[value.Kind]string{value.Bool: "Bool", value.Int: "Int", value.Double: "Double", value.String: "String"}
	switch {
	case v.IsCritique():
		success, _ := v.Get("success")
		feedback, _ := v.Get("feedback")
		input, _ := v.Get("input")
		return fmt.Sprintf("Critique(%s,%s,%s)", success.Words(), feedback.Text, describe(input))
	case v.Kind == value.Array && len(v.Items) == 0:
		return "Strings []"
	case v.Kind == value.Array:
		return names[v.Items[0].Kind] + "s"
	case v.Kind == value.Double && v.Float == 3e9:
		return "Double 3e9"
	}
	return names[v.Kind] + " " + v.Words()
}

// TestKoogWireValues checks that values of the wire format are read correctly and returned unchanged by a
// flow that returns its input.
func TestKoogWireValues(t *testing.T) {
	t.Parallel()
	koogLines(t, "koog_wire_values.jsonl", 25, func(t *testing.T, _ string, line []byte) {
		var c struct {
			JSON        json.RawMessage
			Seed, Later string
		}
		harness.DecodeJSON(t, line, &c)
		var text string
		if json.Unmarshal(c.JSON, &text) != nil {
			t.Fatal(string(c.JSON))
		}
		for way, want := range map[string]string{value.Bare: c.Seed, value.Tagged: c.Later} {
			want, _, _ = strings.Cut(want, " (")
			v, err := value.Read(way, []byte(text))
			if strings.HasPrefix(want, "error") {
				_, wantText, _ := strings.Cut(want, "error: ")
				if err == nil || !strings.Contains(err.Error(), wantText) {
					t.Errorf("%s, %s: %v and %v, want %s", text, way, describe(v), err, want)
				}
				continue
			}
			if err != nil || describe(v) != want {
				t.Errorf("%s, %s: %s and %v, want %s", text, way, describe(v), err, want)
				continue
			}
			flow := conditionFlow(plan.Compare{Text: "x", Op: value.Equals, Value: json.RawMessage(`1`), Rules: value.ByValue})
			flow.Values.Read = way
			flow.Edges = flow.Edges[:1]
			flow.Nodes[0].Exit = true
			env := harness.NewGraphEnv(t, harness.Fakes{})
			env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: flow}, Value: json.RawMessage(text), Model: "script"})
			var out contract.RunResult
			if err := env.GetWorkflowResult(&out); err != nil {
				t.Fatal(err)
			}
			if got := harness.ResultText(&out); got != v.Words() {
				t.Errorf("%s, %s: result is %s, want %s", text, way, got, v.Words())
			}
		}
	})
}

// TestTypedResults checks the encoding of typed results: strings as text, all other values as data, and
// numbers keep their type.
func TestTypedResults(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"x"`: `text x`, `42`: `data 42`, `42.0`: `data 42.0`, `true`: `data true`, `[1,2]`: `data [1,2]`, `[1.0,2.5]`: `data [1.0,2.5]`, `["a"]`: `data ["a"]`,
		`{"success":false,"feedback":"f","input":{"success":true,"feedback":"g","input":7}}`: `data {"success":false,"feedback":"f","input":{"success":true,"feedback":"g","input":7}}`,
		`"` + strings.Repeat("long ", 1000) + `"`:                                            "text " + strings.Repeat("long ", 1000),
	} {
		flow := conditionFlow(plan.Compare{Text: "x", Op: value.Equals, Value: json.RawMessage(`1`), Rules: value.ByValue})
		env := harness.NewGraphEnv(t, harness.Fakes{})
		env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: flow}, Value: json.RawMessage(in), Model: "script"})
		var out contract.RunResult
		if err := env.GetWorkflowResult(&out); err != nil {
			t.Fatal(err)
		}
		got := "data " + string(out.ResultData)
		if out.ResultText != nil {
			got = "text " + *out.ResultText
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.50s (-want +got):\n%s", in, diff)
		}
	}
}
