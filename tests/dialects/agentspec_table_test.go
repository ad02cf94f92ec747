package dialects

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// shortCase is a test case for a document in short form, see specDoc: a run's params, the model's script, and the expected outputs
// or a part of the failure.
type shortCase struct {
	doc, params, script, want, fails string
}

const (
	identityInt = `{nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: integer}]}, e1: {component_type: EndNode, outputs: [{title: x, type: integer}]}}, go: [s1 > e1]}`
	identityNum = `{nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: number}]}, e1: {component_type: EndNode, outputs: [{title: x, type: number}]}}, go: [s1 > e1]}`
	ints        = `[{title: xs, type: array, items: {type: integer}}]`
	nums        = `[{title: xs, type: array, items: {type: number}}]`
)

// mapped returns a flow that maps xs to y.
func mapped(kind, reducers, ins, sub, out string) string {
	return "flow: {nodes: {s: {component_type: StartNode, inputs: " + ins + "}, n: {component_type: " + kind + ", subflow: '@sub', reducers: " + reducers + "}, e: {component_type: EndNode, outputs: [" + out +
		"]}}, go: [s > n > e], data: [s.xs > n.iterated_x, n.collected_x > e.y]}\nsub: " + sub
}

const listY, intY, numY = `{title: y, type: array, items: {type: integer}}`, `{title: y, type: integer}`, `{title: y, type: number}`

// cast returns a flow with an input x of one type and an output y of another.
func cast(from, to string) string {
	return "flow: {nodes: {s: {component_type: StartNode, inputs: [{title: x, " + from + "}]}, e: {component_type: EndNode, outputs: [{title: y, " + to + "}]}}, go: [s > e], data: [s.x > e.y]}"
}

