package catalog

// isNode are the types that every node can stand for.
var isNode = []string{"Node", "ComponentWithIO"}

var nodeTypes = []Type{
	{Name: "StartNode", Is: isNode, IO: true},
	{Name: "EndNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "branch_name", Kind: Text, Default: NextBranch}}},
	{Name: "LlmNode", Is: isNode, IO: true,
		Fields: []FieldSpec{
			{Name: "llm_config", Kind: One, Of: "LlmConfig", Required: true, Legacy: []string{"llm", "llm_configuration", "llmconfig"}},
			{Name: "prompt_template", Kind: Text, Required: true, Template: true},
		}},
	{Name: "ToolNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "tool", Kind: One, Of: "Tool", Required: true}}},
	{Name: "ApiNode", Is: isNode, IO: true, Fields: httpFields},
	{Name: "AgentNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "agent", Kind: One, Of: "AgenticComponent", Required: true}}},
	{Name: "FlowNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "subflow", Kind: One, Of: "Flow", Required: true}}},
	{Name: "MapNode", Is: isNode, IO: true, Fields: mapFields},
	{Name: "ParallelMapNode", Is: isNode, IO: true, Since: V2542, Fields: mapFields},
	{Name: "ParallelFlowNode", Is: isNode, IO: true, Since: V2542,
		Fields: []FieldSpec{{Name: "subflows", Kind: Many, Of: "Flow"}}},
	{Name: "CatchExceptionNode", Is: isNode, IO: true, Since: V2612,
		Fields: []FieldSpec{{Name: "subflow", Kind: One, Of: "Flow", Required: true}}},
	{Name: "BranchingNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "mapping", Kind: TextMap, Required: true}}},
	{Name: "InputMessageNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "message", Kind: Text, Template: true}}},
	{Name: "OutputMessageNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "message", Kind: Text, Required: true, Template: true}}},
}

var edgeTypes = []Type{
	{Name: "ControlFlowEdge", Fields: []FieldSpec{
		{Name: "from_node", Kind: One, Of: "Node", Required: true},
		{Name: "from_branch", Kind: Text, Default: NextBranch},
		{Name: "to_node", Kind: One, Of: "Node", Required: true},
	}},
	{Name: "DataFlowEdge", Fields: []FieldSpec{
		{Name: "source_node", Kind: One, Of: "Node", Required: true},
		{Name: "source_output", Kind: Text, Required: true},
		{Name: "destination_node", Kind: One, Of: "Node", Required: true},
		{Name: "destination_input", Kind: Text, Required: true},
	}},
}

var mapFields = []FieldSpec{
	{Name: "subflow", Kind: One, Of: "Flow", Required: true},
	{Name: "reducers", Kind: TextMap},
}

var httpFields = []FieldSpec{
	{Name: "url", Kind: Text, Required: true, Template: true},
	{Name: "http_method", Kind: Text, Required: true, Template: true},
	{Name: "api_spec_uri", Kind: Text, Template: true},
	{Name: "data", Kind: Any, Template: true},
	{Name: "query_params", Kind: Object, Template: true},
	{Name: "headers", Kind: Object, Template: true},
	{Name: "sensitive_headers", Kind: Object, Sensitive: true, Since: V2542},
	{Name: "url_allow_list", Kind: Texts, Since: V2612},
	retryPolicy,
}

// retryPolicy says how a failed call is repeated.
var retryPolicy = FieldSpec{Name: "retry_policy", Kind: Plain, Since: V2612, Fields: []FieldSpec{
	{Name: "max_attempts", Kind: Whole, Default: "2"},
	{Name: "request_timeout", Kind: Number},
	{Name: "initial_retry_delay", Kind: Number, Default: "1"},
	{Name: "max_retry_delay", Kind: Number, Default: "8"},
	{Name: "backoff_factor", Kind: Number, Default: "2"},
	{Name: "jitter", Kind: Text, Default: "full_and_equal_for_throttle", Enum: []string{"equal", "full", "full_and_equal_for_throttle", "decorrelated"}},
	{Name: "service_error_retry_on_any_5xx", Kind: Flag, Default: "true"},
	{Name: "recoverable_statuses", Kind: Object},
}}
