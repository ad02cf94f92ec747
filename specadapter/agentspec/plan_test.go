package agentspec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/specadapter"
	"weft/specadapter/agentspec"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// oneNodeFlow returns a flow with one node between start and end; more are further components.
func oneNodeFlow(node, more string) string {
	return `{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e"},
"n":` + node + more + `}}`
}

// memoryNode returns a node that lists its own in-memory collection.
func memoryNode(id string) string {
	return `{"component_type":"PluginDatastoreListNode","name":"` + id + `","datastore":{"component_type":"InMemoryCollectionDatastore","name":"mem","datastore_schema":{"people":{"type":"object","properties":{"name":{"type":"string"}}}}},"collection_name":"people"}`
}

// TestNotYet checks that what a run cannot support is one error, and what a run ignores or does differently one warning.
func TestNotYet(t *testing.T) {
	agent := func(extra string) string {
		return `{"component_type":"AgentNode","name":"n","agent":{"component_type":"Agent","name":"a","llm_config":{"$component_ref":"m"},"system_prompt":"x"` + extra + `}}`
	}
	team := func(fields string) string {
		return `{"agentspec_version":"26.1.2","name":"t",` + fields + `,
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},"a":{"component_type":"Agent","name":"a","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x"},
"f":{"component_type":"Flow","name":"f","description":"d","start_node":{"$component_ref":"s"},"nodes":[{"$component_ref":"s"},{"$component_ref":"e"}],"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"e"}}]},
"r":{"component_type":"A2AAgent","name":"r","description":"d","agent_url":"https://x.example.com","connection_config":{"component_type":"A2AConnectionConfig","name":"c"}},
"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e"}}}`
	}
	tool := func(transport string) string {
		return agent(`,"tools":[{"component_type":"MCPTool","name":"t","client_transport":` + transport + `}]`)
	}
	tests := map[string]struct{ doc, want string }{
		"tool as main component":           {`{"component_type":"ServerTool","agentspec_version":"25.4.1","name":"t"}`, `f.json:1:1: error: ServerTool "t" is neither a Flow nor an Agent and cannot be run [not-yet]`},
		"client certificate without https": {oneNodeFlow(tool(`{"component_type":"SSEmTLSTransport","name":"c","url":"http://x/","key_file":{"$component_ref":"c.k"},"cert_file":{"$component_ref":"c.c"},"ca_file":{"$component_ref":"c.a"}}`), ""), `error: SSEmTLSTransport "c" has a client certificate, but its url is not https [field-value]`},
		"two collections with the same name": {`{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},"nodes":[{"$component_ref":"s"},{"$component_ref":"n1"},{"$component_ref":"n2"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n1"}},{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n1"},"to_node":{"$component_ref":"n2"}},
{"component_type":"ControlFlowEdge","name":"3","from_node":{"$component_ref":"n2"},"to_node":{"$component_ref":"e"}}],"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e"},"n1":` + memoryNode("n1") + `,"n2":` + memoryNode("n2") + `}}`,
			`warning: InMemoryCollectionDatastore "mem" does not share data with the other one of the same name [datastore]`},
		"invalid variable name":          {oneNodeFlow(tool(`{"component_type":"StdioTransport","name":"c","command":"x","env":{"A=":"b"}}`), ""), `error: env of StdioTransport "c" has "A=", which is not a valid variable name [field-value]`},
		"relative working directory":     {oneNodeFlow(tool(`{"component_type":"StdioTransport","name":"c","command":"x","cwd":"data"}`), ""), `error: cwd of StdioTransport "c" is "data", expected an absolute path [field-value]`},
		"placeholder as host":            {oneNodeFlow(`{"component_type":"ApiNode","name":"n","url":"https://{{HOST}}/x","http_method":"GET","inputs":[{"title":"HOST","type":"string","default":"x"}]}`, ""), `warning: the host in url of ApiNode "n" is a placeholder; its value determines where the request goes [templated-host-without-allow-list]`},
		"placeholder as host, ftp":       {oneNodeFlow(`{"component_type":"ApiNode","name":"n","url":"ftp://{{HOST}}/x","http_method":"GET","inputs":[{"title":"HOST","type":"string","default":"x"}]}`, ""), `error: url of ApiNode "n" is "ftp://{{HOST}}/x", which cannot become an http or https URL [field-value]`},
		"placeholder in host, no scheme": {oneNodeFlow(`{"component_type":"ApiNode","name":"n","url":"a.{{HOST}}/x","http_method":"GET","inputs":[{"title":"HOST","type":"string","default":"x"}]}`, ""), `error: url of ApiNode "n" is "a.{{HOST}}/x", which cannot become an http or https URL [field-value]`},
		"invalid temperature":            {oneNodeFlow(`{"component_type":"LlmNode","name":"n","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m","default_generation_parameters":{"temperature":9}},"prompt_template":"x"}`, ""), `error: temperature of OpenAiConfig "m" is 9 [field-value]`},
		"negative max_tokens":            {oneNodeFlow(`{"component_type":"LlmNode","name":"n","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m","default_generation_parameters":{"max_tokens":-5}},"prompt_template":"x"}`, ""), `error: max_tokens of OpenAiConfig "m" is -5 [field-value]`},
		"success as recoverable status":  {oneNodeFlow(`{"component_type":"ApiNode","name":"n","url":"https://x/","http_method":"GET","retry_policy":{"recoverable_statuses":{"200":[]}}}`, ""), `error: recoverable_statuses of ApiNode "n" has the unsupported status "200" [field-value]`},
		"jitter":                         {oneNodeFlow(`{"component_type":"LlmNode","name":"n","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m","retry_policy":{"max_attempts":3,"jitter":"full"}},"prompt_template":"x"}`, ""), `warning: jitter in retry_policy of OpenAiConfig "m" has no effect [no-effect]`},
		"model URL":                      {oneNodeFlow(`{"component_type":"LlmNode","name":"n","llm_config":{"component_type":"VllmConfig","name":"v","model_id":"m","url":"http://x"},"prompt_template":"x"}`, ""), `warning: the url of VllmConfig "v" is ignored; the worker's configuration of provider vllm applies [model-url]`},
		"unknown tool":                   {oneNodeFlow(agent(`,"tools":[{"component_type":"ServerTool","name":"t"}]`), ""), `warning: ServerTool "t" is unknown; a run needs a worker that has it [unknown-tool]`},
		"flow as manager":                {team(`"component_type":"ManagerWorkers","group_manager":{"$component_ref":"f"},"workers":[{"$component_ref":"a"}]`), `error: Flow "f" cannot hold a conversation, so it cannot be the first agent of a team [field-value]`},
		"handoff to a flow": {team(`"component_type":"Swarm","handoff":"always","first_agent":{"$component_ref":"a"},"relationships":[[{"$component_ref":"a"},{"$component_ref":"f"}]]`),
			`error: Flow "f" cannot take over a conversation, and the agents of Swarm "t" only hand over [field-value]`},
		"relationship from a flow": {team(`"component_type":"Swarm","first_agent":{"$component_ref":"a"},"relationships":[[{"$component_ref":"a"},{"$component_ref":"f"}],[{"$component_ref":"f"},{"$component_ref":"a"}]]`),
			`warning: Flow "f" has no model and cannot contact agents; relationships from it in Swarm "t" have no effect [no-effect]`},
		"remote agent as first agent": {team(`"component_type":"Swarm","first_agent":{"$component_ref":"r"},"relationships":[[{"$component_ref":"r"},{"$component_ref":"a"}]]`),
			`error: A2AAgent "r" is a remote agent and cannot contact other agents, so it cannot be the first agent of a team [field-value]`},
		"relationship from a remote agent": {team(`"component_type":"Swarm","first_agent":{"$component_ref":"a"},"relationships":[[{"$component_ref":"a"},{"$component_ref":"r"}],[{"$component_ref":"r"},{"$component_ref":"a"}]]`),
			`warning: A2AAgent "r" is a remote agent and cannot contact other agents of the team [no-effect]`},
		"agent with an unset input": {oneNodeFlow(`{"component_type":"AgentNode","name":"n","inputs":[],"agent":{"component_type":"ManagerWorkers","name":"t","inputs":[],"group_manager":{"component_type":"Agent","name":"a","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"{{who}}"},"workers":[{"component_type":"Agent","name":"b","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x"}]}}`, ""),
			`error: an agent in ManagerWorkers "t" requires the input "who", which has no value [input-unfed]`},
		"unsupported WayFlow node":      {oneNodeFlow(`{"component_type":"PluginExtractNode","component_plugin_name":"NodesPlugin","name":"n","output_values":{"a":".b"},"inputs":[{"title":"text","type":"string","default":"x"}],"outputs":[{"title":"a"}]}`, ""), `error: PluginExtractNode "n" cannot be run yet [not-yet]`},
		"unsupported WayFlow template":  {oneNodeFlow(`{"component_type":"ExtendedLlmNode","name":"n","prompt_template":{"component_type":"PluginPromptTemplate","name":"p"},"outputs":[{"title":"a"}]}`, ""), `error: ExtendedLlmNode "n" cannot be run yet [not-yet]`},
		"unsupported summary datastore": {oneNodeFlow(agent(`,"transforms":[{"component_type":"MessageSummarizationTransform","name":"t","llm":{"$component_ref":"m"},"datastore":{"component_type":"OracleDatabaseDatastore","name":"p","datastore_schema":{},"connection_config":{"component_type":"TlsOracleDatabaseConnectionConfig","name":"c","user":{"$component_ref":"c.user"},"password":{"$component_ref":"c.password"},"dsn":{"$component_ref":"c.dsn"}}}}]`), ""), `error: MessageSummarizationTransform "t" stores summaries in OracleDatabaseDatastore "p", which is not supported yet [not-yet]`},
		"template without summary":      {oneNodeFlow(agent(`,"transforms":[{"component_type":"ConversationSummarizationTransform","name":"t","llm":{"$component_ref":"m"},"summarized_conversation_template":"x"}]`), ""), `error: summarized_conversation_template of ConversationSummarizationTransform "t" does not contain the summary [field-value]`},
		"cache size":                    {oneNodeFlow(agent(`,"transforms":[{"component_type":"ConversationSummarizationTransform","name":"t","llm":{"$component_ref":"m"},"max_cache_size":5}]`), ""), `warning: max_cache_size of ConversationSummarizationTransform "t" has no effect: summaries are stored with the run [no-effect]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res, diags := specadapter.Load("f.json", []byte(tc.doc), specadapter.Options{})
			found := 0
			for _, d := range diags {
				if strings.Contains(d.String(), tc.want) {
					found++
				} else if d.Severity == 0 {
					t.Errorf("unexpected error: %s", d)
				}
			}
			if found != 1 || (res == nil) != strings.Contains(tc.want, "error: ") {
				t.Errorf("plan %v, %v\nwant %s", res != nil, diags, tc.want)
			}
		})
	}
}

// TestStdio checks that the plan has the command line, environment and working directory of a stdio server, and that a hint says how to allow them.
func TestStdio(t *testing.T) {
	doc := oneNodeFlow(`{"component_type":"ToolNode","name":"n","tool":{"component_type":"MCPTool","name":"t","client_transport":{"component_type":"StdioTransport","name":"c","command":"x","args":["y z"],"env":{"B":"c d","A":""},"cwd":"/srv"}}}`, "")
	res, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{})
	if res == nil {
		t.Fatal(diags)
	}
	want := plan.Connection{ID: "c", Name: "c", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "x", Args: []string{"y z"},
		Env: []plan.Header{{Name: "B", Value: "c d"}, {Name: "A", Value: ""}}, Dir: "/srv"}
	if diff := cmp.Diff([]plan.Connection{want}, res.Flow.Connections); diff != "" {
		t.Error(diff)
	}
	if !slices.ContainsFunc(diags, func(d source.Diagnostic) bool {
		return strings.Contains(d.Help, `allow_commands: ["x"] and allow_env: ["B"] and allow_env: ["A"] and allow_dirs: ["/srv"]`)
	}) {
		t.Errorf("no hint on how to allow it: %v", diags)
	}
}

// TestTimeoutAt checks that a connection records where its document sets each timeout.
func TestTimeoutAt(t *testing.T) {
	doc := oneNodeFlow("{\"component_type\":\"ToolNode\",\"name\":\"n\",\"tool\":{\"component_type\":\"MCPTool\",\"name\":\"t\",\"client_transport\":{\"component_type\":\"StreamableHTTPTransport\",\"name\":\"c\",\"url\":\"https://mcp.example.com\",\n\"session_parameters\":{\n\"read_timeout_seconds\":5},\n\"retry_policy\":{\"max_attempts\":2,\n\"request_timeout\":7}}}}", "")
	res, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{})
	if res == nil {
		t.Fatal(diags)
	}
	line := 1 + strings.Count(doc[:strings.Index(doc, `"read_timeout_seconds"`)], "\n")
	c := res.Flow.Connections[0]
	if want := fmt.Sprintf("session_parameters.read_timeout_seconds (f.json:%d)", line); c.TimeoutSeconds != 5 || c.TimeoutAt != want {
		t.Errorf("the timeout of %d s is at %q, want %q", c.TimeoutSeconds, c.TimeoutAt, want)
	}
	if want := fmt.Sprintf("retry_policy.request_timeout (f.json:%d)", line+2); c.Retry.TimeoutMillis != 7000 || c.Retry.TimeoutAt != want {
		t.Errorf("the timeout of %d ms is at %q, want %q", c.Retry.TimeoutMillis, c.Retry.TimeoutAt, want)
	}
}

// TestDoublingFlows checks that subflows that double with each level are rejected.
func TestDoublingFlows(t *testing.T) {
	var more strings.Builder
	for i := range 20 {
		fmt.Fprintf(&more, `,"f%d":{"component_type":"Flow","name":"f%d","start_node":{"$component_ref":"s"},"nodes":[{"$component_ref":"s"},{"$component_ref":"a%d"},{"$component_ref":"b%d"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"a%d"}},{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"a%d"},"to_node":{"$component_ref":"b%d"}},{"component_type":"ControlFlowEdge","name":"3","from_node":{"$component_ref":"b%d"},"to_node":{"$component_ref":"e"}}]}`,
			i, i, i, i, i, i, i, i)
		for _, n := range []string{"a", "b"} {
			fmt.Fprintf(&more, `,"%s%d":{"component_type":"FlowNode","name":"%s%d","subflow":{"$component_ref":"f%d"}}`, n, i, n, i, i+1)
		}
	}
	more.WriteString(`,"f20":{"component_type":"Flow","name":"f20","start_node":{"$component_ref":"s"},"nodes":[{"$component_ref":"s"},{"$component_ref":"e"}],"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"e"}}]}`)
	res, diags := specadapter.Load("f.json", []byte(oneNodeFlow(`{"component_type":"FlowNode","name":"n","subflow":{"$component_ref":"f0"}}`, more.String())), specadapter.Options{})
	errors := 0
	for _, d := range diags {
		if d.Severity == 0 {
			errors++
		}
	}
	if res != nil || errors != 1 || !strings.Contains(fmt.Sprint(diags), "["+agentspec.CodeTooManyNodes+"]") {
		t.Errorf("%v, %v", res != nil, diags)
	}
}

// TestAllDiagnosticsAtOnce checks that unsupported components are reported together with other errors, not only once those are corrected.
func TestAllDiagnosticsAtOnce(t *testing.T) {
	agent := `{"component_type":"AgentNode","name":"n","agent":{"component_type":"Agent","name":"a","system_prompt":"A","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m","default_generation_parameters":{"temperature":9}},
"tools":[{"component_type":"BuiltinTool","name":"b","tool_type":"unheard"},{"component_type":"ServerTool","name":"s","requires_confirmation":"yes"}],
"transforms":[{"component_type":"MessageSummarizationTransform","name":"t","llm":{"$component_ref":"m"},"datastore":{"component_type":"OracleDatabaseDatastore","name":"o","datastore_schema":{},"connection_config":{"component_type":"TlsOracleDatabaseConnectionConfig","name":"c","user":{"$component_ref":"c.user"},"password":{"$component_ref":"c.password"},"dsn":{"$component_ref":"c.dsn"}}}}]}}`
	codes := func(doc string) map[string]int {
		_, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{})
		out := map[string]int{}
		for _, d := range diags {
			out[d.Code]++
		}
		return out
	}
	all := codes(oneNodeFlow(agent, ""))
	rest := codes(oneNodeFlow(strings.Replace(agent, `"yes"`, "true", 1), ""))
	if all["field-type"] != 1 {
		t.Errorf("with an invalid field: %v", all)
	}
	for code, n := range rest {
		if all[code] < n && code != "unknown-tool" {
			t.Errorf("%s is reported only after another error is corrected: %v, then %v", code, all, rest)
		}
	}
	if rest["not-yet"] != 1 || rest["field-value"] != 1 || rest["unknown-tool"] != 2 || all["unknown-tool"] != 1 {
		t.Errorf("without it: %v", rest)
	}
}
