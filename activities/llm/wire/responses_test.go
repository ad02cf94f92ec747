package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

var openAI = Server{Responses: []string{"gpt-4o", "gpt-5", "o1"}, StrictSchema: true, Schema: true, RawArguments: true}

// plainOptions returns options with nothing set.
func plainOptions() llms.CallOptions { return llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1} }

// TestProtocolSelection checks how the document, the setting and the provider's defaults select the protocol.
func TestProtocolSelection(t *testing.T) {
	seeded, stopped, short := plainOptions(), plainOptions(), plainOptions()
	seeded.Seed, stopped.StopWords, short.MaxTokens = 7, []string{"END"}, 5
	for name, tc := range map[string]struct {
		model, setting, asked string
		options               llms.CallOptions
		extra, want, wantErr  string
	}{
		"listed model":                          {"gpt-5-mini", "", "", plainOptions(), ``, "/responses", ""},
		"other model":                           {"gpt-3.5-turbo", "", "", plainOptions(), ``, "/chat/completions", ""},
		"audio model":                           {"gpt-4o-audio-preview", "", "", plainOptions(), ``, "/chat/completions", ""},
		"search model":                          {"gpt-4o-mini-search-preview", "", "", plainOptions(), ``, "/chat/completions", ""},
		"excluded model":                        {"o1-mini-2024-09-12", "", "", plainOptions(), ``, "/chat/completions", ""},
		"with a seed":                           {"gpt-4o", "", "", seeded, ``, "/chat/completions", ""},
		"with stop sequences":                   {"gpt-4o", "", "", stopped, ``, "/chat/completions", ""},
		"max_tokens below the minimum":          {"gpt-4o", "", "", short, ``, "/chat/completions", ""},
		"with a chat-only field":                {"gpt-5", "", "", plainOptions(), `{"reasoning_effort":"low"}`, "/chat/completions", ""},
		"with a common field":                   {"gpt-5", "", "", plainOptions(), `{"user":"u"}`, "/responses", ""},
		"setting, with a chat-only field":       {"m", APIResponses, "", plainOptions(), `{"n":2}`, "", "does not support n; remove it"},
		"setting chat":                          {"gpt-5", APIChat, "", plainOptions(), ``, "/chat/completions", ""},
		"setting responses":                     {"m", APIResponses, "", plainOptions(), ``, "/responses", ""},
		"document overrides setting: chat":      {"gpt-5", APIResponses, APIChat, plainOptions(), ``, "/chat/completions", ""},
		"document overrides setting: responses": {"m", APIChat, APIResponses, plainOptions(), ``, "/responses", ""},
		"setting, with a seed":                  {"gpt-4o", APIResponses, "", seeded, ``, "", "does not support seed; remove it, or use chat completions (providers.openai.api"},
	} {
		m := Model{Server: openAI, Provider: "openai", Name: tc.model, API: tc.setting}
		out, err := m.Encode(&Request{Options: tc.options, API: tc.asked, Extra: json.RawMessage(tc.extra)})
		switch {
		case err != nil:
			if tc.wantErr == "" || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: %v, want %q", name, err, tc.wantErr)
			}
		case out.URL != tc.want:
			t.Errorf("%s: %s, want %s", name, out.URL, tc.want)
		}
	}
	claude := Model{Server: Server{Protocol: Claude}, Name: "claude-x"}
	if out, err := claude.Encode(&Request{Options: plainOptions(), API: APIResponses}); err != nil || out.URL != "/messages" {
		t.Errorf("a provider with neither protocol: %+v, %v", out, err)
	}
}

