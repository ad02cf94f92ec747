package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm"
)

// cacheTurns is the number of turns of the measured conversation; each is a question, two tool calls and an answer.
const cacheTurns = 50

// cachedModel is a model whose provider caches prompts, and the caching rule.
type cachedModel struct {
	name, kind, model, api, rule string
	// least is the minimum share of the input from the cache.
	least float64
}

// cachedModels has one model per caching API.
var cachedModels = []cachedModel{
	{"anthropic", "anthropic", "claude-sonnet-4-5", "", byMarks, 0.9},
	{"bedrock, Claude", "bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "", byMarks, 0.9},
	{"bedrock, Nova", "bedrock", "amazon.nova-pro-v1:0", "", byMarks, 0.05},
	{"openrouter, Claude", "openrouter", "anthropic/claude-sonnet-4.5", "", byWhole, 0.9},
	{"openrouter, Gemini", "openrouter", "google/gemini-2.5-pro", "", byLastMark, 0.05},
	{"dashscope", "dashscope", "qwen3-max", "", byMarks, 0.9},
	{"openai, Responses", "openai", "gpt-5-mini", "responses", byKey, 0.9},
	{"openai, chat", "openai", "gpt-5-mini", "chat", byKey, 0.9},
	{"azure", "azure", "gpt-5-mini", "responses", byKey, 0.9},
	{"mistral", "mistral", "mistral-large-latest", "", byKey, 0.9},
	{"xai, chat", "xai", "grok-4", "chat", byKey, 0.9},
	{"xai, Responses", "xai", "grok-4", "responses", byKey, 0.9},
}

// caches measures the share of a long conversation's input that comes from each provider's cache.
func caches(ctx context.Context, b *bench) error {
	b.table.plainHead("Caches: the share of the input of %d turns that comes from a provider's cache", cacheTurns)
	b.table.note("%-20s %-28s %10s %22s", "", "found by", "share", "prompt_cache: false")
	for _, m := range cachedModels {
		with, err := m.share(ctx, false)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		without, err := m.share(ctx, true)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		b.table.note("%-20s %-28s %9.1f%% %21.1f%%", m.name, m.rule, 100*with, 100*without)
	}
	return nil
}

// share calls a provider repeatedly, as an agent does.
func (m cachedModel) share(ctx context.Context, off bool) (float64, error) {
	server := httptest.NewServer(&promptCache{rule: m.rule})
	defer server.Close()
	models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{
		"p": {Kind: m.kind, BaseURL: server.URL + "/v1", Key: "k", API: m.api, Unary: true, NoCache: off},
	}})
	if err != nil {
		return 0, err
	}
	call := &llm.Call{Kind: llm.KindAgent}
	call.System, call.Conversation = strings.Repeat("Be brief and exact in all that you say. ", 200), "run/thread"
	call.Options = llm.Options(llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{
		Name: "look", Description: "Looks something up.", Parameters: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}}}`)}}}))
	var u contract.Usage
	ask := func() error {
		answer, err := models.Generate(ctx, "p/"+m.model, call)
		if err == nil {
			u.Add(answer.Usage)
		}
		return err
	}
	for n := range cacheTurns {
		text := func(of string) string { return strings.Repeat(fmt.Sprintf("%s %d has some words. ", of, n), 20) }
		call.Messages = append(call.Messages, contract.Message{Role: contract.RoleUser, Text: text("Question")})
		if err := ask(); err != nil {
			return 0, err
		}
		one, two := fmt.Sprintf("callnr%03d", 2*n), fmt.Sprintf("callnr%03d", 2*n+1)
		call.Messages = append(call.Messages,
			contract.Message{Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: one, Name: "look", Arguments: `{"at":"a"}`}, {ID: two, Name: "look", Arguments: `{"at":"b"}`}}},
			contract.Message{Role: contract.RoleTool, CallID: one, Name: "look", Text: text("Result")},
			contract.Message{Role: contract.RoleTool, CallID: two, Name: "look", Text: text("Another result")})
		if err := ask(); err != nil {
			return 0, err
		}
		call.Messages = append(call.Messages, contract.Message{Role: contract.RoleAssistant, Text: text("Answer")})
	}
	return float64(u.Cached) / float64(u.Input), nil
}
