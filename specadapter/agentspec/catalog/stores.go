package catalog

// noStore says why a datastore is of no use.
const noStore = "flows keep their state in the workflow; nothing reads or writes a datastore"

// storeSchema describes the collections of a datastore.
var storeSchema = FieldSpec{Name: "datastore_schema", Kind: Schemas, Required: true}

// oracleFields are those of a connection to Oracle Database.
var oracleFields = []FieldSpec{
	{Name: "user", Kind: Text, Required: true, Sensitive: true},
	{Name: "password", Kind: Text, Required: true, Sensitive: true},
	{Name: "dsn", Kind: Text, Required: true, Sensitive: true},
	{Name: "config_dir", Kind: Text},
	{Name: "protocol", Kind: Text, Default: "tcps", Enum: []string{"tcp", "tcps"}},
}

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

// storeTypes are datastores and what uses them.
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
	{Name: "PostgresDatabaseDatastore", Is: []string{"RelationalDatastore", "Datastore"}, Since: V2612, Unsupported: noStore,
		Fields: []FieldSpec{storeSchema, {Name: "connection_config", Kind: One, Of: "PostgresDatabaseConnectionConfig", Required: true}}},
	{Name: "TlsOracleDatabaseConnectionConfig", Is: []string{"OracleDatabaseConnectionConfig"}, Since: V2612, Fields: oracleFields},
	{Name: "MTlsOracleDatabaseConnectionConfig", Is: []string{"OracleDatabaseConnectionConfig"}, Since: V2612,
		Fields: append(oracleFields[:len(oracleFields):len(oracleFields)],
			FieldSpec{Name: "wallet_location", Kind: Text, Required: true, Sensitive: true},
			FieldSpec{Name: "wallet_password", Kind: Text, Required: true, Sensitive: true})},
	{Name: "TlsPostgresDatabaseConnectionConfig", Is: []string{"PostgresDatabaseConnectionConfig"}, Since: V2612,
		Fields: []FieldSpec{
			{Name: "user", Kind: Text, Required: true, Sensitive: true},
			{Name: "password", Kind: Text, Required: true, Sensitive: true},
			{Name: "url", Kind: Text, Required: true},
			{Name: "sslmode", Kind: Text, Default: "require", Enum: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}},
			{Name: "sslcert", Kind: Text},
			{Name: "sslkey", Kind: Text},
			{Name: "sslrootcert", Kind: Text},
			{Name: "sslcrl", Kind: Text},
		}},
}