var shortCases = map[string]shortCase{
	// Reducers.
	"append":                        {doc: mapped("MapNode", "{x: append}", ints, identityInt, listY), params: `{"xs":[3,1,2]}`, want: `{"y":[3,1,2]}`},
	"append of an empty list":       {doc: mapped("ParallelMapNode", "{x: append}", ints, identityInt, listY), params: `{"xs":[]}`, want: `{"y":[]}`},
	"no reducers":                   {doc: mapped("ParallelMapNode", "null", ints, identityInt, listY), params: `{"xs":[3,1,2]}`, want: `{"y":[3,1,2]}`},
	"sum":                           {doc: mapped("MapNode", "{x: sum}", ints, identityInt, intY), params: `{"xs":[3,-1,2]}`, want: `{"y":4}`},
	"sum of an empty list":          {doc: mapped("MapNode", "{x: sum}", ints, identityInt, intY), params: `{"xs":[]}`, want: `{"y":0}`},
	"sum of numbers":                {doc: mapped("ParallelMapNode", "{x: sum}", nums, identityNum, numY), params: `{"xs":[0.5,1,2]}`, want: `{"y":3.5}`},
	"sum overflow":                  {doc: mapped("MapNode", "{x: sum}", ints, identityInt, numY), params: `{"xs":[9223372036854775807,9223372036854775807]}`, fails: "18446744073709551614 is not a 64-bit integer"},
	"average of integers":           {doc: mapped("MapNode", "{x: average}", ints, identityInt, intY), params: `{"xs":[1,2]}`, want: `{"y":1}`},
	"average":                       {doc: mapped("ParallelMapNode", "{x: average}", nums, identityNum, numY), params: `{"xs":[1,2]}`, want: `{"y":1.5}`},
	"average of an empty list":      {doc: mapped("MapNode", "{x: average}", nums, identityNum, numY), params: `{"xs":[]}`, fails: `output "x": the node returned no value`},
	"max":                           {doc: mapped("MapNode", "{x: max}", nums, identityNum, numY), params: `{"xs":[1,7.5,2]}`, want: `{"y":7.5}`},
	"min":                           {doc: mapped("ParallelMapNode", "{x: min}", ints, identityInt, intY), params: `{"xs":[4,-7,2]}`, want: `{"y":-7}`},
	"max of an empty list":          {doc: mapped("ParallelMapNode", "{x: max}", ints, identityInt, intY), params: `{"xs":[]}`, fails: `output "x": the node returned no value`},
	"min of an empty list, default": {doc: strings.Replace(mapped("MapNode", "{x: min}", ints, identityInt, intY), "reducers:", "outputs: [{title: collected_x, type: integer, default: 42}], reducers:", 1), params: `{"xs":[]}`, want: `{"y":42}`},
	"lists of different lengths":    {doc: zip, params: `{"as":[1,2],"bs":["x"]}`, fails: "with 2 elements"},
	"zipped lists":                  {doc: zip, params: `{"as":[1,2],"bs":["x","y"]}`, want: `{"as":[1,2],"bs":["x","y"]}`},
	"a list zipped with a string":   {doc: zipOne, params: `{"as":[1,2],"b":"w"}`, want: `{"as":[1,2],"bs":["w","w"]}`},
	"a value that is not a list":    {doc: mapped("MapNode", "null", "[{title: xs, type: integer}]", identityInt, listY), params: `{"xs":7}`, want: `{"y":[7]}`},
	"the prefix in a name":          {doc: prefixed, params: `{"xs":[1,2]}`, want: `{"y":[1,2]}`},
	"a branch in a map":             {doc: branchMap, params: `{"xs":["a","b","a"]}`, want: `{"y":["first","other","first"]}`},
	"nested maps":                   {doc: mapsDeep, params: `{"xs":[[[1,2],[3]],[],[[]]]}`, want: `{"y":[[3,3],[],[0]]}`},

	// Casts.
	"integer to string":               {doc: cast("type: integer", "type: string"), params: `{"x":-12}`, want: `{"y":"-12"}`},
	"number to string":                {doc: cast("type: number", "type: string"), params: `{"x":1.50}`, want: `{"y":"1.5"}`},
	"boolean to string":               {doc: cast("type: boolean", "type: string"), params: `{"x":true}`, want: `{"y":"true"}`},
	"null to string":                  {doc: cast(`type: "null"`, "type: string"), params: `{"x":null}`, want: `{"y":"null"}`},
	"object to string":                {doc: cast("type: object", "type: string"), params: `{"x":{"a":[1,null,"é"],"b":{}}}`, want: `{"y":"{\"a\": [1, null, \"é\"], \"b\": {}}"}`},
	"array to string":                 {doc: cast("type: array, items: {type: boolean}", "type: string"), params: `{"x":[true,false]}`, want: `{"y":"[true, false]"}`},
	"number to integer":               {doc: cast("type: number", "type: integer"), params: `{"x":-2.9}`, want: `{"y":-2}`},
	"integer to number":               {doc: cast("type: integer", "type: number"), params: `{"x":3}`, want: `{"y":3}`},
	"number to boolean":               {doc: cast("type: number", "type: boolean"), params: `{"x":0.1}`, want: `{"y":true}`},
	"zero to boolean":                 {doc: cast("type: integer", "type: boolean"), params: `{"x":0}`, want: `{"y":false}`},
	"boolean to integer":              {doc: cast("type: boolean", "type: integer"), params: `{"x":true}`, want: `{"y":1}`},
	"boolean to number":               {doc: cast("type: boolean", "type: number"), params: `{"x":false}`, want: `{"y":0}`},
	"items of an array":               {doc: cast("type: array, items: {type: integer}", "type: array, items: {type: string}"), params: `{"x":[1,2]}`, want: `{"y":["1","2"]}`},
	"members of an object":            {doc: cast("type: object, properties: {a: {type: integer}, b: {type: string}}", "type: object, properties: {a: {type: string}}"), params: `{"x":{"a":1,"b":"c","d":[1]}}`, want: `{"y":{"a":"1","b":"c","d":[1]}}`},
	"a union with the type":           {doc: cast("type: integer", "anyOf: [{type: string}, {type: integer}]"), params: `{"x":4}`, want: `{"y":4}`},
	"a union with a castable type":    {doc: cast("type: array, items: {type: integer}", `anyOf: [{type: "null"}, {type: string}]`), params: `{"x":[4]}`, want: `{"y":"[4]"}`},
	"a nullable type":                 {doc: cast(`anyOf: [{type: integer}, {type: "null"}]`, `anyOf: [{type: integer}, {type: "null"}]`), params: `{"x":null}`, want: `{"y":null}`},
	"any type":                        {doc: cast("type: object", "description: any"), params: `{"x":{"k":[1]}}`, want: `{"y":{"k":[1]}}`},
	"a value of an enum":              {doc: cast("type: string", "type: string, enum: [red, blue]"), params: `{"x":"red"}`, want: `{"y":"red"}`},
	"a value not in an enum":          {doc: cast("type: string", "type: string, enum: [red, blue]"), params: `{"x":"green"}`, fails: "green"},
	"string to integer at the start":  {doc: cast("type: integer", "type: integer"), params: `{"x":"12"}`, want: `{"y":12}`},
	"not an integer":                  {doc: cast("type: integer", "type: integer"), params: `{"x":"twelve"}`, fails: "twelve"},
	"string to boolean":               {doc: cast("type: boolean", "type: boolean"), params: `{"x":"False"}`, want: `{"y":false}`},
	"an unknown input":                {doc: cast("type: integer", "type: integer"), params: `{"x":1,"z":2}`, fails: `'z'`},
	"a missing input":                 {doc: cast("type: integer", "type: integer"), params: `{}`, fails: `'x'`},
	"a default of the start node":     {doc: cast("type: integer, default: 5", "type: integer"), params: `{}`, want: `{"y":5}`},
	"null in spite of a default":      {doc: cast("type: integer, default: 5", "type: integer"), params: `{"x":null}`, fails: "None"},
	"default of an input":             {doc: inputDefault, params: `{}`, want: `{"y":"none"}`},
	"default of a flow's output":      {doc: outputDefault, params: `{"k":"b"}`, want: `{"y":"flow"}`},
	"output of the end node that ran": {doc: outputDefault, params: `{"k":"a"}`, want: `{"y":"a"}`},

	// Data flow.
	"the last writer":        {doc: lastWriter, params: `{"k":"a"}`, script: "rules: [{match: one, say: ONE}, {match: two, say: TWO}]", want: `{"y":"TWO"}`},
	"the only writer":        {doc: lastWriter, params: `{"k":"b"}`, script: "rules: [{match: one, say: ONE}, {match: two, say: TWO}]", want: `{"y":"ONE"}`},
	"stale values in a loop": {doc: staleLoop, params: `{"n":"0"}`, script: staleScript, want: `{"first":"a1","last":"c3"}`},
	"data flow by names":     {doc: names, params: `{"a":"x","b":2}`, script: "rules: [{match: x-2, say: Y}, {match: Y-2, say: Z}]", want: `{"c":"Z","b":2}`},

	// Branches.
	"a boolean key":               {doc: branchOn("type: boolean", `{"true": t, "false": f}`), params: `{"k":true}`, want: `{"y":"t"}`},
	"an integer key":              {doc: branchOn("type: integer", `{"3": t, "4": f}`), params: `{"k":4}`, want: `{"y":"f"}`},
	"a number key":                {doc: branchOn("type: number", `{"1.5": t, "2.0": f}`), params: `{"k":1.5}`, want: `{"y":"t"}`},
	"a key in a different case":   {doc: branchOn("type: string", `{"Yes": t, "yes ": f}`), params: `{"k":"yes"}`, want: `{"y":"d"}`},
	"a key with a trailing space": {doc: branchOn("type: string", `{"Yes": t, "yes ": f}`), params: `{"k":"yes "}`, want: `{"y":"f"}`},
	"a branch of a subflow":       {doc: subBranches, params: `{"k":"a"}`, want: `{"y":"from a"}`},
	"another branch of a subflow": {doc: subBranches, params: `{"k":"z"}`, want: `{"y":"from the rest"}`},
	"a branch without an edge":    {doc: deadEnd, params: `{"k":"a"}`, fails: "a"},
}

