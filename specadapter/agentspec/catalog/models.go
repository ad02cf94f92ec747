package catalog

// modelFields are what all configurations of models have.
func modelFields(own ...FieldSpec) []FieldSpec {
	return append(own,
		FieldSpec{Name: "model_id", Kind: Text, Required: true},
		FieldSpec{Name: "default_generation_parameters", Kind: Plain, Open: true, Fields: []FieldSpec{
			{Name: "max_tokens", Kind: Whole},
			{Name: "temperature", Kind: Number},
			{Name: "top_p", Kind: Number},
		}},
		retryPolicy)
}

// Fields of single configurations of models.
var (
	apiKey      = FieldSpec{Name: "api_key", Kind: Text, Sensitive: true, Since: V2542}
	modelURL    = FieldSpec{Name: "url", Kind: Text}
	openAPIType = FieldSpec{Name: "api_type", Kind: Text, Default: "chat_completions",
		Enum: []string{"chat_completions", "responses"}, Since: V2542}
)

func provider(def string) FieldSpec {
	return FieldSpec{Name: "provider", Kind: Text, Default: def, Since: V2612}
}

func apiProvider(def string) FieldSpec {
	return FieldSpec{Name: "api_provider", Kind: Text, Default: def, Since: V2612}
}

// compatibleFields are those of servers that speak OpenAI's protocol.
func compatibleFields(api string) []FieldSpec {
	own := []FieldSpec{{Name: "url", Kind: Text, Required: true}, apiKey, openAPIType, provider(""), apiProvider(api)}
	return modelFields(append(own, eachNamed(FieldSpec{Kind: Text, Sensitive: true, Since: V2612}, "key_file", "cert_file", "ca_file")...)...)
}

var modelTypes = []Type{
	{Name: "LlmConfig", Since: V2612,
		Fields: modelFields(modelURL, apiKey, FieldSpec{Name: "api_type", Kind: Text}, provider(""), apiProvider(""))},
	{Name: "OpenAiCompatibleConfig", Is: []string{"LlmConfig"}, Fields: compatibleFields("")},
	{Name: "VllmConfig", Is: []string{"OpenAiCompatibleConfig", "LlmConfig"}, Fields: compatibleFields("vllm")},
	{Name: "OllamaConfig", Is: []string{"OpenAiCompatibleConfig", "LlmConfig"}, Fields: compatibleFields("ollama")},
	{Name: "OpenAiConfig", Is: []string{"LlmConfig"},
		Fields: modelFields(FieldSpec{Name: "url", Kind: Text, Since: V2612},
			FieldSpec{Name: "api_key", Kind: Text, Sensitive: true, Since: V2610}, openAPIType, provider("openai"), apiProvider("openai"))},
	{Name: "OciGenAiConfig", Is: []string{"LlmConfig"},
		Fields: modelFields(
			FieldSpec{Name: "compartment_id", Kind: Text, Required: true},
			FieldSpec{Name: "serving_mode", Kind: Text, Default: "ON_DEMAND", Enum: []string{"ON_DEMAND", "DEDICATED"}},
			FieldSpec{Name: "provider", Kind: Text},
			FieldSpec{Name: "client_config", Kind: One, Of: "OciClientConfig", Required: true},
			FieldSpec{Name: "api_type", Kind: Text, Default: "oci", Since: V2542},
			FieldSpec{Name: "conversation_store_id", Kind: Text, Since: V2542},
			apiProvider("oci"), apiKey, FieldSpec{Name: "url", Kind: Text, Since: V2612})},
	{Name: "GeminiConfig", Is: []string{"LlmConfig"}, Since: V2612,
		Fields: modelFields(FieldSpec{Name: "auth", Kind: One, Of: "GeminiAuthConfig", Required: true},
			modelURL, apiKey, FieldSpec{Name: "api_type", Kind: Text}, provider("google"), apiProvider(""))},
	{Name: "GeminiAIStudioAuthConfig", Is: []string{"GeminiAuthConfig"}, Since: V2612,
		Fields: []FieldSpec{{Name: "api_key", Kind: Text, Sensitive: true}}},
	{Name: "GeminiVertexAIAuthConfig", Is: []string{"GeminiAuthConfig"}, Since: V2612,
		Fields: []FieldSpec{
			{Name: "project_id", Kind: Text},
			{Name: "location", Kind: Text, Default: "global"},
			{Name: "credentials", Kind: Any, Sensitive: true},
		}},
	ociClient("OciClientConfigWithApiKey", "API_KEY", ociProfile, ociFile),
	ociClient("OciClientConfigWithSecurityToken", "SECURITY_TOKEN", ociProfile, ociFile),
	ociClient("OciClientConfigWithInstancePrincipal", "INSTANCE_PRINCIPAL"),
	ociClient("OciClientConfigWithResourcePrincipal", "RESOURCE_PRINCIPAL"),
}

var (
	ociProfile = FieldSpec{Name: "auth_profile", Kind: Text, Required: true}
	ociFile    = FieldSpec{Name: "auth_file_location", Kind: Text, Required: true, Sensitive: true}
)

// ociClient is a way to sign in to OCI.
func ociClient(name, auth string, own ...FieldSpec) Type {
	return Type{Name: name, Is: []string{"OciClientConfig"}, Fields: append([]FieldSpec{
		{Name: "service_endpoint", Kind: Text, Required: true},
		{Name: "auth_type", Kind: Text, Default: auth, Enum: []string{auth}},
	}, own...)}
}
