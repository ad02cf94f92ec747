package llm

import "slices"

// Provider is a row of the table: how one kind of server differs.
type Provider struct {
	// Name is the kind, and the name of a provider that names no kind.
	Name string
	// System is the kind's name in OpenTelemetry's conventions, where that is another.
	System string
	// Protocol is one of the constants; empty is OpenAI's chat completions.
	Protocol string
	// BaseURL is the default; empty means that one must be configured, like Example.
	BaseURL string
	Example string
	// KeyName and OtherKeyName are the variables of the key; NeedsKey means that calls require one.
	KeyName      string
	OtherKeyName string
	NeedsKey     bool
	// Schema, JSON: the server takes response_format json_schema, json_object.
	Schema bool
	JSON   bool
	// StrictSchema: a schema must be of an object, and can be enforced strictly.
	StrictSchema bool
	// FormatWithTools: response_format can be sent with tools. Others refuse it or stop calling tools.
	FormatWithTools bool
	// ToolChoice means that tool_choice is obeyed. Elsewhere "none" sends no tools.
	ToolChoice bool
	// UnaryTools: requests with tools are not streamed, because the server's streams lose calls.
	UnaryTools bool
	// StreamUsage means that a stream has usage only when asked for by stream_options.
	StreamUsage bool
	// MaxCompletion and RandomSeed: max_tokens is max_completion_tokens, seed is random_seed.
	MaxCompletion bool
	RandomSeed    bool
	// Params are the parameters it takes besides temperature, top_p, the token limit and stop sequences.
	Params []string
	// NoSampling are prefixes of models that refuse temperature and top_p.
	NoSampling []string
	// Reasoning is the field in which reasoning goes back to its provider; empty: it does not.
	Reasoning string
	// EffortObject means that reasoning_effort is sent as {"reasoning": {"effort": ...}}.
	EffortObject bool
	// CacheMark is the prefix of models whose requests must ask for prompt caching; empty: none.
	CacheMark string
	// RawArguments: arguments of calls that are not a JSON object go back as they are. Others get them wrapped in
	// one.
	RawArguments bool
	// ResultImages: results of tools can have images. For others a user message after the results has them.
	ResultImages bool
	// BridgeResults means that no user's message may follow on results: the assistant speaks first.
	BridgeResults bool
	// CallIDs says which ids of tool calls the server accepts.
	CallIDs idRule
	// ToolName means that tool results carry the tool's name.
	ToolName bool
	// FirstSeconds and IdleSeconds are defaults, see [ProviderSettings]; 0 means 300 and 120.
	FirstSeconds int
	IdleSeconds  int
	// Script marks the built-in scripted model, which calls nobody.
	Script bool
}

// idRule says which ids of tool calls a server accepts.
type idRule int

const (
	idsAny   idRule = iota
	idsMax40        // at most 40 bytes
	idsNine         // nine letters or digits
	idsWord         // letters, digits, _ and -, at most 64
)

// openAIReasoners are OpenAI's models that refuse sampling parameters.
var openAIReasoners = []string{"o1", "o3", "o4", "gpt-5"}

// What servers of OpenAI's protocol take: OpenAI itself, and most others.
var (
	openAIParams = []string{paramSeed, paramFrequency, paramPresence, paramParallel, paramEffort}
	chatParams   = []string{paramSeed, paramFrequency, paramPresence, paramParallel, paramEffort, paramTopK}
)