const zip = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: as, type: array, items: {type: integer}}, {title: bs, type: array, items: {type: string}}]}, n: {component_type: ParallelMapNode, subflow: '@sub'}, e: {component_type: EndNode, outputs: [{title: as, type: array, items: {type: integer}}, {title: bs, type: array, items: {type: string}}]}},
  go: [s > n > e], data: [s.as > n.iterated_a, s.bs > n.iterated_b, n.collected_a > e.as, n.collected_b > e.bs]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: a, type: integer}, {title: b, type: string}]}, e1: {component_type: EndNode, outputs: [{title: a, type: integer}, {title: b, type: string}]}}, go: [s1 > e1]}`

var zipOne = strings.Replace(strings.Replace(zip, "{title: bs, type: array, items: {type: string}}]}, n:", "{title: b, type: string}]}, n:", 1), "s.bs", "s.b", 1)

const prefixed = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: integer}}]}, n: {component_type: MapNode, subflow: '@sub'}, e: {component_type: EndNode, outputs: [{title: y, type: array, items: {type: integer}}]}},
  go: [s > n > e], data: [s.xs > n.iterated_iterated_x, n.collected_collected_x > e.y]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: iterated_x, type: integer}]}, e1: {component_type: EndNode, outputs: [{title: collected_x, type: integer}]}}, go: [s1 > e1], data: [s1.iterated_x > e1.collected_x]}`

