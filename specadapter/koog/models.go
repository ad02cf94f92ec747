package koog

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// aliases maps Koog's names of models to the providers'. Others are used unchanged.
var aliases = map[string]map[string]string{
	"openai": {
		"gpt4o": "gpt-4o", "gpt4omini": "gpt-4o-mini", "gpt4_1": "gpt-4.1", "gpt4_1mini": "gpt-4.1-mini", "gpt4_1nano": "gpt-4.1-nano",
		"gpt5": "gpt-5", "gpt5mini": "gpt-5-mini", "gpt5nano": "gpt-5-nano", "gpt5_1": "gpt-5.1", "o3mini": "o3-mini", "o4mini": "o4-mini", "o1mini": "o1-mini",
		"gpt5codex": "gpt-5-codex", "gpt5pro": "gpt-5-pro", "gpt5_1codex": "gpt-5.1-codex", "gpt5_1codexmax": "gpt-5.1-codex-max", "gpt5_2": "gpt-5.2",
		"gpt5_2pro": "gpt-5.2-pro", "gpt5_2codex": "gpt-5.2-codex",
	},
	"anthropic": {
		"opus_3": "claude-3-opus-20240229", "haiku_3": "claude-3-haiku-20240307", "haiku_3_5": "claude-3-5-haiku-latest",
		"sonnet_3_5": "claude-3-5-sonnet-latest", "sonnet_3_7": "claude-3-7-sonnet-latest", "sonnet_4": "claude-sonnet-4-0",
		"opus_4": "claude-opus-4-0", "opus_4_1": "claude-opus-4-1", "opus_4_5": "claude-opus-4-5", "sonnet_4_5": "claude-sonnet-4-5", "haiku_4_5": "claude-haiku-4-5",
		"opus_4_6": "claude-opus-4-6", "sonnet_4_6": "claude-sonnet-4-6",
	},
	"google": {
		"gemini2_0flash": "gemini-2.0-flash", "gemini2_0flashlite": "gemini-2.0-flash-lite", "gemini2_5pro": "gemini-2.5-pro",
		"gemini2_0flash001": "gemini-2.0-flash-001", "gemini2_0flashlite001": "gemini-2.0-flash-lite-001", "gemini3propreview": "gemini-3-pro-preview",
		"gemini3flashpreview": "gemini-3-flash-preview", "gemini2_5flash": "gemini-2.5-flash", "gemini2_5flashlite": "gemini-2.5-flash-lite", "gemini3_pro_preview": "gemini-3-pro-preview",
	},
	"mistral": {
		"chat/codestral": "codestral-latest", "chat/mistral_large": "mistral-large-latest", "chat/mistral_medium": "mistral-medium-latest",
		"chat/mistral_small": "mistral-small-latest", "mistral-large": "mistral-large-latest", "chat/mistral_medium_3_1": "mistral-medium-latest",
		"chat/mistral_large_2_1": "mistral-large-latest", "chat/mistral_small_2": "mistral-small-latest",
		"chat/magistral_medium_1_2": "magistral-medium-latest", "chat/devstral_medium": "devstral-medium-latest",
	},
	"deepseek": {"deepseekchat": "deepseek-chat", "deepseekreasoner": "deepseek-reasoner"},
	"openrouter": {
		"gpt4o": "openai/gpt-4o", "gpt4": "openai/gpt-4", "gpt4omini": "openai/gpt-4o-mini", "claude-3-opus": "anthropic/claude-3-opus", "claude3opus": "anthropic/claude-3-opus",
		"claude3sonnet": "anthropic/claude-3-sonnet", "claude3haiku": "anthropic/claude-3-haiku", "gemini2_5pro": "google/gemini-2.5-pro",
		"claude35sonnet": "anthropic/claude-3.5-sonnet", "claude4sonnet": "anthropic/claude-sonnet-4", "claude41opus": "anthropic/claude-opus-4.1",
		"gpt35turbo": "openai/gpt-3.5-turbo", "gpt4turbo": "openai/gpt-4-turbo", "gptoss120b": "openai/gpt-oss-120b", "gpt5": "openai/gpt-5",
		"gpt5mini": "openai/gpt-5-mini", "gpt5nano": "openai/gpt-5-nano", "gpt52": "openai/gpt-5.2", "gpt52pro": "openai/gpt-5.2-pro",
	},
}

// model is a model as the worker's providers know it: provider/model.
func (a *adaptation) resolve(text string, at source.Pos) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	provider, id, slash := strings.Cut(text, "/")
	switch {
	case !slash:
		if a.mode == meant {
			a.Warnf(at, CodeModel, fmt.Sprintf("use %q", "openai/"+text), "the model %s has no provider; OpenAI is assumed", source.Quote(text))
		}
		provider, id = "openai", text
	case id == "" || provider == "":
		a.Errorf(at, CodeModel, "use provider/model, for example openai/gpt-4o", "the model %s is not provider/model", source.Quote(text))
		return ""
	}
	provider = strings.ToLower(provider)
	return provider + "/" + unalias(provider, id)
}

// blankModel reports a model that is written, and blank. In the published code no table has it.
func (a *adaptation) blankModel(o *source.Fields, key, text string) {
	if v := o.Get(key); a.mode == meant && v != nil && v.Kind == source.String && strings.TrimSpace(text) == "" {
		a.Errorf(v.Pos, CodeModel, "use provider/model, for example openai/gpt-4o, or remove it", "%s of %s is blank", key, o.Name)
	}
}

// unalias returns a provider's name for Koog's, which may begin with a category or a maker.
func unalias(provider, id string) string {
	lower := strings.ToLower(id)
	if provider == "openai" {
		lower = strings.TrimPrefix(strings.TrimPrefix(lower, "chat."), "chat/")
	}
	if provider == "mistral" {
		lower = strings.Replace(lower, "chat.", "chat/", 1)
	}
	if i := strings.IndexAny(lower, "./"); provider == "ollama" && i > 0 && slices.Contains(tables["ollama."+lower[:i]], lower[i+1:]) {
		return id[i+1:]
	}
	for _, name := range []string{lower, strings.ReplaceAll(lower, "-", "_"), strings.ReplaceAll(lower, "-", "")} {
		if own, ok := aliases[provider][name]; ok {
			return own
		}
	}
	return id
}

// forcesTools reports whether Koog knows the model as one that obeys a tool choice.
func forcesTools(model string) bool { return !strings.HasPrefix(model, "ollama/") }
