package dialects

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// nodeCase is a shortCase with requests. results are the results of client-side tools, by tool ("arguments" stands for the arguments
// of the call); calls with the arguments in rejected are rejected, others approved; messages are the user's messages in order.
type nodeCase struct {
	shortCase
	results  map[string]string
	rejected string
	messages []string
}

// flowOf returns a flow of consecutive nodes, whose start is s and whose end is e.
func flowOf(ins, nodes, path, outs string) string {
	return "flow: {nodes: {s: {component_type: StartNode, inputs: " + ins + "}, " + nodes + ", e: {component_type: EndNode, outputs: " + outs + "}}, go: [s > " + path + " > e]}\n"
}

func toolNode(name, ins, outs string) string {
	return "n: {component_type: ToolNode, tool: {component_type: ServerTool, name: " + name + ", inputs: " + ins + ", outputs: " + outs + "}}"
}

const anyN = `[{title: n}]`

// catchFlow returns a flow that catches the failure of one node.
func catchFlow(node string) string {
	return `flow: {nodes: {s: {component_type: StartNode}, n: {component_type: CatchExceptionNode, subflow: '@sub'}, e1: {component_type: EndNode, outputs: [{title: way, default: good}, {title: v}, {title: caught_exception_info}]}, e2: {component_type: EndNode, branch_name: bad, outputs: [{title: way, default: bad}, {title: v}, {title: caught_exception_info}]}},
  go: [s > n > e1, n.caught_exception_branch > e2], data: [n.v > e1.v, n.v > e2.v, n.caught_exception_info > e1.caught_exception_info, n.caught_exception_info > e2.caught_exception_info]}
sub: {outputs: [{title: v, default: [fallback]}], nodes: {s1: {component_type: StartNode}, c: ` + node + `, e3: {component_type: EndNode, outputs: [{title: v}]}}, go: [s1 > c > e3]}
`
}

var nodeCases = map[string]nodeCase{
	// Outputs of tools.
	"a single output":                {shortCase: shortCase{doc: flowOf("[]", toolNode("seven", "[]", anyN), "n", anyN), params: `{}`, want: `{"n":7}`}},
	"a built-in tool":                {shortCase: shortCase{doc: flowOf("[]", strings.NewReplacer("ServerTool, name: seven", "BuiltinTool, name: lucky, tool_type: seven, executor_name: other").Replace(toolNode("seven", "[]", anyN)), "n", anyN), params: `{}`, want: `{"n":7}`}},
	"an output by title":             {shortCase: shortCase{doc: flowOf("[]", toolNode("wrapped", "[]", anyN), "n", anyN), params: `{}`, want: `{"n":7}`}},
	"an object as single output":     {shortCase: shortCase{doc: flowOf("[]", toolNode("wrapped", "[]", "[{title: o, type: object}]"), "n", "[{title: o, type: object}]"), params: `{}`, want: `{"o":{"n":7}}`}},
	"two outputs":                    {shortCase: shortCase{doc: flowOf("[{title: a, type: integer}, {title: b, type: integer}]", toolNode("pair", "[{title: a, type: integer}, {title: b, type: integer}]", "[{title: sum, type: integer}, {title: diff, type: string}]"), "n", "[{title: diff, type: string}, {title: sum, type: integer}]"), params: `{"a":5,"b":3}`, want: `{"diff":"2","sum":8}`}},
	"a missing output":               {shortCase: shortCase{doc: flowOf("[]", toolNode("wrapped", "[]", "[{title: n}, {title: m, type: integer}]"), "n", "[{title: m, type: integer}]"), params: `{}`, fails: `output "m"`}},
	"a default output":               {shortCase: shortCase{doc: flowOf("[]", toolNode("wrapped", "[]", "[{title: n}, {title: m, type: integer, default: 4}]"), "n", "[{title: m, type: integer}]"), params: `{}`, want: `{"m":4}`}},
	"no output":                      {shortCase: shortCase{doc: flowOf("[]", toolNode("wrapped", "[]", "[]"), "n", "[{title: x, default: 1}]"), params: `{}`, want: `{"x":1}`}},
	"a failing tool":                 {shortCase: shortCase{doc: flowOf("[]", toolNode("broken", "[]", anyN), "n", anyN), params: `{}`, fails: "out of paper"}},
	"a failing tool is caught":       {shortCase: shortCase{doc: catchFlow("{component_type: ToolNode, tool: {component_type: ServerTool, name: broken, outputs: [{title: v}]}}"), params: `{}`, want: `{"way":"bad","v":["fallback"],"caught_exception_info":"the tool \"broken\" failed: out of paper"}`}},
	"caught, no edge for the branch": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: CatchExceptionNode, subflow: '@sub'}", "n", "[]") + "sub: {nodes: {s1: {component_type: StartNode}, c: " + toolNode("broken", "[]", "[]")[3:] + ", e3: {component_type: EndNode}}, go: [s1 > c > e3]}\n", params: `{}`, fails: `branch "caught_exception_branch" of the node "n" has no edge; it caught: the tool "broken" failed: out of paper`}},
	"a subflow's branch without an edge": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: FlowNode, subflow: '@sub'}", "n", "[{title: x, default: 1}]") + `sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: k, type: string, default: x}]}, b: {component_type: BranchingNode, mapping: {x: other}, inputs: [{title: k, type: string}]}, e3: {component_type: EndNode}, e4: {component_type: EndNode, branch_name: bad}}, go: [s1 > b, b.default > e3, b.other > e4], data: [s1.k > b.k]}