const branchMap = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: string}}]}, n: {component_type: MapNode, subflow: '@sub'}, e: {component_type: EndNode, outputs: [{title: y, type: array, items: {type: string}}]}},
  go: [s > n > e], data: [s.xs > n.iterated_x, n.collected_w > e.y]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: string}]}, b1: {component_type: BranchingNode, inputs: [{title: key, type: string}], mapping: {a: yes_a}},
  e1: {component_type: EndNode, branch_name: one, outputs: [{title: w, type: string, default: first}]}, e2: {component_type: EndNode, branch_name: two, outputs: [{title: w, type: string, default: other}]}},
  go: [s1 > b1, b1.yes_a > e1, b1.default > e2], data: [s1.x > b1.key]}`

const mapsDeep = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: array, items: {type: array, items: {type: integer}}}}]}, n: {component_type: ParallelMapNode, subflow: '@mid'}, e: {component_type: EndNode, outputs: [{title: y, type: array, items: {type: array, items: {type: integer}}}]}},
  go: [s > n > e], data: [s.xs > n.iterated_row, n.collected_sums > e.y]}
mid: {nodes: {s2: {component_type: StartNode, inputs: [{title: row, type: array, items: {type: array, items: {type: integer}}}]}, n2: {component_type: MapNode, subflow: '@low'}, e2: {component_type: EndNode, outputs: [{title: sums, type: array, items: {type: integer}}]}},
  go: [s2 > n2 > e2], data: [s2.row > n2.iterated_cells, n2.collected_sum > e2.sums]}
low: {nodes: {s3: {component_type: StartNode, inputs: [{title: cells, type: array, items: {type: integer}}]}, n3: {component_type: ParallelMapNode, subflow: '@one', reducers: {x: sum}}, e3: {component_type: EndNode, outputs: [{title: sum, type: integer}]}},
  go: [s3 > n3 > e3], data: [s3.cells > n3.iterated_x, n3.collected_x > e3.sum]}
one: {nodes: {s4: {component_type: StartNode, inputs: [{title: x, type: integer}]}, e4: {component_type: EndNode, outputs: [{title: x, type: integer}]}}, go: [s4 > e4]}`

const inputDefault = `flow: {nodes: {s: {component_type: StartNode}, e: {component_type: EndNode, outputs: [{title: y, type: string, default: none}]}}, go: [s > e], data: []}`

const outputDefault = `flow: {outputs: [{title: y, type: string, default: flow}], nodes: {s: {component_type: StartNode, inputs: [{title: k, type: string}]}, b: {component_type: BranchingNode, inputs: [{title: key, type: string}], mapping: {a: one}},
  e1: {component_type: EndNode, outputs: [{title: y, type: string, default: end}]}, e2: {component_type: EndNode}}, go: [s > b, b.one > e1, b.default > e2], data: [s.k > b.key, s.k > e1.y]}`

const lastWriter = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: k, type: string}]}, l1: {component_type: LlmNode, llm_config: '@m', prompt_template: one}, b: {component_type: BranchingNode, inputs: [{title: key, type: string}], mapping: {a: more}}, l2: {component_type: LlmNode, llm_config: '@m', prompt_template: two},
  e: {component_type: EndNode, outputs: [{title: y, type: string}]}}, go: [s > l1 > b, b.more > l2 > e, b.default > e], data: [s.k > b.key, l2.generated_text > e.y, l1.generated_text > e.y]}`

// staleLoop has a node in a loop: its input p is set once, by the first node, and q by its own output in each iteration.
const staleLoop = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: n, type: string}]}, f: {component_type: LlmNode, llm_config: '@m', prompt_template: begin}, l: {component_type: LlmNode, llm_config: '@m', prompt_template: '{{p}}+{{q}}', inputs: [{title: p, type: string}, {title: q, type: string, default: none}]},
  b: {component_type: BranchingNode, inputs: [{title: key, type: string}], mapping: {b1: again, b2: again}}, e: {component_type: EndNode, outputs: [{title: first, type: string}, {title: last, type: string}]}},
  go: [s > f > l > b, b.again > l, b.default > e], data: [f.generated_text > l.p, l.generated_text > l.q, l.generated_text > b.key, f.generated_text > e.first, l.generated_text > e.last]}`

