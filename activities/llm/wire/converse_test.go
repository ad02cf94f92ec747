package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// TestConverseModelFamilies checks that fields which only some model families support are sent only to those.
func TestConverseModelFamilies(t *testing.T) {
	const point = `{"cachePoint":{"type":"default"}}`
	turn := []contract.Message{{Role: contract.RoleUser, Text: "go"}, {Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: "c", Name: "get", Arguments: "{}"}}}, {Role: contract.RoleTool, CallID: "c", Text: "no", Error: true}}
	const tool = `{"toolSpec":{"inputSchema":{"json":{"type":"object","properties":{}}},"name":"get"}}`
	for name, tc := range map[string]struct {
		model, effort string
		has, hasNot   []string
		wantErr       string
	}{
		"Claude": {"us.anthropic.claude-sonnet-4-5-20250929-v1:0", "low", []string{`"tools":[` + tool + "," + point + `]`, `"system":[{"text":"s"},` + point + `]`, `"status":"error"`,
			`"additionalModelRequestFields":{"thinking":{"budget_tokens":2048,"type":"enabled"}}`}, nil, ""},
		"newer Claude":  {"anthropic.claude-opus-4-7", "low", []string{`"additionalModelRequestFields":{"output_config":{"effort":"low"},"thinking":{"type":"adaptive"}}`}, nil, ""},
		"an old Claude": {"anthropic.claude-3-haiku-20240307-v1:0", "", []string{`"status":"error"`}, []string{"cachePoint"}, ""},
		"Nova": {"us.amazon.nova-2-lite-v1:0", "minimal", []string{`"tools":[` + tool + `]`, `"system":[{"text":"s"},` + point + `]`, `"status":"error"`,
			`{"content":[{"text":"go"}],"role":"user"}`,
			`"additionalModelRequestFields":{"reasoningConfig":{"maxReasoningEffort":"low","type":"enabled"}}`}, nil, ""},
		"OpenAI's":           {"openai.gpt-oss-120b-1:0", "high", []string{`"additionalModelRequestFields":{"reasoning_effort":"high"}`}, []string{"cachePoint", "status"}, ""},
		"other model":        {"us.meta.llama4-maverick-17b-instruct-v1:0", "", nil, []string{"cachePoint", "status", "additionalModelRequestFields"}, ""},
		"unsupported effort": {"us.meta.llama4-maverick-17b-instruct-v1:0", "high", nil, nil, "the field of this model for it is unknown"},
	} {
		m := Model{Server: Server{Protocol: Converse, ResultImages: true}, Provider: "bedrock", Name: tc.model}
		q := Request{System: "s", Messages: turn, Options: plainOptions(), Effort: tc.effort}
		q.Options.Tools = []llms.Tool{{Function: &llms.FunctionDefinition{Name: "get"}}}
		out, err := m.Encode(&q)
		if tc.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: %v, want %q", name, err, tc.wantErr)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.has {
			if !strings.Contains(string(out.Body), want) {
				t.Errorf("%s: %s\nis not in %s", name, want, out.Body)
			}
		}
		for _, not := range tc.hasNot {
			if strings.Contains(string(out.Body), not) {
				t.Errorf("%s: %s is in %s", name, not, out.Body)
			}
		}
	}
}

// TestConverseExtra checks that extra parameters can add a guardrail and tools of the service.
func TestConverseExtra(t *testing.T) {
	m := Model{Server: Server{Protocol: Converse}, Provider: "bedrock", Name: "arn:aws:bedrock:us-east-1:1:inference-profile/a"}
	q := Request{Messages: []contract.Message{{Role: contract.RoleUser, Text: "go"}}, Options: plainOptions(),
		Extra: json.RawMessage(`{"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"},"toolConfig":{"tools":[{"systemTool":{"name":"nova_code_interpreter"}}]}}`)}
	q.Options.Tools = []llms.Tool{{Function: &llms.FunctionDefinition{Name: "get"}}}
	out, err := m.Encode(&q)
	if err != nil {
		t.Fatal(err)
	}
	if out.URL != "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fa/converse-stream" {
		t.Errorf("address %s", out.URL)
	}
	for _, want := range []string{`"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"}`, `"name":"get"}},{"systemTool":{"name":"nova_code_interpreter"}}]`} {
		if !strings.Contains(string(out.Body), want) {
			t.Errorf("%s\nis not in %s", want, out.Body)
		}
	}
}

