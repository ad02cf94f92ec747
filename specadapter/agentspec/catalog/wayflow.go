package catalog

import "slices"

// The fields of WayFlow's nodes that map the names of a step's inputs and outputs to the node's.
const (
	InputMapping  = "input_mapping"
	OutputMapping = "output_mapping"
)

// extended returns the fields of a WayFlow node.
func extended(fields ...FieldSpec) []FieldSpec {
	return append([]FieldSpec{{Name: InputMapping, Kind: TextMap, Doc: "Names of the step's inputs, by the node's own."},
		{Name: OutputMapping, Kind: TextMap, Doc: "Names of the step's outputs, by the node's own."}}, fields...)
}

// pluginNode returns the type of a node that does not extend a type of the language.
func pluginNode(name, doc string, fields ...FieldSpec) Type {
	return Type{Name: name, Is: isNode, IO: true, Doc: doc, Fields: extended(fields...)}
}

// flowOf is the subflow of a WayFlow node.
var flowOf = FieldSpec{Name: "subflow", Kind: One, Of: "Flow", Required: true, Also: []string{"flow"}}

func transport(name, like string, fields ...FieldSpec) Type {
	return Type{Name: name, Like: like, Fields: slices.Concat(eachNamed(FieldSpec{Kind: Number}, "timeout", "sse_read_timeout"), fields)}
}

// WayFlow are the types of WayFlow's plugins that appear in its exports. Those that extend a type of the language run like it.
var WayFlow = []Type{
	{Name: "PluginOutputMessageNode", Like: "OutputMessageNode", Fields: extended(
		FieldSpec{Name: "message", Kind: Text, Required: true, Template: true, Also: []string{"message_template"}, Doc: sayDoc},
		FieldSpec{Name: "message_type", Kind: Text, Doc: "Type of the message."},
		FieldSpec{Name: "rephrase", Kind: Flag, Default: "false"},
		FieldSpec{Name: "llm_config", Kind: One, Of: "LlmConfig"},
		FieldSpec{Name: "expose_message_as_output", Kind: Flag, Default: "true", Doc: "true: the message is also an output."})},
	{Name: "PluginInputMessageNode", Like: "InputMessageNode", Fields: extended(
		FieldSpec{Name: "message", Kind: Text, Template: true, Also: []string{"message_template"}, Doc: askDoc},
		FieldSpec{Name: "rephrase", Kind: Flag, Default: "false"},
		FieldSpec{Name: "llm_config", Kind: One, Of: "LlmConfig"})},
	{Name: "ExtendedToolNode", Like: "ToolNode", Fields: extended(FieldSpec{Name: "raise_exceptions", Kind: Flag, Default: "false",
		Doc: "Whether a failure of the tool fails the flow. It has no effect."})},
	{Name: "ExtendedAgent", Like: "Agent", Open: true, Fields: []FieldSpec{
		{Name: "max_iterations", Kind: Whole, Doc: "Maximum number of model calls. It has no effect."},
		{Name: "agents", Kind: Many, Of: "AgenticComponent", Doc: "Agents that the agent can ask, as tools."},
		{Name: "flows", Kind: Many, Of: "Flow", Doc: "Flows that the agent can run, as tools."},
		{Name: "initial_message", Kind: Text, Doc: "The first message of the agent. It has no effect: a run starts with its input."},
		{Name: "can_finish_conversation", Kind: Flag, Default: "false", Doc: "Whether the agent can end the conversation. It has no effect."},
	}},
	{Name: "ExtendedFlow", Like: "Flow", Fields: []FieldSpec{
		{Name: "state", Kind: Any, Doc: "Variables of the flow."},
		{Name: "context_providers", Kind: Any, Doc: "What provides values to the flow. It is not supported."}}},
	pluginNode("PluginRegexNode", "A step that matches a regular expression against a text.",
		FieldSpec{Name: "regex_pattern", Kind: Any, Required: true, Doc: "The regular expression: a string, or an object with pattern and flags."},
		FieldSpec{Name: "return_first_match_only", Kind: Flag, Default: "true", Doc: "true: only the first match is the output."}),
	pluginNode("PluginTemplateNode", "A step that fills in a template.",
		FieldSpec{Name: "template", Kind: Text, Required: true, Template: true, Doc: "The template. {{NAME}} is replaced by an input."}),
	pluginNode("PluginReadVariableNode", "A step that reads a variable of the flow.", variable),
	pluginNode("PluginWriteVariableNode", "A step that writes a variable of the flow.", variable,
		FieldSpec{Name: "operation", Kind: Text, Default: "overwrite", Enum: writes, Doc: "How the value is written: overwrite, merge or insert."}),
	pluginNode("PluginVariableNode", "A step that reads and writes variables of the flow.",
		FieldSpec{Name: "read_variables", Kind: Any, Doc: "Variables that are read."},
		FieldSpec{Name: "write_variables", Kind: Any, Doc: "Variables that are written."},
		FieldSpec{Name: "write_operations", Kind: Any, Doc: "How each variable is written: overwrite, merge or insert."}),
	pluginNode("PluginCatchExceptionNode", "A step that runs a flow and takes a branch when it fails.", flowOf,
		FieldSpec{Name: "except_on", Kind: TextMap, Doc: "The branch for each class of failure."},
		FieldSpec{Name: "catch_all_exceptions", Kind: Flag, Default: "false", Doc: "true: any failure is caught."}),
	pluginNode("ExtendedMapNode", "A step that runs a flow for each element of lists.", flowOf,
		FieldSpec{Name: "unpack_input", Kind: TextMap, Doc: "Paths of the flow's inputs in an element."},
		FieldSpec{Name: "parallel_execution", Kind: Flag, Default: "false", Doc: "true: elements run at the same time."},
		FieldSpec{Name: "max_workers", Kind: Whole, Doc: "Maximum number of elements that run at the same time."}),
	storeNode("PluginDatastoreListNode", "A step that reads entities of a datastore's collection.", "Datastore", collectionName, whereField,
		FieldSpec{Name: "limit", Kind: Whole, Doc: "Maximum number of entities. Default: all."},
		FieldSpec{Name: "unpack_single_entity_from_list", Kind: Flag, Default: "false", Doc: "true: the output is the one entity, with a limit of 1."},
		named("ENTITIES", "entities", "output with the entities")),
	storeNode("PluginDatastoreCreateNode", "A step that adds an entity to a datastore's collection.", "Datastore", collectionName,
		named("ENTITY", "entity", "input with the entity"), named("CREATED_ENTITY", "created_entity", "output with the created entity")),
	storeNode("PluginDatastoreUpdateNode", "A step that changes entities of a datastore's collection.", "Datastore", collectionName, whereField,
		named("ENTITIES", "entities", "output with the changed entities"), named("UPDATE", "update", "input with the changed properties")),
	storeNode("PluginDatastoreDeleteNode", "A step that deletes entities of a datastore's collection.", "Datastore", collectionName, whereField),
	storeNode("PluginDatastoreQueryNode", "A step that runs an SQL query on a datastore.", "RelationalDatastore",
		FieldSpec{Name: "query", Kind: Text, Required: true, Doc: "The SQL query. :NAME stands for an input."}, named("RESULT", "result", "output with the rows")),
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
	{Name: "PluginExtractNode", Is: isNode, IO: true, Open: true, NotYet: true, Doc: "A step that extracts values from a text. It is not supported yet."},
	{Name: "ExtendedLlmNode", Is: isNode, IO: true, Open: true, NotYet: true, Doc: "A step that asks a model. It is not supported yet."},
	// Parts of an ExtendedAgent's prompt template, which Weft does not use.
	{Name: "PluginPromptTemplate", Open: true, NotYet: true,
		Doc: "The template of an agent's prompt. It has no effect: prompts are written as the model needs them."},
	{Name: "PluginRemoveEmptyNonUserMessageTransform", Open: true, NotYet: true, Doc: "Part of a prompt template. It has no effect."},
	{Name: "PluginCoalesceSystemMessagesTransform", Open: true, NotYet: true, Doc: "Part of a prompt template. It has no effect."},
	{Name: "PluginLlamaMergeToolRequestAndCallsTransform", Open: true, NotYet: true, Doc: "Part of a prompt template. It has no effect."},
	{Name: "PluginJsonToolOutputParser", Open: true, NotYet: true, Doc: "Part of a prompt template. It has no effect."},
}

