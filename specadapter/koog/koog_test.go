package koog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/specadapter"
	"weft/specadapter/adaptertest"
	"weft/specadapter/source"
)

func TestGolden(t *testing.T) { adaptertest.Golden(t) }

// flow returns a document whose first agent branches to another one or to the end on a condition.
func flow(condition string) []byte {
	return []byte(`{"id": "f", "version": "1", "defaultModel": "openai/gpt-4o", "agents": [
{"name": "a", "type": "task", "params": {"task": "t"}},
{"name": "b", "type": "task", "params": {"task": "t"}}],
"transitions": [{"from": "a", "to": "b", "condition": ` + condition + `}, {"from": "a", "to": "__finish__"}]}`)
}

// TestDocumentedConditions checks that both profiles accept the conditions of the protocol's documentation.
func TestDocumentedConditions(t *testing.T) {
	for _, c := range []string{
		`{"variable": "input.data", "operation": "EQUALS", "value": "invoice"}`,
		`{"variable": "input.data", "operation": "NOT_EQUALS", "value": "en"}`,
		`{"variable": "input.data", "operation": "MORE", "value": 80}`,
		`{"variable": "input.data", "operation": "LESS", "value": 50}`,
		`{"variable": "input.data", "operation": "MORE_OR_EQUAL", "value": 80}`,
		`{"variable": "input.data", "operation": "LESS_OR_EQUAL", "value": 100}`,
		`{"variable": "input.data", "operation": "NOT", "value": true}`,
		`{"variable": "input.data", "operation": "AND", "value": true}`,
		`{"variable": "input.data", "operation": "OR", "value": false}`,
	} {
		for _, profile := range []string{"default", "koog"} {
			if res, diags := specadapter.Load("f.json", flow(c), specadapter.Options{Profile: profile}); res == nil || res.Flow.Edges[1].Compare == nil {
				t.Errorf("%s, %s: %v", profile, c, diags)
			}
		}
	}
}

// TestConditionValues checks that the default profile keeps the JSON type of a condition's value: quoted values are strings.
func TestConditionValues(t *testing.T) {
	tests := map[string]struct{ want, koog string }{
		`80`:         {`80`, `80.0`},
		`80.0`:       {`80.0`, `80.0`},
		`"42"`:       {`"42"`, `42.0`},
		`"true"`:     {`"true"`, `true`},
		`true`:       {`true`, `true`},
		`"NaN"`:      {`"NaN"`, `{"$double":"NaN"}`},
		`3000000000`: {`3000000000`, `3000000000.0`},
	}
	for value, want := range tests {
		for profile, want := range map[string]string{"default": want.want, "koog": want.koog} {
			res, diags := specadapter.Load("f.json", flow(`{"variable": "input.data", "operation": "equals", "value": `+value+`}`), specadapter.Options{Profile: profile})
			if res == nil {
				t.Fatal(diags)
			}
			if got := string(res.Flow.Edges[1].Compare.Value); got != want {
				t.Errorf("%s: %s is %s, want %s", profile, value, got, want)
			}
		}
	}
}

func TestModels(t *testing.T) {
	tests := map[string]string{
		"openai/gpt-4o": "openai/gpt-4o", "openai/gpt4o": "openai/gpt-4o", "openai/gpt-4o-mini": "openai/gpt-4o-mini", "openai/gpt4_1": "openai/gpt-4.1",
		"anthropic/sonnet_4": "anthropic/claude-sonnet-4-0", "anthropic/opus-4-5": "anthropic/claude-opus-4-5", "anthropic/claude-3-opus": "anthropic/claude-3-opus",
		"google/gemini2_5pro": "google/gemini-2.5-pro", "google/gemini-pro": "google/gemini-pro", "mistral/mistral-large": "mistral/mistral-large-latest",
		"deepseek/deepseek-chat": "deepseek/deepseek-chat", "openrouter/claude-3-opus": "openrouter/anthropic/claude-3-opus",
		"openrouter/x/y:free": "openrouter/x/y:free", "ollama/llama3.2:3b": "ollama/llama3.2:3b", "ollama/meta/llama3.2:3b": "ollama/llama3.2:3b",
		"gpt-5": "openai/gpt-5", "my-server/whatever": "my-server/whatever",
	}
	for text, want := range tests {
		doc := strings.Replace(string(flow(`{"variable": "input.data", "operation": "equals", "value": 1}`)), `openai/gpt-4o`, text, 1)
		res, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{})
		if res == nil {
			t.Fatal(diags)
		}
		if res.Flow.Model != want {
			t.Errorf("%s is %s, want %s", text, res.Flow.Model, want)
		}
	}
}

