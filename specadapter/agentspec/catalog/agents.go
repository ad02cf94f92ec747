package catalog

// agentTypes are the components that a run can be of.
var agentTypes = []Type{
	{Name: "Agent", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true,
		Fields: []FieldSpec{
			{Name: "llm_config", Kind: One, Of: "LlmConfig", Required: true, Legacy: []string{"llm", "llm_configuration", "llmconfig"}},
			{Name: "system_prompt", Kind: Text, Required: true, Template: true, Legacy: []string{"prompt_template"}},
			{Name: "tools", Kind: Many, Of: "Tool"},
			{Name: "toolboxes", Kind: Many, Of: "ToolBox", Since: V2542},
			{Name: "human_in_the_loop", Kind: Flag, Default: "true", Since: V2542},
			{Name: "transforms", Kind: Many, Of: "MessageTransform", Since: V2612},
		}},
	{Name: "SpecializedAgent", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542,
		Fields: []FieldSpec{
			{Name: "agent", Kind: One, Of: "Agent", Required: true},
			{Name: "agent_specialization_parameters", Kind: One, Of: "AgentSpecializationParameters", Required: true},
		}},
	{Name: "AgentSpecializationParameters", Is: []string{"ComponentWithIO"}, IO: true, Since: V2542,
		Fields: []FieldSpec{
			{Name: "additional_instructions", Kind: Text, Template: true},
			{Name: "additional_tools", Kind: Many, Of: "Tool"},
			{Name: "human_in_the_loop", Kind: Flag},
		}},
	{Name: "Swarm", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542,
		Fields: []FieldSpec{
			{Name: "first_agent", Kind: One, Of: "AgenticComponent", Required: true},
			{Name: "relationships", Kind: Pairs, Of: "AgenticComponent", Required: true},
			{Name: "handoff", Kind: FlagOrText, Default: "optional", Enum: []string{"never", "optional", "always"}},
		}},
	{Name: "ManagerWorkers", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542,
		Fields: []FieldSpec{
			{Name: "group_manager", Kind: One, Of: "AgenticComponent", Required: true},
			{Name: "workers", Kind: Many, Of: "AgenticComponent", Required: true},
		}},
	{Name: "Flow", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true,
		Fields: []FieldSpec{
			{Name: "start_node", Kind: One, Of: "Node", Required: true},
			{Name: "nodes", Kind: Many, Of: "Node", Required: true},
			{Name: "control_flow_connections", Kind: Many, Of: "ControlFlowEdge", Required: true},
			{Name: "data_flow_connections", Kind: Many, Of: "DataFlowEdge"},
		}},
	{Name: "OciAgent", Is: []string{"RemoteAgent", "AgenticComponent", "ComponentWithIO"}, IO: true,
		Fields: []FieldSpec{
			{Name: "agent_endpoint_id", Kind: Text, Required: true},
			{Name: "client_config", Kind: One, Of: "OciClientConfig", Required: true},
			retryPolicy,
		}},
	{Name: "OpenAiAgent", Is: []string{"RemoteAgent", "AgenticComponent", "ComponentWithIO"}, IO: true,
		Fields: []FieldSpec{
			{Name: "llm_config", Kind: One, Of: "OpenAiConfig", Required: true},
			{Name: "remote_agent_id", Kind: Text},
		},
		Unsupported: "no version of the specification says what service remote_agent_id belongs to, or how it is asked; use an Agent with an OpenAiConfig, or an A2AAgent"},
	{Name: "A2AAgent", Is: []string{"RemoteAgent", "AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542,
		Fields: []FieldSpec{
			{Name: "agent_url", Kind: Text, Required: true},
			{Name: "connection_config", Kind: One, Of: "A2AConnectionConfig", Required: true},
			{Name: "session_parameters", Kind: Plain, Fields: []FieldSpec{
				{Name: "timeout", Kind: Number, Default: "60"},
				{Name: "poll_interval", Kind: Number, Default: "2"},
				{Name: "max_retries", Kind: Whole, Default: "5"},
			}},
		}},
	{Name: "A2AConnectionConfig", Since: V2542,
		Fields: []FieldSpec{
			{Name: "timeout", Kind: Number, Default: "600"},
			{Name: "headers", Kind: TextMap},
			{Name: "verify", Kind: Flag, Default: "true"},
			{Name: "key_file", Kind: Text},
			{Name: "cert_file", Kind: Text},
			{Name: "ssl_ca_cert", Kind: Text},
			retryPolicy,
		}},
}