const staleScript = "rules: [{text: begin, say: a1}, {text: a1+none, say: b1}, {text: a1+b1, say: b2}, {text: a1+b2, say: c3}]"

const names = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: a, type: string}, {title: b, type: integer}]}, l1: {component_type: LlmNode, llm_config: '@m', prompt_template: '{{a}}-{{b}}', outputs: [{title: a, type: string}]},
  l2: {component_type: LlmNode, llm_config: '@m', prompt_template: '{{a}}-{{b}}', outputs: [{title: c, type: string}]}, e: {component_type: EndNode, outputs: [{title: c, type: string}, {title: b, type: integer}]}}, go: [s > l1 > l2 > e]}`

func branchOn(kind, mapping string) string {
	return `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: k, ` + kind + `}]}, b: {component_type: BranchingNode, inputs: [{title: key, ` + kind + `}], mapping: ` + mapping + `},
  e1: {component_type: EndNode, branch_name: b1, outputs: [{title: y, type: string, default: t}]}, e2: {component_type: EndNode, branch_name: b2, outputs: [{title: y, type: string, default: f}]}, e3: {component_type: EndNode, branch_name: b3, outputs: [{title: y, type: string, default: d}]}},
  go: [s > b, b.t > e1, b.f > e2, b.default > e3], data: [s.k > b.key]}`
}

const subBranches = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: k, type: string}]}, n: {component_type: FlowNode, subflow: '@sub'}, e1: {component_type: EndNode, branch_name: b1, outputs: [{title: y, type: string, default: from a}]}, e2: {component_type: EndNode, branch_name: b2, outputs: [{title: y, type: string, default: from the rest}]}},
  go: [s > n, n.left > e1, n.right > e2], data: [s.k > n.k]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: k, type: string}]}, b1: {component_type: BranchingNode, inputs: [{title: key, type: string}], mapping: {a: x}}, e3: {component_type: EndNode, branch_name: left}, e4: {component_type: EndNode, branch_name: right}},
  go: [s1 > b1, b1.x > e3, b1.default > e4], data: [s1.k > b1.key]}`

const deadEnd = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: k, type: string}]}, b: {component_type: BranchingNode, inputs: [{title: key, type: string}], mapping: {a: one}}, e: {component_type: EndNode, outputs: [{title: k, type: string}]}},
  go: [s > b, b.default > e], data: [s.k > b.key, s.k > e.k]}`

// TestAgentSpecValues checks reducers, casts, data flow and branches against the specification.
func TestAgentSpecValues(t *testing.T) {
	t.Parallel()
	for name, c := range shortCases {
		t.Run(name, func(t *testing.T) { c.play(t) })
	}
}

func (c shortCase) play(t *testing.T) {
	t.Helper()
	c.check(t, c.testRun(t).Execute(t))
}

func (c shortCase) testRun(t *testing.T) harness.TestRun {
	t.Helper()
	return harness.TestRun{Document: specDoc(t, c.doc), Script: c.script, SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(c.params) }}
}

func (c shortCase) check(t *testing.T, p harness.Outcome) {
	t.Helper()
	switch {
	case p.Err != nil && c.fails == "":
		t.Errorf("%v\n%s", p.Err, strings.Join(p.Err.Diagnostics, "\n"))
	case p.Err != nil:
		if all := p.Err.Error() + strings.Join(p.Err.Diagnostics, "\n"); !strings.Contains(all, c.fails) {
			t.Errorf("failure = %s, want %s", all, c.fails)
		}
	case c.fails != "":
		t.Errorf("outputs = %s, want the failure %s", p.Result.ResultData, c.fails)
	case string(p.Result.ResultData) != c.want:
		t.Errorf("outputs = %s, want %s", p.Result.ResultData, c.want)
	}
}