// TestLargeDocuments checks that the largest documents load within bounds, however invalid they are.
func TestLargeDocuments(t *testing.T) {
	agents, chain, invalid, fan := make([]string, 0, 5000), []string{}, []string{}, []string{}
	for i := range 5000 {
		agents = append(agents, fmt.Sprintf(`{"name":"agent-%d","type":"task","params":{"task":"t"}}`, i))
	}
	for i := range 24_000 {
		chain = append(chain, fmt.Sprintf(`{"from":"agent-%d","to":"agent-%d","condition":{"variable":"input.data","operation":"equals","value":%d}}`, i%5000, (i+1)%5000, i))
		invalid = append(invalid, fmt.Sprintf(`{"from":"agen-%d","to":"agents-%d","condition":{"variable":"x","operation":"equal","value":[]}}`, i, i))
		fan = append(fan, fmt.Sprintf(`{"from":"agent-0","to":"agent-%d","condition":{"variable":"input.data","operation":"more","value":%d}}`, i%5000, i%9000))
	}
	for name, list := range map[string][]string{"chain": chain, "invalid": invalid, "fan": fan} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(`{"id":"x","version":"1","agents":[%s],"transitions":[%s]}`, strings.Join(agents, ","), strings.Join(list, ","))
			start := time.Now()
			_, diags := specadapter.Load("x.json", []byte(text), specadapter.Options{})
			if took := time.Since(start); took > 3*time.Minute || len(diags) == 0 {
				t.Errorf("%d diagnostics took %v", len(diags), took)
			}
		})
	}
}

