package catalog

import "slices"

// The fields of WayFlow's nodes by which its names for inputs and outputs become the node's.
const (
	InputMapping  = "input_mapping"
	OutputMapping = "output_mapping"
)

// extended are the fields of one of WayFlow's nodes.
func extended(fields ...FieldSpec) []FieldSpec {
	return append(eachNamed(FieldSpec{Kind: TextMap}, InputMapping, OutputMapping), fields...)
}

// pluginNode is a node that extends none of the language's.
func pluginNode(name string, fields ...FieldSpec) Type {
	return Type{Name: name, Is: isNode, IO: true, Fields: extended(fields...)}
}

// flowOf is the subflow of one of WayFlow's nodes.
var flowOf = FieldSpec{Name: "subflow", Kind: One, Of: "Flow", Required: true, Also: []string{"flow"}}

// transport extends one of the language's transports.
func transport(name, like string, fields ...FieldSpec) Type {
	return Type{Name: name, Like: like, Fields: slices.Concat(eachNamed(FieldSpec{Kind: Number}, "timeout", "sse_read_timeout"), fields)}
}

// WayFlow are components of WayFlow's plugins that its exports hold. Those that extend a type of the language run as it does.
var WayFlow = []Type{
	{Name: "PluginOutputMessageNode", Like: "OutputMessageNode", Fields: extended(
		FieldSpec{Name: "message", Kind: Text, Required: true, Template: true, Also: []string{"message_template"}},
		FieldSpec{Name: "message_type", Kind: Text},
		FieldSpec{Name: "rephrase", Kind: Flag, Default: "false"},
		FieldSpec{Name: "llm_config", Kind: One, Of: "LlmConfig"},
		FieldSpec{Name: "expose_message_as_output", Kind: Flag, Default: "true"})},
	{Name: "PluginInputMessageNode", Like: "InputMessageNode", Fields: extended(
		FieldSpec{Name: "message", Kind: Text, Template: true, Also: []string{"message_template"}},
		FieldSpec{Name: "rephrase", Kind: Flag, Default: "false"},
		FieldSpec{Name: "llm_config", Kind: One, Of: "LlmConfig"})},
	{Name: "ExtendedToolNode", Like: "ToolNode", Fields: extended(FieldSpec{Name: "raise_exceptions", Kind: Flag, Default: "false"})},
	{Name: "ExtendedAgent", Like: "Agent", Open: true, Fields: []FieldSpec{
		{Name: "max_iterations", Kind: Whole},
		{Name: "agents", Kind: Many, Of: "AgenticComponent"},
		{Name: "flows", Kind: Many, Of: "Flow"},
		{Name: "initial_message", Kind: Text},
		{Name: "can_finish_conversation", Kind: Flag, Default: "false"},
	}},
	{Name: "ExtendedFlow", Like: "Flow", Fields: []FieldSpec{{Name: "state", Kind: Any}, {Name: "context_providers", Kind: Any}}},
	pluginNode("PluginRegexNode", FieldSpec{Name: "regex_pattern", Kind: Any, Required: true},
		FieldSpec{Name: "return_first_match_only", Kind: Flag, Default: "true"}),
	pluginNode("PluginTemplateNode", FieldSpec{Name: "template", Kind: Text, Required: true, Template: true}),
	pluginNode("PluginReadVariableNode", FieldSpec{Name: "variable", Kind: Object, Required: true}),
	pluginNode("PluginWriteVariableNode", FieldSpec{Name: "variable", Kind: Object, Required: true},
		FieldSpec{Name: "operation", Kind: Text, Default: "overwrite", Enum: writes}),
	pluginNode("PluginVariableNode", FieldSpec{Name: "read_variables", Kind: Any}, FieldSpec{Name: "write_variables", Kind: Any},
		FieldSpec{Name: "write_operations", Kind: Any}),
	pluginNode("PluginCatchExceptionNode", flowOf, FieldSpec{Name: "except_on", Kind: TextMap},
		FieldSpec{Name: "catch_all_exceptions", Kind: Flag, Default: "false"}),
	pluginNode("ExtendedMapNode", flowOf, FieldSpec{Name: "unpack_input", Kind: TextMap},
		FieldSpec{Name: "parallel_execution", Kind: Flag, Default: "false"}, FieldSpec{Name: "max_workers", Kind: Whole}),
	storeNode("PluginDatastoreListNode", "Datastore", collectionName, whereField, FieldSpec{Name: "limit", Kind: Whole},
		FieldSpec{Name: "unpack_single_entity_from_list", Kind: Flag, Default: "false"}, named("ENTITIES", "entities")),
	storeNode("PluginDatastoreCreateNode", "Datastore", collectionName, named("ENTITY", "entity"), named("CREATED_ENTITY", "created_entity")),
	storeNode("PluginDatastoreUpdateNode", "Datastore", collectionName, whereField, named("ENTITIES", "entities"), named("UPDATE", "update")),
	storeNode("PluginDatastoreDeleteNode", "Datastore", collectionName, whereField),
	storeNode("PluginDatastoreQueryNode", "RelationalDatastore", FieldSpec{Name: "query", Kind: Text, Required: true}, named("RESULT", "result")),
	{Name: "PluginInMemoryDatastore", Like: "InMemoryCollectionDatastore"},
	{Name: "PluginPostgresDatabaseDatastore", Like: "PostgresDatabaseDatastore"},
	{Name: "PluginTlsPostgresDatabaseConnectionConfig", Like: "TlsPostgresDatabaseConnectionConfig",
		Fields: eachNamed(FieldSpec{Kind: Text, Sensitive: true}, "url", "sslcert", "sslkey", "sslrootcert", "sslcrl")},
	{Name: "PluginOracleDatabaseDatastore", Like: "OracleDatabaseDatastore", Unsupported: noStore},
	{Name: "PluginTlsOracleDatabaseConnectionConfig", Like: "TlsOracleDatabaseConnectionConfig"},
	{Name: "PluginMTlsOracleDatabaseConnectionConfig", Like: "MTlsOracleDatabaseConnectionConfig"},
	{Name: "PluginMCPTool", Like: "MCPTool"},
	{Name: "PluginMCPToolSpec", Like: "MCPToolSpec"},
	{Name: "PluginMCPToolBox", Like: "MCPToolBox"},
	{Name: "PluginStdioTransport", Like: "StdioTransport", Fields: eachNamed(FieldSpec{Kind: Text}, "encoding", "encoding_error_handler")},
	transport("PluginSSETransport", "SSETransport"),
	transport("PluginStreamableHTTPTransport", "StreamableHTTPTransport"),
	transport("PluginSSEmTLSTransport", "SSEmTLSTransport", caFile),
	transport("PluginStreamableHTTPmTLSTransport", "StreamableHTTPmTLSTransport", caFile),
	{Name: "PluginExtractNode", Is: isNode, IO: true, Open: true, NotYet: true},
	{Name: "ExtendedLlmNode", Is: isNode, IO: true, Open: true, NotYet: true},
	// What an ExtendedAgent's template consists of: Weft writes prompts by itself.
	{Name: "PluginPromptTemplate", Open: true, NotYet: true},
	{Name: "PluginRemoveEmptyNonUserMessageTransform", Open: true, NotYet: true},
	{Name: "PluginCoalesceSystemMessagesTransform", Open: true, NotYet: true},
	{Name: "PluginLlamaMergeToolRequestAndCallsTransform", Open: true, NotYet: true},
	{Name: "PluginJsonToolOutputParser", Open: true, NotYet: true},
}

// storeNode is a node that works on a datastore.
func storeNode(name, of string, fields ...FieldSpec) Type {
	return pluginNode(name, append(fields, FieldSpec{Name: "datastore", Kind: One, Of: of, Required: true})...)
}

// named is a field that holds the name of an input or an output, which is always the same.
func named(field, name string) FieldSpec {
	return FieldSpec{Name: field, Kind: Text, Default: name, Enum: []string{name}}
}

var (
	collectionName = FieldSpec{Name: "collection_name", Kind: Text, Required: true, Template: true}
	whereField     = FieldSpec{Name: "where", Kind: Object, Template: true}
)

// caFile is the field of that name, with its name in WayFlow.
var caFile = FieldSpec{Name: "ca_file", Kind: Text, Required: true, Sensitive: true, Also: []string{"ssl_ca_cert"}}

// writes are what a node can do with a variable: give it a value, add to a list or object, add one element to a list.
var writes = []string{"overwrite", "merge", "insert"}

// Acts is the type whose part a component plays in a run: its own, or the one that it extends.
func (t *Type) Acts() string {
	if t.Like != "" {
		return t.Like
	}
	return t.Name
}
