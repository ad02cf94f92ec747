package catalog

import "slices"

var agentTypes = []Type{
	{Name: "Agent", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true, Doc: "A model with a system prompt and tools.",
		Fields: []FieldSpec{
			{Name: "llm_config", Kind: One, Of: "LlmConfig", Required: true, Legacy: []string{"llm", "llm_configuration", "llmconfig"}},
			{Name: "system_prompt", Kind: Text, Required: true, Template: true, Legacy: []string{"prompt_template"},
				Doc: "System prompt. {{NAME}} is replaced by an input."},
			{Name: "tools", Kind: Many, Of: "Tool", Doc: "Tools that the model may call."},
			{Name: "toolboxes", Kind: Many, Of: "ToolBox", Since: V2542, Doc: "MCP servers whose tools the model may call."},
			{Name: "human_in_the_loop", Kind: Flag, Default: "true", Since: V2542},
			{Name: "transforms", Kind: Many, Of: "MessageTransform", Since: V2612, Doc: "Transforms that shorten the conversation before a model call."},
		}},
	{Name: "SpecializedAgent", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542,
		Doc: "An agent with additional instructions and tools.",
		Fields: []FieldSpec{
			{Name: "agent", Kind: One, Of: "Agent", Required: true},
			{Name: "agent_specialization_parameters", Kind: One, Of: "AgentSpecializationParameters", Required: true, Doc: "What the specialization adds."},
		}},
	{Name: "AgentSpecializationParameters", Is: []string{"ComponentWithIO"}, IO: true, Since: V2542, Doc: "What a specialized agent adds to its base agent.",
		Fields: []FieldSpec{
			{Name: "additional_instructions", Kind: Text, Template: true, Doc: "Text appended to the agent's system prompt."},
			{Name: "additional_tools", Kind: Many, Of: "Tool", Doc: "Tools in addition to the agent's."},
			{Name: "human_in_the_loop", Kind: Flag},
		}},
	{Name: "Swarm", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542, Doc: "Agents that hand the conversation over to each other.",
		Fields: []FieldSpec{
			{Name: "first_agent", Kind: One, Of: "AgenticComponent", Required: true, Doc: "The agent that starts."},
			{Name: "relationships", Kind: Pairs, Of: "AgenticComponent", Required: true, Doc: "Pairs of agents: the first may hand over to the second."},
			{Name: "handoff", Kind: FlagOrText, Default: "optional", Enum: []string{"never", "optional", "always"},
				Doc: "Whether an agent hands the conversation over: never, optional or always."},
		}},
	{Name: "ManagerWorkers", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542, Doc: "A manager that delegates tasks to workers.",
		Fields: []FieldSpec{
			{Name: "group_manager", Kind: One, Of: "AgenticComponent", Required: true, Doc: "The agent that delegates tasks."},
			{Name: "workers", Kind: Many, Of: "AgenticComponent", Required: true, Doc: "The agents that tasks are delegated to."},
		}},
	{Name: "Flow", Is: []string{"AgenticComponent", "ComponentWithIO"}, IO: true,
		Doc: "Nodes, and the edges between them. It runs from its StartNode to an EndNode.",
		Fields: []FieldSpec{
			{Name: "start_node", Kind: One, Of: "Node", Required: true, Doc: "The StartNode."},
			{Name: "nodes", Kind: Many, Of: "Node", Required: true, Doc: "All nodes, including the StartNode."},
			{Name: "control_flow_connections", Kind: Many, Of: "ControlFlowEdge", Required: true, Doc: "The order of the nodes."},
			{Name: "data_flow_connections", Kind: Many, Of: "DataFlowEdge", Doc: "Edges that pass outputs to inputs. Default: by equal titles."},
		}},
	{Name: "OciAgent", Is: []string{"RemoteAgent", "AgenticComponent", "ComponentWithIO"}, IO: true, Doc: "An agent of OCI's Generative AI Agents.",
		Fields: []FieldSpec{
			{Name: "agent_endpoint_id", Kind: Text, Required: true, Doc: "OCID of the agent's endpoint."},
			{Name: "client_config", Kind: One, Of: "OciClientConfig", Required: true},
			retryPolicy,
		}},
	{Name: "OpenAiAgent", Is: []string{"RemoteAgent", "AgenticComponent", "ComponentWithIO"}, IO: true, Doc: "An agent of OpenAI's Responses API.",
		Fields: []FieldSpec{
			{Name: "llm_config", Kind: One, Of: "OpenAiConfig", Required: true},
			{Name: "remote_agent_id", Kind: Text, Doc: "Id of the agent."},
		}},
	{Name: "A2AAgent", Is: []string{"RemoteAgent", "AgenticComponent", "ComponentWithIO"}, IO: true, Since: V2542,
		Doc: "An agent on another server, reached by the A2A protocol.",
		Fields: []FieldSpec{
			{Name: "agent_url", Kind: Text, Required: true, Doc: "URL of the agent."},
			{Name: "connection_config", Kind: One, Of: "A2AConnectionConfig", Required: true},
			{Name: "session_parameters", Kind: Plain, Fields: []FieldSpec{
				{Name: "timeout", Kind: Number, Default: "60"},
				{Name: "poll_interval", Kind: Number, Default: "2", Doc: "Seconds between polls of a task."},
				{Name: "max_retries", Kind: Whole, Default: "5", Doc: "Maximum number of attempts to poll a task."},
			}},
		}},
	{Name: "A2AConnectionConfig", Since: V2542, Doc: "How an A2A agent is reached.",
		Fields: []FieldSpec{
			{Name: "timeout", Kind: Number, Default: "600"},
			{Name: "headers", Kind: TextMap},
			{Name: "verify", Kind: Flag, Default: "true", Doc: "Whether the server's certificate is verified."},
			{Name: "key_file", Kind: Text},
			{Name: "cert_file", Kind: Text},
			{Name: "ssl_ca_cert", Kind: Text, Doc: "File with the CA certificates to verify the server."},
			retryPolicy,
		}},
}

