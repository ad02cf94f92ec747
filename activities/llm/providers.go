package llm

import (
	"context"
	"slices"
	"time"

	"weft/activities/llm/wire"
)

// Provider describes one kind of server, see [Providers].
type Provider struct {
	// Name is the kind, and the default name of its provider.
	Name string
	// System is the kind's name in OpenTelemetry's conventions, if different.
	System string
	// BaseURL is the default; if empty, one like Example must be configured.
	BaseURL string
	Example string
	// KeyName and OtherKeyName are the environment variables of the key; NeedsKey means that calls require one.
	KeyName      string
	OtherKeyName string
	NeedsKey     bool
	// Server configures the protocol.
	wire.Server
	// Params are the parameters that it accepts besides commonParams.
	Params []string
	// FirstByte and Idle are default timeouts, see [ProviderSettings]; 0 means five and two minutes.
	FirstByte, Idle time.Duration
	// queryState queries a local server for the state of a model; nil for other servers.
	queryState func(context.Context, *provider) modelState
	// Script marks the built-in scripted model, which calls no server.
	Script bool
}

// Parameters that only some providers accept, see [Provider].Params.
const (
	paramTopK      = "top_k"
	paramSeed      = "seed"
	paramFrequency = "frequency_penalty"
	paramPresence  = "presence_penalty"
	paramParallel  = "parallel_tool_calls"
	paramEffort    = "reasoning_effort"
)

// commonParams are the parameters that all providers accept.
var commonParams = []string{"temperature", "top_p", "max_tokens", "stop"}

// anyModel is the value of [wire.Server.Documents] and Audio if any model may accept such files.
var anyModel = []string{""}

// The parameters that OpenAI, minimal compatible servers, local servers and most other compatible servers accept.
var (
	openAIParams = []string{paramSeed, paramFrequency, paramPresence, paramParallel, paramEffort}
	plainParams  = []string{paramSeed, paramFrequency, paramPresence}
	localParams  = []string{paramSeed, paramFrequency, paramPresence, paramTopK}
	chatParams   = []string{paramSeed, paramFrequency, paramPresence, paramParallel, paramEffort, paramTopK}
)

// completionTokens maps the token limit to its newer name.
var completionTokens = map[string]string{"max_tokens": "max_completion_tokens"}

// openAIServer describes OpenAI's server; plainChat one that accepts only text, tools and a tool choice.
var (
	openAIServer = wire.Server{Schema: true, StrictSchema: true, JSON: true, FormatWithTools: true, ToolChoice: true,
		StreamUsage: true, ParamNames: completionTokens, NoSampling: []string{"o1", "o3", "o4", "gpt-5"}, RawArguments: true,
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
			ParamNames: map[string]string{"reasoning_effort": "reasoning.effort"}, CacheRequest: "anthropic/", CacheSystem: "google/gemini", CallIDs: wire.IDsMax40,
			Documents: anyModel, Audio: anyModel}},
	{Name: "mistral", System: "mistral_ai", BaseURL: "https://api.mistral.ai/v1", KeyName: "MISTRAL_API_KEY", NeedsKey: true,
		Params: []string{paramSeed, paramFrequency, paramPresence, paramParallel},
		Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, ParamNames: map[string]string{"seed": "random_seed"},
			CallIDs: wire.IDsNine, ResultImages: true, BridgeResults: true, ToolName: true, Reasoning: wire.InContent,
			MediaForm: wire.MediaMistral, CacheKey: true, Documents: anyModel, Audio: []string{"voxtral"}}},
	{Name: "vllm", BaseURL: "http://127.0.0.1:8000/v1", KeyName: "VLLM_API_KEY", Params: chatParams, FirstByte: 10 * time.Minute,
		Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, StreamUsage: true, Reasoning: "reasoning", Audio: anyModel}, queryState: queryModelList("/v1/models")},
	{Name: "ollama", BaseURL: "http://127.0.0.1:11434/v1", KeyName: "OLLAMA_API_KEY",
		Params: []string{paramSeed, paramFrequency, paramPresence, paramEffort}, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, JSON: true, UnaryTools: true, StreamUsage: true, Reasoning: "reasoning"}, queryState: queryOllama},
	{Name: "llamacpp", BaseURL: "http://127.0.0.1:8080/v1", KeyName: "LLAMA_API_KEY", Params: chatParams, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, PlainSchema: true, JSON: true, ToolChoice: true, ToolChoiceModeOnly: true, StreamUsage: true,
			Reasoning: "reasoning_content", Audio: anyModel}, queryState: queryLlamaCpp},
	{Name: "lmstudio", BaseURL: "http://127.0.0.1:1234/v1", KeyName: "LM_API_TOKEN", Params: localParams, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, ToolChoice: true, ToolChoiceModeOnly: true, StreamUsage: true, Reasoning: wire.SameField}, queryState: queryModelList("/api/v0/models")},
	{Name: "localai", BaseURL: "http://127.0.0.1:8080/v1", KeyName: "LOCALAI_API_KEY", Params: localParams, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		Server: wire.Server{Schema: true, JSON: true, ToolChoice: true, StreamUsage: true, Reasoning: wire.SameField}},
	{Name: "compatible", Params: chatParams, Example: "https://host/v1", Server: wire.Server{ToolChoice: true, StreamUsage: true, OptionalFinish: true, Reasoning: wire.SameField,
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
			MediaForm: wire.MediaDataURL, Audio: []string{"omni", "audio"}, CacheSystem: "qwen", CacheTurns: "qwen"}},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", KeyName: "GROQ_API_KEY", NeedsKey: true,
		Params: []string{paramSeed, paramParallel, paramEffort},
		Server: wire.Server{JSON: true, ToolChoice: true, StreamUsage: true, ParamNames: completionTokens, Reasoning: "reasoning"}},
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
		Server: plainChat, queryState: queryLlamaCpp},
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