// TestResponsesSentBack checks that an answer's provider-specific items are sent back in order.
func TestResponsesSentBack(t *testing.T) {
	const thought = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"}`
	const search = `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}}`
	const message = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"So","annotations":[]}]}`
	const call = `{"type":"function_call","id":"fc_1","status":"completed","call_id":"c","name":"get","namespace":"n","arguments":"{k"}`
	const sentMessage = `{"content":[{"text":"So","type":"output_text"}],"phase":"commentary","role":"assistant","type":"message"}`
	const sentCall = `{"arguments":"{k","call_id":"c","name":"get","namespace":"n","type":"function_call"}`
	for name, tc := range map[string]struct{ model, provider, output, want string }{
		"all":                             {"gpt-5", "openai", thought + "," + search + "," + message + "," + call, thought + "," + search + "," + sentMessage + "," + sentCall},
		"calls before text":               {"gpt-5", "openai", call + "," + message, sentCall + "," + sentMessage},
		"reasoning without content":       {"gpt-5", "openai", `{"type":"reasoning","id":"rs_1","summary":[]},` + message, sentMessage},
		"unencrypted reasoning":           {"gpt-5", "openai", `{"type":"reasoning","id":"r","content":[{"type":"reasoning_text","text":"hm"}]},` + message, `{"type":"reasoning","id":"r","content":[{"type":"reasoning_text","text":"hm"}]},` + sentMessage},
		"trailing reasoning":              {"gpt-5", "openai", message + "," + thought, sentMessage},
		"to a model that does not reason": {"gpt-4o", "openai", thought + "," + message, sentMessage},
		"to another provider":             {"gpt-5", "azure", thought + "," + search + "," + message + "," + call, `{"content":[{"text":"So","type":"output_text"}],"role":"assistant","type":"message"},{"arguments":"{k","call_id":"c","name":"get","type":"function_call"}`},
	} {
		first := Model{Server: openAI, Provider: "openai", Name: "gpt-5", Unary: true}
		out, err := first.Encode(&Request{Options: plainOptions()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Answer.Read([]byte(`{"status":"completed","output":[`+tc.output+`]}`), false); err != nil {
			t.Fatal(err)
		}
		a, err := out.Answer.Result()
		if err != nil {
			t.Fatal(err)
		}
		next := Model{Server: openAI, Provider: tc.provider, Name: tc.model}
		out, err = next.Encode(&Request{Options: plainOptions(), Messages: []contract.Message{{Role: contract.RoleUser, Text: "go"}, a.Message, {Role: contract.RoleTool, CallID: "c", Text: "1"}}})
		if err != nil {
			t.Fatal(err)
		}
		var sent struct{ Input []json.RawMessage }
		if err := json.Unmarshal(out.Body, &sent); err != nil {
			t.Fatal(err)
		}
		var items []string
		for _, raw := range sent.Input[1 : len(sent.Input)-1] {
			items = append(items, string(raw))
		}
		if got := strings.Join(items, ","); got != tc.want {
			t.Errorf("%s: %s\nwant %s", name, got, tc.want)
		}
		if last := string(sent.Input[len(sent.Input)-1]); last != `{"call_id":"c","output":"1","type":"function_call_output"}` {
			t.Errorf("%s: result sent as %s", name, last)
		}
	}
}

// TestResponsesProviderTools checks that extra parameters add the provider's tools to those of the flow.
func TestResponsesProviderTools(t *testing.T) {
	m := Model{Server: openAI, Provider: "openai", Name: "gpt-5"}
	q := Request{Options: plainOptions(), Extra: json.RawMessage(`{"tools":[{"type":"web_search"}],"include":["web_search_call.action.sources"],"reasoning":{"summary":"auto"}}`), Effort: "low"}
	q.Options.Tools = []llms.Tool{{Function: &llms.FunctionDefinition{Name: "get"}}}
	out, err := m.Encode(&q)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"tools":[{"name":"get","parameters":{"type":"object","properties":{}},"strict":false,"type":"function"},{"type":"web_search"}]`,
		`"include":["reasoning.encrypted_content","web_search_call.action.sources"]`, `"reasoning":{"effort":"low","summary":"auto"}`, `"store":false`,
	} {
		if !strings.Contains(string(out.Body), want) {
			t.Errorf("%s\nis not in %s", want, out.Body)
		}
	}
}

// TestResponsesStopReasons checks the text and stop reason, or the error, at the end of an answer.
func TestResponsesStopReasons(t *testing.T) {
	const item = `{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"Hello"}]}}`
	for name, tc := range map[string]struct {
		events               []string
		text, stop, wantText string
	}{
		"items only in the stream":  {[]string{item, `{"type":"response.completed","response":{"status":"completed","output":[]}}`}, "Hello", "stop", ""},
		"complete last event":       {[]string{`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hel"},{"type":"output_text","text":"lo"}]}]}}`}, "Hello", "stop", ""},
		"token limit":               {[]string{item, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`}, "Hello", "length", ""},
		"a filter":                  {[]string{item, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`}, "Hello", "content_filter", ""},
		"a failure":                 {[]string{item, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"oops"}}}`}, "", "", "server_error"},
		"a failure without a cause": {[]string{item, `{"type":"response.failed","response":{"status":"failed"}}`}, "", "", "aborted"},
		"cut":                       {[]string{`{"type":"response.output_text.delta","delta":"Hel"}`}, "", "", "after 3 bytes of text: it was cut"},
		"a call without a name":     {[]string{`{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"c"}]}}`}, "", "", "has no name"},
	} {
		r := &responsesReader{draft: draft{m: &Model{Provider: "openai", Name: "gpt-5"}}}
		var err error
		for _, e := range tc.events {
			if _, err = r.Read([]byte(e), true); err != nil {
				break
			}
		}
		var a *Answer
		if err == nil {
			a, err = r.Result()
		}
		var own *Error
		switch {
		case tc.wantText != "":
			if !errors.As(err, &own) || !strings.Contains(own.Error(), tc.wantText) {
				t.Errorf("%s: %v, want %q", name, err, tc.wantText)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case a.Message.Text != tc.text || a.Stop != tc.stop:
			t.Errorf("%s: %q, %q", name, a.Message.Text, a.Stop)
		}
	}
}