func storeNode(name, doc, of string, fields ...FieldSpec) Type {
	return pluginNode(name, doc, append(fields, FieldSpec{Name: "datastore", Kind: One, Of: of, Required: true, Doc: "The datastore."})...)
}

// named returns a field for the fixed name of an input or output.
func named(field, name, of string) FieldSpec {
	return FieldSpec{Name: field, Kind: Text, Default: name, Enum: []string{name}, Doc: "Name of the " + of + "."}
}

var (
	collectionName = FieldSpec{Name: "collection_name", Kind: Text, Required: true, Template: true,
		Doc: "Name of the collection. {{NAME}} is replaced by an input."}
	variable   = FieldSpec{Name: "variable", Kind: Object, Required: true, Doc: "The variable."}
	whereField = FieldSpec{Name: "where", Kind: Object, Template: true,
		Doc: "Values that an entity must have, by property. {{NAME}} is replaced by an input."}
)

// caFile is the field ca_file, with its name in WayFlow.
var caFile = FieldSpec{Name: "ca_file", Kind: Text, Required: true, Sensitive: true, Also: []string{"ssl_ca_cert"}}

// writes are the operations on a variable: set it, append or merge values, append one element.
var writes = []string{"overwrite", "merge", "insert"}

// Acts returns the name of the type that determines the behaviour of a component in a run: its own, or the one that it extends.
func (t *Type) Acts() string {
	if t.Like != "" {
		return t.Like
	}
	return t.Name
}