`, params: `{}`, fails: `node "n/e4" at step 4 (flow.json:30): branch "bad" of the node "n/e4" has no edge`}},
	"a dead end":                        {shortCase: shortCase{doc: "flow: {nodes: {s: {component_type: StartNode, inputs: [{title: k, type: string}]}, b: {component_type: BranchingNode, mapping: {x: other}, inputs: [{title: k, type: string}]}, t: {component_type: ToolNode, tool: {component_type: ServerTool, name: seven}}, e: {component_type: EndNode}}, go: [s > b, b.default > e, b.other > t], data: [s.k > b.k]}\n", params: `{"k":"x"}`, fails: `node "t" at step 3 (flow.json:35): the run ended before an exit node ran; no edge was taken after [t#3]; add an edge from the node to another one`}},
	"a dead end in a subflow":           {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: FlowNode, subflow: '@sub'}", "n", "[{title: x, default: 1}]") + "sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: k, type: string, default: x}]}, b: {component_type: BranchingNode, mapping: {x: other}, inputs: [{title: k, type: string}]}, t: {component_type: ToolNode, tool: {component_type: ServerTool, name: seven}}, e3: {component_type: EndNode}}, go: [s1 > b, b.default > e3, b.other > t], data: [s1.k > b.k]}\n", params: `{}`, fails: `node "n/t" at step 4 (flow.json:127): the run ended before an exit node ran; no edge was taken after [n/t#4]; add an edge from the node to another one`}},
	"nothing to catch":                  {shortCase: shortCase{doc: catchFlow("{component_type: ToolNode, tool: {component_type: ServerTool, name: seven, outputs: [{title: v}]}}"), params: `{}`, want: `{"way":"good","v":7,"caught_exception_info":null}`}},
	"a failing model is caught":         {shortCase: shortCase{doc: catchFlow("{component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: v, type: string}]}"), params: `{}`, script: "rules: [{fail: {class: refused, text: no way}}]", want: `{"way":"bad","v":["fallback"],"caught_exception_info":"script: no way (attempt 1)"}`}},
	"a denied model call is caught":     {shortCase: shortCase{doc: catchFlow("{component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: v, type: string}]}"), params: `{}`, script: "rules: [{fail: {class: denied, text: no key}}]", want: `{"way":"bad","v":["fallback"],"caught_exception_info":"script: no key (attempt 1)"}`}},
	"success after a retry":             {shortCase: shortCase{doc: catchFlow("{component_type: ApiNode, url: 'HOST/flaky', http_method: GET, retry_policy: {max_attempts: 2}, outputs: [{title: v}]}"), params: `{}`, want: `{"way":"good","v":3,"caught_exception_info":null}`}},
	"retries exhausted":                 {shortCase: shortCase{doc: catchFlow("{component_type: ApiNode, url: 'HOST/flaky', http_method: GET, retry_policy: {max_attempts: 1}, outputs: [{title: v}]}"), params: `{}`, want: `{"way":"bad","v":["fallback"],"caught_exception_info":"connection \"http:c\" (HOST): the server responded with status 503 Service Unavailable: 3"}`}},
	"a failing parallel flow is caught": {shortCase: shortCase{doc: catchFlow("{component_type: ParallelFlowNode, subflows: ['@below']}") + "below: {nodes: {s2: {component_type: StartNode}, l: {component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: v, type: string}]}, e4: {component_type: EndNode, outputs: [{title: v, type: string}]}}, go: [s2 > l > e4]}\n", params: `{}`, script: "rules: [{fail: {class: denied, text: no key}}]", want: `{"way":"bad","v":["fallback"],"caught_exception_info":"script: no key (attempt 1)"}`}},
	"a failing HTTP request is caught":  {shortCase: shortCase{doc: catchFlow("{component_type: ApiNode, url: 'HOST/none', http_method: GET, outputs: [{title: v}]}"), params: `{}`, want: `{"way":"bad","v":["fallback"],"caught_exception_info":"the tool \"c\" failed: status 404 Not Found: 404 page not found"}`}},

	// Models.
	"structured outputs": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: a, type: object, properties: {b: {type: array, items: {type: integer}}}, required: [b]}, {title: c, type: string, enum: [x, y]}, {title: d, type: integer, default: 9}]}", "n", "[{title: a, type: object}, {title: c, type: string}, {title: d, type: integer}]"),
		params: `{}`, script: `rules: [{turn: 1, say: 'no JSON'}, {turn: 2, say: '{"a": {"b": [1]}, "c": "z"}'}, {turn: 3, say: '{"a": {"b": [1, 2]}, "c": "y"}'}]`, want: `{"a":{"b":[1,2]},"c":"y","d":9}`}},
	"structured outputs are cast": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: a, type: integer}, {title: b, type: array, items: {type: number}}, {title: c, type: string}, {title: d, type: boolean, default: true}, {title: e, type: [integer, 'null'], default: 4}]}", "n", "[{title: a}, {title: b}, {title: c}, {title: d}, {title: e}]"),
		params: `{}`, script: `rules: [{turn: 1, say: '{"a": "many", "b": [], "c": ""}'}, {turn: 2, say: '{"a": "7", "b": "[1, \"2\"]", "c": 5, "d": "maybe", "e": null}'}]`, want: `{"a":7,"b":[1,2],"c":"5","d":true,"e":null}`}},
	"an agent's outputs are cast": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: AgentNode, agent: {component_type: Agent, llm_config: '@m', name: a, human_in_the_loop: false, system_prompt: A, outputs: [{title: a, type: integer}, {title: b, type: array, items: {type: number}}, {title: d, type: boolean, default: true}]}}", "n", "[{title: a}, {title: b}, {title: d}]"),
		params: `{}`, script: `rules: [{turn: 1, call: [{tool: submit_result, arguments: {a: many, b: []}}]}, {turn: 2, call: [{tool: submit_result, arguments: {a: "7", b: "[1]", d: maybe}}]}]`, want: `{"a":7,"b":[1],"d":true}`}},
	"an enum": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: c, type: string, enum: [x, y]}]}", "n", "[{title: c, type: string}]"),
		params: `{}`, script: `rules: [{turn: 1, say: z}, {turn: 2, say: x}]`, want: `{"c":"x"}`}},
	"invalid model output": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: c, type: integer}]}", "n", "[{title: c, type: integer}]"),
		params: `{}`, script: `rules: [{say: many}]`, fails: "c"}},
	"placeholders are replaced once": {shortCase: shortCase{doc: flowOf("[{title: x, type: string}, {title: o, type: object}]", "n: {component_type: LlmNode, llm_config: '@m', prompt_template: '{{x}}/{{  o}}/{{ x }}', inputs: [{title: x, type: string}, {title: o, type: object}]}", "n", "[{title: generated_text, type: string}]"),
		params: `{"x":"{{o}}","o":{"k":[true,null]}}`, script: `rules: [{text: '{{o}}/{"k": [true, null]}/{{o}}', say: fine}]`, want: `{"generated_text":"fine"}`}},

	// Agents.
	"a nested output": {shortCase: shortCase{doc: flowOf("[{title: city, type: string}]", "n: {component_type: AgentNode, agent: {component_type: Agent, llm_config: '@m', name: a, human_in_the_loop: false, system_prompt: 'In {{city}}.', outputs: [{title: o, type: object, properties: {k: {type: string, enum: [x, y]}}, required: [k]}, {title: n, type: integer, default: 3}]}}", "n", "[{title: o, type: object}, {title: n, type: integer}]"),
		params: `{"city":"Oslo"}`, script: `rules:
- {turn: 1, say: words}
- {turn: 2, call: [{tool: submit_result, arguments: {n: 1}}]}
- {turn: 3, call: [{tool: submit_result, arguments: {o: {k: z}}}]}
- {turn: 4, call: [{tool: submit_result, arguments: {o: {k: y}}}]}`, want: `{"o":{"k":"y"},"n":3}`}},
	"a specialized agent": {shortCase: shortCase{doc: flowOf("[{title: a, type: string}, {title: b, type: string}]", "n: {component_type: AgentNode, agent: {component_type: SpecializedAgent, name: sp, agent: {component_type: Agent, llm_config: '@m', name: a, system_prompt: 'A {{a}}.', outputs: [{title: r, type: string}]}, agent_specialization_parameters: {component_type: AgentSpecializationParameters, name: p, additional_instructions: 'B {{b}}.', human_in_the_loop: false, additional_tools: [{component_type: ServerTool, name: seven, outputs: [{title: n}]}]}}}", "n", "[{title: r, type: string}]"),
		params: `{"a":"1","b":"2"}`, script: `rules: [{turn: 1, call: [{tool: seven, arguments: {}}]}, {turn: 2, after: seven, text: "7", call: [{tool: submit_result, arguments: {r: done}}]}]`, want: `{"r":"done"}`}},
	"a swarm without handoff":       {shortCase: shortCase{doc: swarm("never", "26.1.0"), params: `{}`, script: `rules: [{node: n, turn: 1, call: [{tool: handoff_conversation, arguments: {recipient: b}}, {tool: send_message, arguments: {recipient: b, message: "What?"}}]}, {node: n/b/asked, match: "^What", say: That}, {node: n, match: ^That, call: [{tool: submit_result, arguments: {w: first}}]}]`, want: `{"w":"first"}`}},
	"a swarm that hands off":        {shortCase: shortCase{doc: swarm("always", "26.1.0"), params: `{}`, script: `rules: [{node: n, turn: 1, call: [{tool: handoff_conversation, arguments: {recipient: b}}]}, {node: n/b, call: [{tool: submit_result, arguments: {w: second}}]}]`, want: `{"w":"second"}`}},
	"a swarm of an earlier version": {shortCase: shortCase{doc: swarm("true", "25.4.2"), params: `{}`, script: `rules: [{node: n, turn: 1, call: [{tool: send_message, arguments: {recipient: b, message: "What?"}}]}, {node: n/b/asked, match: "^What", say: That}, {node: n, match: ^That, call: [{tool: handoff_conversation, arguments: {recipient: b}}]}, {node: n/b, call: [{tool: submit_result, arguments: {w: both}}]}]`, want: `{"w":"both"}`}},
	"a manager and a worker": {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: AgentNode, agent: {component_type: ManagerWorkers, name: t, outputs: [{title: w, type: string}], group_manager: '@a', workers: ['@b']}}", "n", "[{title: w, type: string}]") + members,
		params: `{}`, script: `rules: [{node: n, turn: 1, call: [{tool: send_message, arguments: {recipient: b, message: "What?"}}]}, {node: n/b, match: "^What", say: That}, {node: n, after: send_message, match: ^That, call: [{tool: submit_result, arguments: {w: managed}}]}]`, want: `{"w":"managed"}`}},

	// Users and clients.
	"parallel client-side tools": {shortCase: shortCase{doc: flowOf("[{title: c, type: string}]", "n: {component_type: ParallelFlowNode, subflows: ['@one', '@two']}", "n", "[{title: sky, type: string}, {title: heat, type: integer}]") + clientFlow("one", "sky", "string") + clientFlow("two", "heat", "integer"),
		params: `{"c":"Oslo"}`, want: `{"sky":"clear","heat":21}`}, results: map[string]string{"sky": `"clear"`, "heat": `"21"`}},
	"approved calls in a map":              {shortCase: shortCase{doc: confirmMap, params: `{"xs":[1,2,3]}`, want: `{"y":[7,7,7]}`}},
	"a rejected call in a map":             {shortCase: shortCase{doc: confirmMap, params: `{"xs":[1,2,3]}`, fails: "a user rejected the call of plus"}, rejected: `{"x":2}`},
	"user input in a loop":                 {shortCase: shortCase{doc: askLoop, params: `{}`, want: `{"said":"stop"}`}, messages: []string{"a", "b", "stop"}},
	"the conversation of a failed subflow": {shortCase: shortCase{doc: failedConversation, params: `{}`, script: `rules: [{contains: "I am Ann", call: [{tool: submit_result, arguments: {w: heard}}]}]`, want: `{"w":"heard"}`}, messages: []string{"I am Ann"}},
	"a conversation shared with a subflow": {shortCase: shortCase{doc: sharedConversation, params: `{}`, script: `rules: [{contains: "I am Ann", match: I am Ann, call: [{tool: submit_result, arguments: {w: heard}}]}]`, want: `{"w":"heard"}`}, messages: []string{"I am Ann"}},

	// HTTP.
	"a request": {shortCase: shortCase{doc: flowOf("[{title: q, type: string}, {title: list, type: array, items: {type: integer}}]", "n: {component_type: ApiNode, url: 'HOST/echo/{{q}}', http_method: POST, query_params: {'k{{q}}': 'v {{q}}'}, headers: {X-One: 'h {{q}}'}, sensitive_headers: '@api.sensitive_headers', data: {'a{{q}}': {deep: ['{{q}}', 3, true]}, n: '{{list}}'}, inputs: [{title: q, type: string}, {title: list, type: array, items: {type: integer}}], outputs: [{title: path}, {title: query}, {title: one}, {title: key}, {title: body}]}", "n", "[{title: path}, {title: query}, {title: one}, {title: key}, {title: body}]"),
		params: `{"q":"a b/c","list":[1]}`, want: `{"path":"/echo/a%20b%2Fc","query":"ka+b%2Fc=v+a+b%2Fc","one":"h a b/c","key":"sesame","body":{"aa b/c":{"deep":["a b/c",3,true]},"n":"[1]"}}`}},
	"an entire response":        {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: ApiNode, url: 'HOST/list', http_method: GET}", "n", "[{title: response}]"), params: `{}`, want: `{"response":[1,2]}`}},
	"a form":                    {shortCase: shortCase{doc: flowOf("[]", "n: {component_type: ToolNode, tool: {component_type: RemoteTool, name: form, url: 'HOST/form', http_method: POST, headers: {Content-Type: application/x-www-form-urlencoded}, data: {a: 'x y', b: 'z'}, outputs: [{title: form, type: string}]}}", "n", "[{title: form, type: string}]"), params: `{}`, want: `{"form":"a=x+y\u0026b=z"}`}},
	"a URL that is not allowed": {shortCase: shortCase{doc: flowOf("[{title: h, type: string}]", "n: {component_type: ApiNode, url: 'HOST/{{h}}', http_method: GET, url_allow_list: ['HOST/other']}", "n", "[{title: response}]"), params: `{"h":"list"}`, fails: "is not allowed"}},
}

