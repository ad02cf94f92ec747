package agentspec

// isNode are the types that every node can stand for.
var isNode = []string{"Node", "ComponentWithIO"}

// nodeTypes are the steps of a flow.
var nodeTypes = []Type{
	{Name: "StartNode", Is: isNode, IO: true,
		rules: rules{infer: inferStart, check: checkStart}},
	{Name: "EndNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "branch_name", Kind: Text, Default: nextBranch}},
		rules:  rules{infer: inferEnd, branches: noBranches, check: checkEnd}},
	{Name: "LlmNode", Is: isNode, IO: true,
		Fields: []FieldSpec{
			{Name: "llm_config", Kind: One, Of: "LlmConfig", Required: true, Legacy: []string{"llm", "llm_configuration", "llmconfig"}},
			{Name: "prompt_template", Kind: Text, Required: true, Template: true},
		},
		rules: rules{infer: inferLLM, since: sinceLLM}},
	{Name: "ToolNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "tool", Kind: One, Of: "Tool", Required: true}},
		rules:  rules{infer: inferInner("tool"), yields: yieldsInner("tool")}},
	{Name: "ApiNode", Is: isNode, IO: true, Fields: httpFields,
		rules: rules{infer: inferAPI, check: checkHTTP}},
	{Name: "AgentNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "agent", Kind: One, Of: "AgenticComponent", Required: true}},
		rules:  rules{infer: inferInner("agent"), yields: yieldsInner("agent")}},
	{Name: "FlowNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "subflow", Kind: One, Of: "Flow", Required: true}},
		rules:  rules{infer: inferInner("subflow"), branches: subflowBranches, yields: yieldsInner("subflow")}},
	{Name: "MapNode", Is: isNode, IO: true, Fields: mapFields,
		rules: rules{infer: inferMap, check: checkMap, yields: yieldsInner("subflow")}},
	{Name: "ParallelMapNode", Is: isNode, IO: true, Since: V2542, Fields: mapFields,
		rules: rules{infer: inferMap, check: checkParallelMap, yields: yieldsInner("subflow")}},
	{Name: "ParallelFlowNode", Is: isNode, IO: true, Since: V2542,
		Fields: []FieldSpec{{Name: "subflows", Kind: Many, Of: "Flow"}},
		rules:  rules{infer: inferParallel, check: checkParallel, yields: yieldsInner("subflows")}},
	{Name: "CatchExceptionNode", Is: isNode, IO: true, Since: V2612,
		Fields: []FieldSpec{{Name: "subflow", Kind: One, Of: "Flow", Required: true}},
		rules:  rules{infer: inferCatch, branches: catchBranches, check: checkCatch, yields: yieldsInner("subflow")}},
	{Name: "BranchingNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "mapping", Kind: TextMap, Required: true}},
		rules:  rules{infer: inferBranching, branches: mappedBranches, check: checkBranching}},
	{Name: "InputMessageNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "message", Kind: Text, Template: true}},
		rules:  rules{infer: inferInputMessage, check: checkInputMessage, yields: yieldsAlways}},
	{Name: "OutputMessageNode", Is: isNode, IO: true,
		Fields: []FieldSpec{{Name: "message", Kind: Text, Required: true, Template: true}},
		rules:  rules{infer: inferOutputMessage}},
}

// edgeTypes connect nodes.
var edgeTypes = []Type{
	{Name: "ControlFlowEdge", Fields: []FieldSpec{
		{Name: "from_node", Kind: One, Of: "Node", Required: true},
		{Name: "from_branch", Kind: Text, Default: nextBranch},
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

// httpFields are those of a request over HTTP.
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