// Providers is the table of all kinds of providers.
var Providers = []Provider{
	{Name: "openai", BaseURL: "https://api.openai.com/v1", KeyName: "OPENAI_API_KEY", NeedsKey: true, Schema: true, StrictSchema: true, JSON: true,
		FormatWithTools: true, ToolChoice: true, StreamUsage: true, MaxCompletion: true, Params: openAIParams, NoSampling: openAIReasoners,
		RawArguments: true, CallIDs: idsMax40},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com/v1", KeyName: "DEEPSEEK_API_KEY", NeedsKey: true, JSON: true, ToolChoice: true,
		StreamUsage: true, Params: []string{paramSeed, paramFrequency, paramPresence}, Reasoning: "reasoning_content", RawArguments: true},
	{Name: "anthropic", Protocol: ProtocolClaude, BaseURL: "https://api.anthropic.com/v1", KeyName: "ANTHROPIC_API_KEY", NeedsKey: true, Schema: true,
		FormatWithTools: true, ToolChoice: true, Params: []string{paramTopK, paramParallel, paramEffort}, ResultImages: true, CallIDs: idsWord},
	{Name: "google", System: "gcp.gemini", Protocol: ProtocolGemini, BaseURL: "https://generativelanguage.googleapis.com/v1beta",
		KeyName: "GEMINI_API_KEY", OtherKeyName: "GOOGLE_API_KEY", NeedsKey: true, Schema: true, JSON: true, ToolChoice: true,
		Params: []string{paramTopK, paramSeed, paramFrequency, paramPresence, paramEffort}},
	{Name: "oci", Protocol: ProtocolOCI, Example: "https://inference.generativeai.REGION.oci.oraclecloud.com", Schema: true, JSON: true, ToolChoice: true,
		Params: append([]string{paramTopK}, openAIParams...), NoSampling: []string{"openai.o1", "openai.o3", "openai.o4", "openai.gpt-5"},
		Reasoning: "reasoningContent"},
	{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", KeyName: "OPENROUTER_API_KEY", NeedsKey: true, Schema: true, JSON: true,
		ToolChoice: true, StreamUsage: true, Params: chatParams, NoSampling: []string{"openai/o1", "openai/o3", "openai/o4", "openai/gpt-5"},
		Reasoning: "reasoning", EffortObject: true, CacheMark: "anthropic/", CallIDs: idsMax40},
	{Name: "mistral", System: "mistral_ai", BaseURL: "https://api.mistral.ai/v1", KeyName: "MISTRAL_API_KEY", NeedsKey: true, Schema: true, JSON: true,
		ToolChoice: true, RandomSeed: true, Params: []string{paramSeed, paramFrequency, paramPresence, paramParallel}, CallIDs: idsNine, ResultImages: true,
		BridgeResults: true, ToolName: true},
	{Name: "vllm", BaseURL: "http://127.0.0.1:8000/v1", KeyName: "VLLM_API_KEY", Schema: true, JSON: true, ToolChoice: true, StreamUsage: true,
		Params: chatParams, Reasoning: "reasoning", FirstSeconds: 600},
	{Name: "ollama", BaseURL: "http://127.0.0.1:11434/v1", KeyName: "OLLAMA_API_KEY", Schema: true, JSON: true, UnaryTools: true, StreamUsage: true,
		Params: []string{paramSeed, paramFrequency, paramPresence, paramEffort}, FirstSeconds: 600, IdleSeconds: 300},
	{Name: "compatible", ToolChoice: true, StreamUsage: true, Params: chatParams, Example: "https://host/v1"},
	{Name: "azure", System: "azure.ai.openai", KeyName: "AZURE_OPENAI_API_KEY", NeedsKey: true, Example: "https://RESOURCE.openai.azure.com/openai/v1",
		Schema: true, StrictSchema: true, JSON: true, FormatWithTools: true, ToolChoice: true, StreamUsage: true, MaxCompletion: true, Params: openAIParams,
		NoSampling: openAIReasoners, RawArguments: true, CallIDs: idsMax40},
	{Name: "bedrock", System: "aws.bedrock", KeyName: "AWS_BEARER_TOKEN_BEDROCK", NeedsKey: true,
		Example: "https://bedrock-runtime.REGION.amazonaws.com/openai/v1", ToolChoice: true, StreamUsage: true, MaxCompletion: true,
		Params: []string{paramParallel, paramEffort}, Reasoning: "reasoning"},
	{Name: "cohere", BaseURL: "https://api.cohere.ai/compatibility/v1", KeyName: "COHERE_API_KEY", NeedsKey: true, Schema: true, JSON: true,
		ToolChoice: true, StreamUsage: true, Params: []string{paramSeed, paramFrequency, paramPresence, paramEffort}},
	{Name: "dashscope", BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", KeyName: "DASHSCOPE_API_KEY", NeedsKey: true, JSON: true,
		ToolChoice: true, StreamUsage: true, Params: []string{paramSeed, paramPresence, paramParallel, paramTopK}, Reasoning: "reasoning_content"},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", KeyName: "GROQ_API_KEY", NeedsKey: true, JSON: true, ToolChoice: true, StreamUsage: true,
		MaxCompletion: true, Params: []string{paramSeed, paramParallel, paramEffort}, Reasoning: "reasoning"},
	{Name: "huggingface", BaseURL: "https://router.huggingface.co/v1", KeyName: "HF_TOKEN", NeedsKey: true, ToolChoice: true, StreamUsage: true,
		Params: []string{paramSeed, paramFrequency, paramPresence}},
	{Name: "xai", System: "x_ai", BaseURL: "https://api.x.ai/v1", KeyName: "XAI_API_KEY", NeedsKey: true, Schema: true, JSON: true, ToolChoice: true,
		StreamUsage: true, Params: []string{paramSeed, paramParallel, paramEffort}, Reasoning: "reasoning_content"},
	{Name: "cloudflare", KeyName: "CLOUDFLARE_API_TOKEN", NeedsKey: true, Example: "https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1",
		ToolChoice: true, StreamUsage: true, Params: []string{paramSeed, paramFrequency, paramPresence}},
	{Name: "ernie", BaseURL: "https://qianfan.baidubce.com/v2", KeyName: "QIANFAN_API_KEY", NeedsKey: true, ToolChoice: true, StreamUsage: true,
		Params: []string{paramSeed, paramFrequency, paramPresence}},
	{Name: "llamafile", BaseURL: "http://127.0.0.1:8080/v1", KeyName: "LLAMAFILE_API_KEY", ToolChoice: true, StreamUsage: true,
		Params: []string{paramSeed, paramFrequency, paramPresence, paramTopK}, FirstSeconds: 600, IdleSeconds: 300},
	{Name: "maritaca", BaseURL: "https://chat.maritaca.ai/api", KeyName: "MARITACA_API_KEY", NeedsKey: true, ToolChoice: true, StreamUsage: true},
	{Name: ScriptModel, Script: true},
}

// rowOf finds a row by its name.
func rowOf(kind string) (Provider, bool) {
	i := slices.IndexFunc(Providers, func(row Provider) bool { return row.Name == kind })
	if i < 0 {
		return Provider{}, false
	}
	return Providers[i], true
}
