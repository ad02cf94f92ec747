package catalog

// isNode are the types that every node also is.
var isNode = []string{"Node", "ComponentWithIO"}

// Descriptions of messages.
const (
	askDoc = "The question. {{NAME}} is replaced by an input."
	sayDoc = "The message. {{NAME}} is replaced by an input."
)

var nodeTypes = []Type{
	{Name: "StartNode", Is: isNode, IO: true, Doc: "The start of a flow. Its inputs are the flow's inputs."},
	{Name: "EndNode", Is: isNode, IO: true, Doc: "An end of a flow. Its inputs are the flow's outputs.",
		Fields: []FieldSpec{{Name: "branch_name", Kind: Text, Default: NextBranch, Doc: "Branch that a node running this flow takes at this end."}}},
	{Name: "LlmNode", Is: isNode, IO: true, Doc: "A step that makes one model call with a prompt.",
		Fields: []FieldSpec{
			{Name: "llm_config", Kind: One, Of: "LlmConfig", Required: true, Legacy: []string{"llm", "llm_configuration", "llmconfig"}},
			{Name: "prompt_template", Kind: Text, Required: true, Template: true, Doc: "The prompt. {{NAME}} is replaced by an input."},
		}},
	{Name: "ToolNode", Is: isNode, IO: true, Doc: "A step that calls a tool.",
		Fields: []FieldSpec{{Name: "tool", Kind: One, Of: "Tool", Required: true, Doc: "The tool."}}},
	{Name: "ApiNode", Is: isNode, IO: true, Fields: httpFields, Doc: "A step that makes an HTTP request."},
	{Name: "AgentNode", Is: isNode, IO: true, Doc: "A step that runs an agent.",
		Fields: []FieldSpec{{Name: "agent", Kind: One, Of: "AgenticComponent", Required: true}}},
	{Name: "FlowNode", Is: isNode, IO: true, Doc: "A step that runs a flow.",
		Fields: []FieldSpec{{Name: "subflow", Kind: One, Of: "Flow", Required: true}}},
	{Name: "MapNode", Is: isNode, IO: true, Fields: mapFields, Doc: "A step that runs a flow for each element of a list, in sequence."},
	{Name: "ParallelMapNode", Is: isNode, IO: true, Since: V2542, Fields: mapFields, Doc: "A step that runs a flow for each element of a list, in parallel."},
	{Name: "ParallelFlowNode", Is: isNode, IO: true, Since: V2542, Doc: "A step that runs several flows in parallel.",
		Fields: []FieldSpec{{Name: "subflows", Kind: Many, Of: "Flow", Doc: "The flows."}}},
	{Name: "CatchExceptionNode", Is: isNode, IO: true, Since: V2612, Doc: "A step that runs a flow, and takes the branch caught_exception_branch if it fails.",
		Fields: []FieldSpec{{Name: "subflow", Kind: One, Of: "Flow", Required: true}}},
	{Name: "BranchingNode", Is: isNode, IO: true, Doc: "A step that takes the branch that its input is mapped to.",
		Fields: []FieldSpec{{Name: "mapping", Kind: TextMap, Required: true, Doc: "Branch by value of the input. Other values take the branch default."}}},
	{Name: "InputMessageNode", Is: isNode, IO: true, Doc: "A step that asks a person and waits for the answer.",
		Fields: []FieldSpec{{Name: "message", Kind: Text, Template: true, Doc: askDoc}}},
	{Name: "OutputMessageNode", Is: isNode, IO: true, Doc: "A step that sends a message to the caller.",
		Fields: []FieldSpec{{Name: "message", Kind: Text, Required: true, Template: true, Doc: sayDoc}}},
}

var edgeTypes = []Type{
	{Name: "ControlFlowEdge", Doc: "An edge from a branch of a node to the next node.", Fields: []FieldSpec{
		{Name: "from_node", Kind: One, Of: "Node", Required: true, Doc: "Source node."},
		{Name: "from_branch", Kind: Text, Default: NextBranch, Doc: "Branch of the source node; null means next."},
		{Name: "to_node", Kind: One, Of: "Node", Required: true, Doc: "Target node."},
	}},
	{Name: "DataFlowEdge", Doc: "Passes an output of a node to an input of another node.", Fields: []FieldSpec{
		{Name: "source_node", Kind: One, Of: "Node", Required: true, Doc: "Source node."},
		{Name: "source_output", Kind: Text, Required: true, Doc: "Title of the output."},
		{Name: "destination_node", Kind: One, Of: "Node", Required: true, Doc: "Target node."},
		{Name: "destination_input", Kind: Text, Required: true, Doc: "Title of the input."},
	}},
}

var mapFields = []FieldSpec{
	{Name: "subflow", Kind: One, Of: "Flow", Required: true},
	{Name: "reducers", Kind: TextMap, Doc: "How each output's values are combined: append, sum, average, max or min."},
}

var httpFields = []FieldSpec{
	{Name: "url", Kind: Text, Required: true, Template: true, Doc: "URL of the request. {{NAME}} is replaced by an input."},
	{Name: "http_method", Kind: Text, Required: true, Template: true, Doc: "Method of the request, such as GET."},
	{Name: "api_spec_uri", Kind: Text, Template: true, Doc: "Address of the API's description. It has no effect on a run."},
	{Name: "data", Kind: Any, Template: true, Doc: "Body of the request: JSON, or a string that is sent unchanged."},
	{Name: "query_params", Kind: Object, Template: true, Doc: "Query parameters."},
	{Name: "headers", Kind: Object, Template: true},
	{Name: "sensitive_headers", Kind: Object, Sensitive: true, Since: V2542},
	{Name: "url_allow_list", Kind: Texts, Since: V2612, Doc: "Allowed URL prefixes of the request."},
	retryPolicy,
}

// retryPolicy is the field that describes how failed calls are retried.
var retryPolicy = FieldSpec{Name: "retry_policy", Kind: Plain, Since: V2612, Doc: "How failed calls are retried.", Fields: []FieldSpec{
	{Name: "max_attempts", Kind: Whole, Default: "2", Doc: "Maximum number of retries."},
	{Name: "request_timeout", Kind: Number, Doc: "Timeout of an attempt, in seconds."},
	{Name: "initial_retry_delay", Kind: Number, Default: "1", Doc: "Delay before the first retry, in seconds."},
	{Name: "max_retry_delay", Kind: Number, Default: "8", Doc: "Maximum delay before a retry, in seconds."},
	{Name: "backoff_factor", Kind: Number, Default: "2", Doc: "Factor by which delays grow."},
	{Name: "jitter", Kind: Text, Default: "full_and_equal_for_throttle", Enum: []string{"equal", "full", "full_and_equal_for_throttle", "decorrelated"},
		Doc: "Random variation of delays."},
	{Name: "service_error_retry_on_any_5xx", Kind: Flag, Default: "true", Doc: "Whether all 5xx statuses are retried."},
	{Name: "recoverable_statuses", Kind: Object, Doc: "Additional statuses that are retried, with error codes of their responses."},
}}
