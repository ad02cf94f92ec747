package catalog

import "slices"

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
		}},
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

// noStore says what to use instead of a datastore that nothing can use.
const noStore = "use a PostgresDatabaseDatastore; databases of Oracle are not supported yet"

var storeSchema = FieldSpec{Name: "datastore_schema", Kind: Schemas, Required: true}

// secretText is a text that must be given, as a reference to a secret.
var secretText = FieldSpec{Kind: Text, Required: true, Sensitive: true}

// oracleFields are those of a connection to Oracle Database.
var oracleFields = append(eachNamed(secretText, "user", "password", "dsn"),
	FieldSpec{Name: "config_dir", Kind: Text},
	FieldSpec{Name: "protocol", Kind: Text, Default: "tcps", Enum: []string{"tcp", "tcps"}})

// summaryFields are those of a transform that shortens messages.
func summaryFields(own ...FieldSpec) []FieldSpec {
	return append(own,
		FieldSpec{Name: "llm", Kind: One, Of: "LlmConfig", Required: true},
		FieldSpec{Name: "summarization_instructions", Kind: Text},
		FieldSpec{Name: "max_cache_size", Kind: Whole, Default: "10000"},
		FieldSpec{Name: "max_cache_lifetime", Kind: Whole, Default: "14400"},
		FieldSpec{Name: "cache_collection_name", Kind: Text},
		FieldSpec{Name: "datastore", Kind: One, Of: "Datastore"})
}

var storeTypes = []Type{
	{Name: "MessageSummarizationTransform", Is: []string{"MessageTransform"}, Since: V2612,
		Fields: summaryFields(
			FieldSpec{Name: "max_message_size", Kind: Whole, Default: "20000"},
			FieldSpec{Name: "summarized_message_template", Kind: Text, Default: "Summarized message: {{summary}}"})},
	{Name: "ConversationSummarizationTransform", Is: []string{"MessageTransform"}, Since: V2612,
		Fields: summaryFields(
			FieldSpec{Name: "max_num_messages", Kind: Whole, Default: "50"},
			FieldSpec{Name: "max_num_characters", Kind: Whole},
			FieldSpec{Name: "min_num_messages", Kind: Whole, Default: "10"},
			FieldSpec{Name: "summarized_conversation_template", Kind: Text, Default: "Summarized conversation: {{summary}}"})},
	{Name: "InMemoryCollectionDatastore", Is: []string{"Datastore"}, Since: V2612,
		Fields: []FieldSpec{storeSchema}},
	{Name: "OracleDatabaseDatastore", Is: []string{"RelationalDatastore", "Datastore"}, Since: V2612, Unsupported: noStore,
		Fields: []FieldSpec{storeSchema, {Name: "connection_config", Kind: One, Of: "OracleDatabaseConnectionConfig", Required: true}}},
	{Name: "PostgresDatabaseDatastore", Is: []string{"RelationalDatastore", "Datastore"}, Since: V2612,
		Fields: []FieldSpec{storeSchema, {Name: "connection_config", Kind: One, Of: "PostgresDatabaseConnectionConfig", Required: true}}},
	{Name: "TlsOracleDatabaseConnectionConfig", Is: []string{"OracleDatabaseConnectionConfig"}, Since: V2612, NotYet: true, Fields: oracleFields},
	{Name: "MTlsOracleDatabaseConnectionConfig", Is: []string{"OracleDatabaseConnectionConfig"}, Since: V2612, NotYet: true,
		Fields: slices.Concat(oracleFields, eachNamed(secretText, "wallet_location", "wallet_password"))},
	{Name: "TlsPostgresDatabaseConnectionConfig", Is: []string{"PostgresDatabaseConnectionConfig"}, Since: V2612,
		Fields: append(slices.Concat(eachNamed(secretText, "user", "password"), eachNamed(FieldSpec{Kind: Text}, "sslcert", "sslkey", "sslrootcert", "sslcrl")),
			FieldSpec{Name: "url", Kind: Text, Required: true},
			FieldSpec{Name: "sslmode", Kind: Text, Default: "require", Enum: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}})},
}
