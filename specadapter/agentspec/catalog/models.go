package catalog

// modelFields returns the fields of a model configuration: its own and those of all.
func modelFields(own ...FieldSpec) []FieldSpec {
	return append(own,
		FieldSpec{Name: "model_id", Kind: Text, Required: true, Doc: "Id of the model."},
		FieldSpec{Name: "default_generation_parameters", Kind: Plain, Open: true, Doc: "Parameters of the model's calls.", Fields: []FieldSpec{
			{Name: "max_tokens", Kind: Whole, Doc: "Maximum number of tokens of an answer."},
			{Name: "temperature", Kind: Number, Doc: "Sampling temperature."},
			{Name: "top_p", Kind: Number, Doc: "Nucleus sampling: the probability mass that tokens are sampled from."},
		}},
		retryPolicy)
}

// Fields of some model configurations.
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
	return FieldSpec{Name: "api_provider", Kind: Text, Default: def, Since: V2612, Doc: "Service that hosts the model."}
}

// compatibleFields returns the fields for a server that implements OpenAI's protocol.
func compatibleFields(api string) []FieldSpec {
	own := []FieldSpec{{Name: "url", Kind: Text, Required: true}, apiKey, openAPIType, provider(""), apiProvider(api)}
	return modelFields(append(own, eachNamed(FieldSpec{Kind: Text, Sensitive: true, Since: V2612}, "key_file", "cert_file", "ca_file")...)...)
}

var modelTypes = []Type{
	{Name: "LlmConfig", Since: V2612, Doc: "A model, by its provider and id.",
		Fields: modelFields(modelURL, apiKey, FieldSpec{Name: "api_type", Kind: Text}, provider(""), apiProvider(""))},
	{Name: "OpenAiCompatibleConfig", Is: []string{"LlmConfig"}, Fields: compatibleFields(""), Doc: "A model of a server that implements OpenAI's protocol."},
	{Name: "VllmConfig", Is: []string{"OpenAiCompatibleConfig", "LlmConfig"}, Fields: compatibleFields("vllm"), Doc: "A model of vLLM."},
	{Name: "OllamaConfig", Is: []string{"OpenAiCompatibleConfig", "LlmConfig"}, Fields: compatibleFields("ollama"), Doc: "A model of Ollama."},
	{Name: "OpenAiConfig", Is: []string{"LlmConfig"}, Doc: "A model of OpenAI.",
		Fields: modelFields(FieldSpec{Name: "url", Kind: Text, Since: V2612},
			FieldSpec{Name: "api_key", Kind: Text, Sensitive: true, Since: V2610}, openAPIType, provider("openai"), apiProvider("openai"))},
	{Name: "OciGenAiConfig", Is: []string{"LlmConfig"}, Doc: "A model of OCI Generative AI.",
		Fields: modelFields(
			FieldSpec{Name: "compartment_id", Kind: Text, Required: true, Doc: "OCID of the compartment."},
			FieldSpec{Name: "serving_mode", Kind: Text, Default: "ON_DEMAND", Enum: []string{"ON_DEMAND", "DEDICATED"},
				Doc: "Whether the model is served on demand or by a dedicated cluster."},
			FieldSpec{Name: "provider", Kind: Text},
			FieldSpec{Name: "client_config", Kind: One, Of: "OciClientConfig", Required: true},
			FieldSpec{Name: "api_type", Kind: Text, Default: "oci", Since: V2542},
			FieldSpec{Name: "conversation_store_id", Kind: Text, Since: V2542, Doc: "OCID of the conversation store."},
			apiProvider("oci"), apiKey, FieldSpec{Name: "url", Kind: Text, Since: V2612})},
	{Name: "GeminiConfig", Is: []string{"LlmConfig"}, Since: V2612, Doc: "A model of Google Gemini.",
		Fields: modelFields(FieldSpec{Name: "auth", Kind: One, Of: "GeminiAuthConfig", Required: true},
			modelURL, apiKey, FieldSpec{Name: "api_type", Kind: Text}, provider("google"), apiProvider(""))},
	{Name: "GeminiAIStudioAuthConfig", Is: []string{"GeminiAuthConfig"}, Since: V2612, Doc: "Signs in to Gemini with an API key.",
		Fields: []FieldSpec{{Name: "api_key", Kind: Text, Sensitive: true}}},
	{Name: "GeminiVertexAIAuthConfig", Is: []string{"GeminiAuthConfig"}, Since: V2612, Doc: "Signs in to Gemini through Vertex AI.",
		Fields: []FieldSpec{
			{Name: "project_id", Kind: Text, Doc: "Google Cloud project."},
			{Name: "location", Kind: Text, Default: "global", Doc: "Google Cloud location."},
			{Name: "credentials", Kind: Any, Sensitive: true, Doc: "Credentials: a reference to a value in weft.yaml."},
		}},
	ociClient("OciClientConfigWithApiKey", "Signs in to OCI with an API key.", "API_KEY", ociProfile, ociFile),
	ociClient("OciClientConfigWithSecurityToken", "Signs in to OCI with a security token.", "SECURITY_TOKEN", ociProfile, ociFile),
	ociClient("OciClientConfigWithInstancePrincipal", "Signs in to OCI as a compute instance.", "INSTANCE_PRINCIPAL"),
	ociClient("OciClientConfigWithResourcePrincipal", "Signs in to OCI as a resource.", "RESOURCE_PRINCIPAL"),
}

var (
	ociProfile = FieldSpec{Name: "auth_profile", Kind: Text, Required: true, Doc: "Profile of OCI's configuration file."}
	ociFile    = FieldSpec{Name: "auth_file_location", Kind: Text, Required: true, Sensitive: true,
		Doc: "OCI's configuration file: a reference to a value in weft.yaml."}
)

func ociClient(name, doc, auth string, own ...FieldSpec) Type {
	return Type{Name: name, Is: []string{"OciClientConfig"}, Doc: doc, Fields: append([]FieldSpec{
		{Name: "service_endpoint", Kind: Text, Required: true, Doc: "URL of the service."},
		{Name: "auth_type", Kind: Text, Default: auth, Enum: []string{auth}, Doc: "How the client signs in."},
	}, own...)}
}
