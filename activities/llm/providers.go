package llm

import (
	"context"
	"slices"
	"time"

	"weft/activities/llm/wire"
)

// Provider is a row of the table: how one kind of server differs.
type Provider struct {
	// Name is the kind, and the name of a provider that names no kind.
	Name string
	// System is the kind's name in OpenTelemetry's conventions, where that is another.
	System string
	// BaseURL is the default; empty means that one must be configured, like Example.
	BaseURL string
	Example string
	// KeyName and OtherKeyName are the variables of the key; NeedsKey means that calls require one.
	KeyName      string
	OtherKeyName string
	NeedsKey     bool
	// Server is what the protocol has to know of it.
	wire.Server
	// Params are the parameters it takes besides temperature, top_p, the token limit and stop sequences.
	Params []string
	// FirstByte and Idle are defaults, see [ProviderSettings]; 0 means five and two minutes.
	FirstByte, Idle time.Duration
	// look asks a server of local models about one; nil for other servers.
	look func(context.Context, *provider) serverState
	// Script marks the built-in scripted model, which calls nobody.
	Script bool
}

// Parameters that not every provider takes, as rows list them in Params.
const (
	paramTopK      = "top_k"
	paramSeed      = "seed"
	paramFrequency = "frequency_penalty"
	paramPresence  = "presence_penalty"
	paramParallel  = "parallel_tool_calls"
	paramEffort    = "reasoning_effort"
)

var alwaysTaken = []string{"temperature", "top_p", "max_tokens", "stop"}

// anyModel is what [wire.Server.Documents] and Audio have where models of every name may take such files.
var anyModel = []string{""}

// What servers of OpenAI's protocol take: OpenAI itself, the least, and most others.
var (
	openAIParams = []string{paramSeed, paramFrequency, paramPresence, paramParallel, paramEffort}
	plainParams  = []string{paramSeed, paramFrequency, paramPresence}
	localParams  = []string{paramSeed, paramFrequency, paramPresence, paramTopK}
	chatParams   = []string{paramSeed, paramFrequency, paramPresence, paramParallel, paramEffort, paramTopK}
)

// completionTokens is what newer servers call the bound of an answer.
var completionTokens = map[string]string{"max_tokens": "max_completion_tokens"}

// openAIServer is OpenAI's own; plainChat takes nothing but text, tools and their choice.
var (
	openAIServer = wire.Server{Schema: true, StrictSchema: true, JSON: true, FormatWithTools: true, ToolChoice: true,
		StreamUsage: true, Words: completionTokens, NoSampling: []string{"o1", "o3", "o4", "gpt-5"}, RawArguments: true,
		CallIDs: wire.IDsMax40, Responses: []string{"gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4", "codex", "computer-use"},
		Documents: anyModel, Audio: []string{"audio"}, CacheKey: true}
	plainChat = wire.Server{ToolChoice: true, StreamUsage: true}
)