// noStore is the remedy for an unsupported datastore.
const noStore = "use a PostgresDatabaseDatastore; databases of Oracle are not supported yet"

var storeSchema = FieldSpec{Name: "datastore_schema", Kind: Schemas, Required: true, Doc: "Collections of the datastore, by name."}

// secretText is a required reference to a secret.
var secretText = FieldSpec{Kind: Text, Required: true, Sensitive: true}

var oracleFields = append(eachNamed(secretText, "user", "password", "dsn"),
	FieldSpec{Name: "config_dir", Kind: Text, Doc: "Folder with the database client's settings."},
	FieldSpec{Name: "protocol", Kind: Text, Default: "tcps", Enum: []string{"tcp", "tcps"}, Doc: "Protocol of the connection."})

// summaryFields returns the fields of a transform that summarizes messages.
func summaryFields(own ...FieldSpec) []FieldSpec {
	return append(own,
		FieldSpec{Name: "llm", Kind: One, Of: "LlmConfig", Required: true, Doc: "The model that writes the summary."},
		FieldSpec{Name: "summarization_instructions", Kind: Text, Doc: "Instructions for the model that writes the summary."},
		FieldSpec{Name: "max_cache_size", Kind: Whole, Default: "10000", Doc: "Maximum size of the cache. It has no effect: summaries are in history."},
		FieldSpec{Name: "max_cache_lifetime", Kind: Whole, Default: "14400",
			Doc: "Lifetime of a cached summary, in seconds. It has no effect: summaries are in history."},
		FieldSpec{Name: "cache_collection_name", Kind: Text, Doc: "Collection of the summaries. It has no effect: summaries are in history."},
		FieldSpec{Name: "datastore", Kind: One, Of: "Datastore"})
}

var storeTypes = []Type{
	{Name: "MessageSummarizationTransform", Is: []string{"MessageTransform"}, Since: V2612, Doc: "Shortens long messages by a summary.",
		Fields: summaryFields(
			FieldSpec{Name: "max_message_size", Kind: Whole, Default: "20000", Doc: "Length above which a message is shortened, in characters."},
			FieldSpec{Name: "summarized_message_template", Kind: Text, Default: "Summarized message: {{summary}}",
				Doc: "Text that replaces the message, with {{summary}}."})},
	{Name: "ConversationSummarizationTransform", Is: []string{"MessageTransform"}, Since: V2612,
		Doc: "Shortens a long conversation by a summary of its older messages.",
		Fields: summaryFields(
			FieldSpec{Name: "max_num_messages", Kind: Whole, Default: "50", Doc: "Length above which the conversation is shortened, in messages."},
			FieldSpec{Name: "max_num_characters", Kind: Whole, Doc: "Length above which the conversation is shortened, in characters."},
			FieldSpec{Name: "min_num_messages", Kind: Whole, Default: "10", Doc: "Number of latest messages that are kept."},
			FieldSpec{Name: "summarized_conversation_template", Kind: Text, Default: "Summarized conversation: {{summary}}",
				Doc: "Text that replaces the messages, with {{summary}}."})},
	{Name: "InMemoryCollectionDatastore", Is: []string{"Datastore"}, Since: V2612, Doc: "An in-memory datastore.",
		Fields: []FieldSpec{storeSchema}},
	{Name: "OracleDatabaseDatastore", Is: []string{"RelationalDatastore", "Datastore"}, Since: V2612, Unsupported: noStore,
		Doc:    "A datastore in Oracle Database.",
		Fields: []FieldSpec{storeSchema, {Name: "connection_config", Kind: One, Of: "OracleDatabaseConnectionConfig", Required: true}}},
	{Name: "PostgresDatabaseDatastore", Is: []string{"RelationalDatastore", "Datastore"}, Since: V2612, Doc: "A datastore in PostgreSQL.",
		Fields: []FieldSpec{storeSchema, {Name: "connection_config", Kind: One, Of: "PostgresDatabaseConnectionConfig", Required: true}}},
	{Name: "TlsOracleDatabaseConnectionConfig", Is: []string{"OracleDatabaseConnectionConfig"}, Since: V2612, NotYet: true,
		Doc: "A connection to Oracle Database over TLS.", Fields: oracleFields},
	{Name: "MTlsOracleDatabaseConnectionConfig", Is: []string{"OracleDatabaseConnectionConfig"}, Since: V2612, NotYet: true,
		Doc:    "A connection to Oracle Database with a wallet.",
		Fields: slices.Concat(oracleFields, eachNamed(secretText, "wallet_location", "wallet_password"))},
	{Name: "TlsPostgresDatabaseConnectionConfig", Is: []string{"PostgresDatabaseConnectionConfig"}, Since: V2612, Doc: "A connection to PostgreSQL over TLS.",
		Fields: append(slices.Concat(eachNamed(secretText, "user", "password"), eachNamed(FieldSpec{Kind: Text}, "sslcert", "sslkey", "sslrootcert", "sslcrl")),
			FieldSpec{Name: "url", Kind: Text, Required: true},
			FieldSpec{Name: "sslmode", Kind: Text, Default: "require", Enum: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"},
				Doc: "Whether TLS is used, and how the server is verified."})},
}
