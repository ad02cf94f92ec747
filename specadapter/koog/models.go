package koog

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// aliases maps Koog's model names to the providers' names. Other names are used unchanged.
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

// resolve returns a model as provider/model, with the provider's name of the model.
func (a *adaptation) resolve(text string, at source.Pos) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	provider, id, slash := strings.Cut(text, "/")
	switch {
	case !slash:
		if a.mode == modeIntended {
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

// blankModel reports a model that is present but blank. In the published code, it is an unknown model.
func (a *adaptation) blankModel(o *source.Fields, key, text string) {
	if v := o.Get(key); a.mode == modeIntended && v != nil && v.Kind == source.String && strings.TrimSpace(text) == "" {
		a.Errorf(v.Pos, CodeModel, "use provider/model, for example openai/gpt-4o, or remove it", "%s of %s is blank", key, o.Name)
	}
}

// unalias converts Koog's name of a model, which may begin with a category or a maker, to the provider's name.
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

// tables are the models of the published code, by provider and category or maker.
var tables = map[string][]string{
	"openai.chat": {"gpt4o", "gpt4omini", "gpt4_1", "gpt4_1mini", "gpt4_1nano", "gpt5", "gpt5mini", "gpt5nano", "gpt5codex", "gpt5pro", "gpt5_1", "gpt5_1codex",
		"gpt5_1codexmax", "gpt5_2", "gpt5_2pro", "gpt5_2codex", "o1", "o3", "o3mini", "o4mini"},
	"openai.audio": {"gptaudio", "gpt4oaudio", "gpt4ominiaudio"},
	"anthropic": {"opus_3", "haiku_3", "sonnet_3_5", "haiku_3_5", "sonnet_3_7", "sonnet_4", "opus_4", "opus_4_1", "opus_4_5", "opus_4_6", "sonnet_4_5",
		"sonnet_4_6", "haiku_4_5"},
	"google": {"gemini2_0flash", "gemini2_0flash001", "gemini2_0flashlite", "gemini2_0flashlite001", "gemini2_5flash", "gemini2_5flashlite", "gemini2_5pro",
		"gemini3_pro_preview", "gemini3propreview", "gemini3flashpreview"},
	"mistral.chat": {"mistral_medium_3_1", "mistral_large_2_1", "mistral_small_2", "magistral_medium_1_2", "codestral", "devstral_medium"},
	"deepseek":     {"deepseek-chat", "deepseek-reasoner"},
	"openrouter": {"claude3haiku", "claude3opus", "claude3sonnet", "claude35sonnet", "claude4sonnet", "claude41opus", "gpt35turbo", "gpt4", "gpt4turbo", "gpt4o",
		"gptoss120b", "gpt5", "gpt5mini", "gpt5nano", "gpt52", "gpt52pro"},
	"ollama.groq":    {"llama3-grok-tool-use:8b", "llama3-groq-tool-use:8b", "llama3-grok-tool-use:70b", "llama3-groq-tool-use:70b"},
	"ollama.meta":    {"llama3.2:3b", "llama3.2", "llama4:latest", "llama-guard3:latest"},
	"ollama.alibaba": {"qwen2.5:0.5b", "qwen3:0.6b", "qwq:32b", "qwq", "qwen2.5-coder:32b"},
}

var koogProviders = []string{"openai", "anthropic", "google", "mistral", "deepseek", "openrouter", "ollama"}

// modelError returns the published code's error for a model at the start of a run, or "".
func modelError(m mode, model string) string {
	provider, id, slash := strings.Cut(model, "/")
	switch {
	case !slash && m == modeLater:
		return fmt.Sprintf("Invalid model string format: <%s>. Expected format: <provider_name>/<model_name>", model)
	case !slash:
		return "Index 1 out of bounds for length 1"
	case !slices.Contains(koogProviders, strings.ToLower(provider)):
		return ""
	case m == modeLater:
		name := strings.ReplaceAll(model, "/", ".")
		if first, rest, ok := strings.Cut(name, "."); ok && strings.EqualFold(first, "openai") && !strings.HasPrefix(rest, "chat.") {
			name = first + ".chat." + rest
		}
		if name = strings.ToLower(strings.ReplaceAll(name, "-", "_")); !inTables(name) {
			return fmt.Sprintf("Unable to find model identifier from string: '%s' (normalized: '%s')", model, name)
		}
		return ""
	}
	name := provider + "." + id
	if strings.EqualFold(provider, "openai") && !strings.Contains(model, ".") {
		name = provider + ".chat." + id
	}
	if name = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)); !inTables(name) {
		return "Unable to find model identifier from string: " + name
	}
	return ""
}

// inTables reports whether the tables of the published code contain a normalized model name.
func inTables(name string) bool {
	parts := strings.Split(name, ".")
	provider, rest := parts[0], parts[1:]
	has := func(table, model string) bool { return slices.Contains(tables[table], model) }
	switch provider {
	case "openai", "mistral":
		return len(rest) > 1 && has(provider+"."+rest[0], rest[1])
	case "openrouter":
		return has(provider, strings.NewReplacer("-", "", "_", "").Replace(rest[0]))
	case "ollama":
		if len(rest) > 1 {
			return has("ollama."+rest[0], strings.Join(rest[1:], "."))
		}
		return has("ollama.groq", rest[0]) || has("ollama.meta", rest[0]) || has("ollama.alibaba", rest[0])
	case "anthropic", "google":
		return has(provider, strings.ReplaceAll(rest[0], "-", "_"))
	}
	return has(provider, rest[0])
}

// failUnknownModel adds a node that fails runs at their start if the published code rejects one of the models.
func (b *builder) failUnknownModel() {
	models := source.Map(b.doc.agents, func(ag *agent) step { return step{ag.modelText, ag.modelAt} })
	for _, m := range append(models, step{b.doc.modelText, b.doc.root.Pos("defaultModel")}) {
		failure := modelError(b.mode, m.text)
		if m.text == "" || failure == "" {
			continue
		}
		b.Warnf(m.at, CodeModel, "use one of Koog's names, or run the flow with the profile default", "every run fails, because the model %s is unknown to Koog: %s",
			source.Quote(m.text), failure)
		id := b.unique("models")
		b.add(plan.Node{ID: id, Name: "models", Kind: plan.KindTransform, Transform: &plan.Transform{Fail: failure}}, m.at)
		first := b.flow.Edges[0].To
		b.flow.Edges[0].To = id
		b.edge(plan.Edge{From: id, To: first}, m.at)
		return
	}
}