// Providers is the table of all kinds of providers.
var Providers = []Provider{
	{Name: "openai", BaseURL: "https://api.openai.com/v1", KeyName: "OPENAI_API_KEY", NeedsKey: true, Params: openAIParams,
		Server: openAIServer},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com/v1", KeyName: "DEEPSEEK_API_KEY", NeedsKey: true, Params: plainParams,
		Server: wire.Server{JSON: true, ToolChoice: true, StreamUsage: true, Reasoning: "reasoning_content",
			RawArguments: true}},
	{Name: "anthropic", BaseURL: "https://api.anthropic.com/v1", KeyName: "ANTHROPIC_API_KEY", NeedsKey: true,
		Params: []string{paramTopK, paramParallel, paramEffort},
		Server: wire.Server{Protocol: wire.Claude, Schema: true, FormatWithTools: true, ToolChoice: true, ResultImages: true,
			ResultDocuments: true, Documents: anyModel, CallIDs: wire.IDsWord}},
	{Name: "google", System: "gcp.gemini", BaseURL: "https://generativelanguage.googleapis.com/v1beta",
		KeyName: "GEMINI_API_KEY", OtherKeyName: "GOOGLE_API_KEY", NeedsKey: true,
		Params: []string{paramTopK, paramSeed, paramFrequency, paramPresence, paramEffort},
		Server: wire.Server{Protocol: wire.Gemini, Schema: true, JSON: true, ToolChoice: true, Documents: anyModel, Audio: anyModel}},
	{Name: "oci", Example: "https://inference.generativeai.REGION.oci.oraclecloud.com",
		Params: append([]string{paramTopK}, openAIParams...),
		Server: wire.Server{Protocol: wire.OCI, Schema: true, JSON: true, ToolChoice: true,
			NoSampling: []string{"openai.o1", "openai.o3", "openai.o4", "openai.gpt-5"}, Reasoning: "reasoningContent",
			Documents: []string{"google."}, Audio: []string{"google."}}},
	{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", KeyName: "OPENROUTER_API_KEY", NeedsKey: true,
		Params: chatParams, Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, StreamUsage: true,
			NoSampling: []string{"openai/o1", "openai/o3", "openai/o4", "openai/gpt-5"}, Reasoning: "reasoning",
			Words: map[string]string{"reasoning_effort": "reasoning.effort"}, CacheMark: "anthropic/", MarkSystem: "google/gemini", CallIDs: wire.IDsMax40,
			Documents: anyModel, Audio: anyModel}},
	{Name: "mistral", System: "mistral_ai", BaseURL: "https://api.mistral.ai/v1", KeyName: "MISTRAL_API_KEY", NeedsKey: true,
		Params: []string{paramSeed, paramFrequency, paramPresence, paramParallel},
		Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, Words: map[string]string{"seed": "random_seed"},
			CallIDs: wire.IDsNine, ResultImages: true, BridgeResults: true, ToolName: true, Reasoning: wire.InContent,
			MediaForm: wire.MediaMistral, CacheKey: true, Documents: anyModel, Audio: []string{"voxtral"}}},
	{Name: "vllm", BaseURL: "http://127.0.0.1:8000/v1", KeyName: "VLLM_API_KEY", Params: chatParams, FirstByte: 10 * time.Minute,
		Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, StreamUsage: true, Reasoning: "reasoning", Audio: anyModel}, look: lookList("/v1/models")},
	{Name: "ollama", BaseURL: "http://127.0.0.1:11434/v1", KeyName: "OLLAMA_API_KEY",
		Params: []string{paramSeed, paramFrequency, paramPresence, paramEffort}, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, JSON: true, UnaryTools: true, StreamUsage: true, Reasoning: "reasoning"}, look: lookOllama},
	{Name: "llamacpp", BaseURL: "http://127.0.0.1:8080/v1", KeyName: "LLAMA_API_KEY", Params: chatParams, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, PlainSchema: true, JSON: true, ToolChoice: true, ChoiceWords: true, StreamUsage: true,
			Reasoning: "reasoning_content", Audio: anyModel}, look: lookLlamaCpp},
	{Name: "lmstudio", BaseURL: "http://127.0.0.1:1234/v1", KeyName: "LM_API_TOKEN", Params: localParams, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, ToolChoice: true, ChoiceWords: true, StreamUsage: true, Reasoning: wire.AsItCame}, look: lookList("/api/v0/models")},
	{Name: "localai", BaseURL: "http://127.0.0.1:8080/v1", KeyName: "LOCALAI_API_KEY", Params: localParams, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, StreamUsage: true, Reasoning: wire.AsItCame}},
	{Name: "compatible", Params: chatParams, Example: "https://host/v1", Server: wire.Server{ToolChoice: true, StreamUsage: true, Unfinished: true, Reasoning: wire.AsItCame,
		Documents: anyModel, Audio: anyModel}},
	{Name: "azure", System: "azure.ai.openai", KeyName: "AZURE_OPENAI_API_KEY", NeedsKey: true,
		Example: "https://RESOURCE.openai.azure.com/openai/v1", Params: openAIParams,
		Server: openAIServer},
	{Name: "bedrock", System: "aws.bedrock", KeyName: "AWS_BEARER_TOKEN_BEDROCK", NeedsKey: true,
		Example: "https://bedrock-runtime.REGION.amazonaws.com", Params: []string{paramEffort},
		Server: wire.Server{Protocol: wire.Converse, Schema: true, FormatWithTools: true, ToolChoice: true, ResultImages: true, ResultDocuments: true, Documents: anyModel,
			CallIDs: wire.IDsWord}},
	{Name: "cohere", BaseURL: "https://api.cohere.com/v2", KeyName: "COHERE_API_KEY", NeedsKey: true,
		Params: []string{paramTopK, paramSeed, paramFrequency, paramPresence, paramEffort},
		Server: wire.Server{Protocol: wire.Cohere, Schema: true, JSON: true, ToolChoice: true, Reasoning: "thinking"}},
	{Name: "dashscope", BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", KeyName: "DASHSCOPE_API_KEY",
		NeedsKey: true, Params: []string{paramSeed, paramPresence, paramParallel, paramTopK},
		Server: wire.Server{JSON: true, ToolChoice: true, StreamUsage: true, Reasoning: "reasoning_content",
			MediaForm: wire.MediaDataURL, Audio: []string{"omni", "audio"}, MarkSystem: "qwen", MarkTurns: "qwen"}},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", KeyName: "GROQ_API_KEY", NeedsKey: true,
		Params: []string{paramSeed, paramParallel, paramEffort},
		Server: wire.Server{JSON: true, ToolChoice: true, StreamUsage: true, Words: completionTokens, Reasoning: "reasoning"}},
	{Name: "huggingface", BaseURL: "https://router.huggingface.co/v1", KeyName: "HF_TOKEN", NeedsKey: true, Params: plainParams,
		Server: plainChat},
	{Name: "xai", System: "x_ai", BaseURL: "https://api.x.ai/v1", KeyName: "XAI_API_KEY", NeedsKey: true,
		Params: []string{paramSeed, paramParallel, paramEffort},
		Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, StreamUsage: true, Reasoning: "reasoning_content", CacheKey: true, CacheHeader: "x-grok-conv-id"}},
	{Name: "cloudflare", KeyName: "CLOUDFLARE_API_TOKEN", NeedsKey: true,
		Example: "https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1", Params: plainParams, Server: plainChat},
	{Name: "ernie", BaseURL: "https://qianfan.baidubce.com/v2", KeyName: "QIANFAN_API_KEY", NeedsKey: true, Params: plainParams,
		Server: plainChat},
	{Name: "llamafile", BaseURL: "http://127.0.0.1:8080/v1", KeyName: "LLAMAFILE_API_KEY",
		Params: localParams, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: plainChat, look: lookLlamaCpp},
	{Name: "maritaca", BaseURL: "https://chat.maritaca.ai/api", KeyName: "MARITACA_API_KEY", NeedsKey: true, Server: plainChat},
	{Name: ScriptModel, Script: true},
}

func rowOf(kind string) (Provider, bool) {
	i := slices.IndexFunc(Providers, func(row Provider) bool { return row.Name == kind })
	if i < 0 {
		return Provider{}, false
	}
	return Providers[i], true
}