// TestConverseBlocks checks that service blocks and signed reasoning, streamed or not, are sent back in order.
func TestConverseBlocks(t *testing.T) {
	whole := `{"stopReason":"tool_use","output":{"message":{"content":[{"reasoningContent":{"redactedContent":"YWJj"}},{"reasoningContent":{"reasoningText":{"text":"hm"}}},` +
		`{"toolUse":{"toolUseId":"s","name":"run","type":"server_tool_use","input":{"code":"1"}}},{"toolResult":{"toolUseId":"s","type":"ran","status":"success","content":[{"json":{"out":"1"}}]}},` +
		`{"citationsContent":{"content":[{"text":"So"}],"citations":[]}},{"toolUse":{"toolUseId":"c","name":"get","input":{"n":12345678901234567}}}]}}}`
	start := func(i, block string) string {
		return `{"contentBlockStart":{"contentBlockIndex":` + i + `,"start":` + block + `}}`
	}
	delta := func(i, block string) string {
		return `{"contentBlockDelta":{"contentBlockIndex":` + i + `,"delta":` + block + `}}`
	}
	stream := []string{
		`{"messageStart":{"role":"assistant"}}`, delta("0", `{"reasoningContent":{"redactedContent":"YQ=="}}`), delta("0", `{"reasoningContent":{"redactedContent":"YmM="}}`), delta("1", `{"reasoningContent":{"text":"hm"}}`),
		start("2", `{"toolUse":{"toolUseId":"s","name":"run","type":"server_tool_use"}}`), delta("2", `{"toolUse":{"input":"{\"code\":"}}`), delta("2", `{"toolUse":{"input":"\"1\"}"}}`),
		start("3", `{"toolResult":{"toolUseId":"s","type":"ran","status":"success"}}`), delta("3", `{"toolResult":[{"json":{"out":"1"}}]}`),
		delta("4", `{"text":"S"}`), delta("4", `{"citation":{"title":"x"}}`), delta("4", `{"text":"o"}`), start("5", `{"toolUse":{"toolUseId":"c","name":"get"}}`), delta("5", `{"toolUse":{"input":"{\"n\":12345678901234567}"}}`),
		`{"contentBlockStop":{"contentBlockIndex":5}}`, `{"messageStop":{"stopReason":"tool_use"}}`, `{"metadata":{"usage":{"inputTokens":1}}}`,
	}
	const want = `[{"reasoningContent":{"redactedContent":"YWJj"}},{"toolUse":{"toolUseId":"s","name":"run","type":"server_tool_use","input":{"code":"1"}}},` +
		`{"toolResult":{"toolUseId":"s","type":"ran","status":"success","content":[{"json":{"out":"1"}}]}},{"text":"So"},{"toolUse":{"input":{"n":12345678901234567},"name":"get","toolUseId":"c"}}]`
	for _, events := range [][]string{{whole}, stream} {
		m := Model{Server: Server{Protocol: Converse}, Provider: "bedrock", Name: "us.anthropic.claude-sonnet-4-5", NoCache: true}
		r := &converseReader{draft: draft{m: &m}, slots: map[int]*conversePart{}}
		for i, e := range events {
			done, err := r.Read([]byte(e), len(events) > 1)
			if err != nil || done != (i == len(events)-1) {
				t.Fatalf("%s: %v, %v", e, done, err)
			}
		}
		a, err := r.Result()
		if err != nil || a.Message.Reasoning != "hm" || a.Message.Text != "So" || a.Stop != "tool_calls" {
			t.Fatalf("%+v, %v", a, err)
		}
		got, err := json.Marshal(m.converseContent(&a.Message))
		if err != nil || string(got) != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		m.Name = "us.amazon.nova-pro-v1:0"
		if got, _ := json.Marshal(m.converseContent(&a.Message)); strings.Contains(string(got), "reasoning") {
			t.Errorf("sent to another model: %s", got)
		}
	}
}