const members = `a: {component_type: Agent, description: d, llm_config: '@m', human_in_the_loop: false, system_prompt: A}
b: {component_type: Agent, description: d, llm_config: '@m', human_in_the_loop: false, system_prompt: B}
`

func swarm(handoff, version string) string {
	doc := flowOf("[]", "n: {component_type: AgentNode, agent: {component_type: Swarm, name: t, handoff: "+handoff+", outputs: [{title: w, type: string}], first_agent: '@a', relationships: [['@a', '@b'], ['@b', '@a']]}}", "n", "[{title: w, type: string}]") + members
	return strings.Replace(doc, "flow: {", "flow: {agentspec_version: "+version+", ", 1)
}

func clientFlow(name, tool, kind string) string {
	return name + ": {nodes: {s" + name + ": {component_type: StartNode, inputs: [{title: c, type: string}]}, t" + name + ": {component_type: ToolNode, tool: {component_type: ClientTool, name: " + tool + ", inputs: [{title: c, type: string}], outputs: [{title: " + tool + ", type: " + kind +
		"}]}}, e" + name + ": {component_type: EndNode, outputs: [{title: " + tool + ", type: " + kind + "}]}}, go: [s" + name + " > t" + name + " > e" + name + "]}\n"
}

const confirmMap = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: integer}}]}, n: {component_type: ParallelMapNode, subflow: '@sub'}, e: {component_type: EndNode, outputs: [{title: y, type: array, items: {type: integer}}]}}, go: [s > n > e], data: [s.xs > n.iterated_x, n.collected_n > e.y]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: integer}]}, t: {component_type: ToolNode, tool: {component_type: ServerTool, name: plus, requires_confirmation: true, inputs: [{title: x, type: integer}], outputs: [{title: n, type: integer}]}}, e1: {component_type: EndNode, outputs: [{title: n, type: integer}]}}, go: [s1 > t > e1]}`

const askLoop = `flow: {nodes: {s: {component_type: StartNode}, i: {component_type: InputMessageNode, message: 'You said {{last}}', inputs: [{title: last, type: string, default: nothing}], outputs: [{title: said, type: string}]}, b: {component_type: BranchingNode, inputs: [{title: key, type: string}], mapping: {stop: stop}}, e: {component_type: EndNode, outputs: [{title: said, type: string}]}},
  go: [s > i > b, b.stop > e, b.default > i], data: [i.said > i.last, i.said > b.key, i.said > e.said]}`

const sharedConversation = `flow: {nodes: {s: {component_type: StartNode}, f: {component_type: FlowNode, subflow: '@sub'}, n: {component_type: AgentNode, agent: {component_type: Agent, name: a, llm_config: '@m', human_in_the_loop: false, system_prompt: A, outputs: [{title: w, type: string}]}}, e: {component_type: EndNode, outputs: [{title: w, type: string}]}}, go: [s > f > n > e]}
sub: {nodes: {s1: {component_type: StartNode}, i: {component_type: InputMessageNode, message: 'Who?', outputs: [{title: who, type: string}]}, e1: {component_type: EndNode}}, go: [s1 > i > e1]}`

const failedConversation = `flow: {nodes: {s: {component_type: StartNode}, f: {component_type: CatchExceptionNode, subflow: '@sub'}, n: {component_type: AgentNode, agent: {component_type: Agent, name: a, llm_config: '@m', human_in_the_loop: false, system_prompt: A, outputs: [{title: w, type: string}]}}, e: {component_type: EndNode, outputs: [{title: w, type: string}]}}, go: [s > f > n > e, f.caught_exception_branch > n]}
sub: {nodes: {s1: {component_type: StartNode}, i: {component_type: InputMessageNode, message: 'Who?', outputs: [{title: who, type: string}]}, t: {component_type: ToolNode, tool: {component_type: ServerTool, name: broken}}, e1: {component_type: EndNode}}, go: [s1 > i > t > e1]}`

// nodeServer starts the HTTP server of the cases and returns its URL.
func nodeServer(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo/", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]any{"path": r.URL.EscapedPath(), "query": r.URL.RawQuery, "one": r.Header.Get("X-One"), "key": r.Header.Get("X-Key"), "body": json.RawMessage(raw)})
	})
	mux.HandleFunc("/list", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[1, 2]") })
	calls := 0
	mux.HandleFunc("/flaky", func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "3")
	})
	mux.HandleFunc("/form", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		_, _ = w.Write(raw)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// nodeTools returns the functions of the cases.
func nodeTools() []tool.Function {
	return []tool.Function{
		tool.Func("seven", "", func(context.Context, struct{}) (any, error) { return 7, nil }),
		tool.Func("wrapped", "", func(context.Context, struct{}) (any, error) { return map[string]any{"n": 7}, nil }),
		tool.Func("broken", "", func(context.Context, struct{}) (any, error) { return nil, errors.New("out of paper") }),
		tool.Func("plus", "", func(_ context.Context, _ struct {
			X int `json:"x"`
		}) (any, error) {
			return 7, nil
		}),
		tool.Func("pair", "", func(_ context.Context, in struct {
			A int `json:"a"`
			B int `json:"b"`
		}) (any, error) {
			return map[string]any{"sum": in.A + in.B, "diff": in.A - in.B}, nil
		}),
	}
}

// TestAgentSpecNodes checks the behaviour of nodes, and their inputs and outputs, against the specification.
func TestAgentSpecNodes(t *testing.T) {
	t.Parallel()
	for name, c := range nodeCases {
		t.Run(name, func(t *testing.T) { c.play(t) })
	}
}

func (c nodeCase) play(t *testing.T) {
	host := nodeServer(t)
	for _, text := range []*string{&c.doc, &c.params, &c.want, &c.fails} {
		*text = strings.ReplaceAll(*text, "HOST", host)
	}
	r := c.testRun(t)
	r.Functions, r.ToolSettings.AllowPrivate = nodeTools(), true
	r.ToolSettings.Secrets = map[string]tool.Secret{"api.sensitive_headers": {Value: `{"X-Key":"sesame"}`, Hosts: []string{host}}}
	r.Prepare = func(env *testsuite.TestWorkflowEnvironment) {
		for i := range 8 {
			env.RegisterDelayedCallback(func() { c.answer(t, env) }, time.Duration(i+1)*time.Hour)
		}
	}
	c.check(t, r.Execute(t))
}

// answer answers all open requests of the run.
func (c *nodeCase) answer(t *testing.T, env *testsuite.TestWorkflowEnvironment) {
	var now contract.Status
	harness.Query(t, env, contract.QueryStatus, &now)
	for _, r := range now.Requests {
		switch r.Kind {
		case contract.RequestConfirm:
			yes := c.rejected == "" || string(r.Arguments) != c.rejected
			env.SignalWorkflow(r.Kind, contract.ConfirmAnswer{ID: r.ID, Approve: &yes})
		case contract.RequestToolResult:
			result := json.RawMessage(c.results[r.Tool])
			if string(result) == "arguments" {
				result = r.Arguments
			}
			env.SignalWorkflow(r.Kind, contract.ToolResultAnswer{ID: r.ID, Result: result})
		case contract.RequestMessage:
			if len(c.messages) > 0 {
				env.SignalWorkflow(r.Kind, contract.MessageAnswer{ID: r.ID, Text: c.messages[0]})
				c.messages = c.messages[1:]
			}
		}
	}
}