// FuzzAdapt checks that the adapter never panics and returns either a plan or an error.
func FuzzAdapt(f *testing.F) {
	f.Add(flow(`{"variable": "output.success", "operation": "not", "value": "x"}`))
	f.Add([]byte(`{"id":"x","version":1,"agents":[{"name":"p","type":"parallel","params":{"agents":["c"],"merge":{"variable":"results.0.output","operation":"equals","value":{"type":"int","data":1}}}},{"name":"c","type":"react"}],"tools":[{"name":"t","type":"mcp","parameters":{"transport":"stdio","command":"x"}}]}`))
	f.Add([]byte(`{"id":"x","version":"1","defaultModel":"openai/o3","agents":[{"name":"p","type":"parallel","params":{"agents":["q","c"]}},{"name":"q","type":"parallel","params":{"agents":["c","p"],"merge":{"variable":"results.1.output","operation":"equals","value":1}}},{"name":"c","type":"transform"}]}`))
	f.Add([]byte(`{"id":"x","version":"1","agents":null,"transitions":null,"tools":null}`))
	f.Add([]byte(`{"agents":[{"type":"transform","params":{"transformations":[{"value":""}]}}],"transitions":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, profile := range []string{"default", "koog"} {
			res, diags := specadapter.Load("f.json", raw, specadapter.Options{Dialect: "koog", Profile: profile})
			if (res == nil) != source.HasErrors(diags) {
				t.Fatalf("%s: result %v with %v", profile, res, diags)
			}
		}
	})
}

// TestModelSpellings checks that every spelling of Koog's model names maps to the provider's name.
func TestModelSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"openai/chat.gpt4o": "openai/gpt-4o", "openai/GPT4oMini": "openai/gpt-4o-mini", "openai/gpt5_2pro": "openai/gpt-5.2-pro",
		"mistral/chat.codestral": "mistral/codestral-latest", "ollama/meta.llama3.2:3b": "ollama/llama3.2:3b", "ollama/alibaba/qwq": "ollama/qwq",
		"ollama/alibaba/other": "ollama/alibaba/other", "openrouter/claude-35-sonnet": "openrouter/anthropic/claude-3.5-sonnet", "anthropic/Haiku-4-5": "anthropic/claude-haiku-4-5",
		"OpenAI/gpt-4o": "openai/gpt-4o", "google/gemini-2.5-pro": "google/gemini-2.5-pro", "openai/gpt-4.1-mini": "openai/gpt-4.1-mini",
		"openai/ft:gpt-4o:me::1": "openai/ft:gpt-4o:me::1", "openrouter/meta-llama/llama-3:free": "openrouter/meta-llama/llama-3:free",
	} {
		doc := strings.Replace(string(flow(`{"variable": "input.data", "operation": "equals", "value": 1}`)), `openai/gpt-4o`, text, 1)
		if res, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{}); res == nil || res.Flow.Model != want {
			t.Errorf("%s is not %s: %v", text, want, diags)
		}
	}
}

// TestUnqualifiedFields checks that a transformation of neither input nor output is read from the input with a
// warning, and that null is not a list of agents.
func TestUnqualifiedFields(t *testing.T) {
	for doc, want := range map[string]string{
		`{"id":"x","version":"1","agents":[{"name":"a","type":"transform","params":{"transformations":[{"value":"result.success"}]}}]}`: "transformation",
		`{"id":"x","version":"1","agents":[{"name":"a","type":"transform","params":{"transformations":[{"value":"success"}]}}]}`:        "",
		`{"id":"x","version":"1","agents":null}`:                                                            "no-agents",
		`{"id":"x","version":"1","defaultModel":" ","agents":[{"name":"a","type":"transform","model":""}]}`: "modelmodel",
	} {
		_, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{Dialect: "koog"})
		got := ""
		for _, d := range diags {
			got += d.Code
		}
		if got != want {
			t.Errorf("%s: %v, want %q", doc, diags, want)
		}
	}
}

// TestTypePropagation checks that a known type is propagated through agents that pass the value unchanged.
func TestTypePropagation(t *testing.T) {
	const flow = `{"id":"x","version":"1","agents":[{"name":"v","type":"verify","params":{"task":"t"}},{"name":"w","type":"task","params":{"task":"t"}},
{"name":"a","type":"transform"},{"name":"b","type":"transform"}],"transitions":[%s,{"from":"b","to":"__finish__","condition":{"variable":%q,"operation":"equals","value":%s}},{"from":"b","to":"%s"}]}`
	const straight, part = `{"from":"v","to":"a"},{"from":"a","to":"b"}`, `{"from":"v","to":"a","transformation":{"value":"output.feedback"}},{"from":"a","to":"b"}`
	const two = `{"from":"w","to":"a"},{"from":"a","to":"b"},{"from":"v","to":"b"}`
	for name, tc := range map[string]struct{ ways, variable, value, back, want string }{
		"success is not a string":        {straight, "input.success", `"x"`, "__finish__", "never-holds"},
		"success is a boolean":           {straight, "input.success", `true`, "__finish__", ""},
		"a verification has no data":     {straight, "input.data", `true`, "__finish__", "never-holds"},
		"feedback is a string":           {part, "input.data", `true`, "__finish__", "never-holds"},
		"feedback may have this value":   {part, "input.data", `"x"`, "__finish__", ""},
		"two paths with different types": {two, "input.success", `"x"`, "__finish__", ""},
		"loop with the same value":       {straight, "input.success", `"x"`, "a", ""},
	} {
		_, diags := specadapter.Load("f.json", fmt.Appendf(nil, flow, tc.ways, tc.variable, tc.value, tc.back), specadapter.Options{})
		got := ""
		for _, d := range diags {
			if d.Code != "unreachable-agent" {
				got += d.Code
			}
		}
		if got != tc.want {
			t.Errorf("%s: %v, want %q", name, diags, tc.want)
		}
	}
}
