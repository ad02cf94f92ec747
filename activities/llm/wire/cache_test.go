package wire

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// conversation has two calls with their results, and then another turn.
var conversation = []contract.Message{
	{Role: contract.RoleUser, Text: "begin"},
	{Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: "a", Name: "now", Arguments: "{}"}, {ID: "b", Name: "now", Arguments: "{}"}}},
	{Role: contract.RoleTool, CallID: "a", Name: "now", Text: "one"},
	{Role: contract.RoleTool, CallID: "b", Name: "now", Text: "two"},
	{Role: contract.RoleAssistant, Text: "done"},
	{Role: contract.RoleUser, Text: "again"},
}

// TestCacheMarks checks that the system prompt and the ends of the last two requests are marked for servers that need marks.
func TestCacheMarks(t *testing.T) {
	turns := Server{ToolChoice: true, CacheSystem: "qwen", CacheTurns: "qwen"}
	for name, tt := range map[string]struct {
		m        Model
		messages []contract.Message
		tools    bool
		once     bool
		want     string // the marked texts
	}{
		"a conversation":           {Model{Server: turns, Name: "qwen3-max"}, conversation, true, false, "be brief|two|again"},
		"first turn":               {Model{Server: turns, Name: "qwen3-max"}, conversation[:1], true, false, "be brief|begin"},
		"after the results":        {Model{Server: turns, Name: "qwen3-max"}, conversation[:4], true, false, "be brief|begin|two"},
		"single question":          {Model{Server: turns, Name: "qwen3-max"}, conversation[:1], false, false, "be brief"},
		"judge":                    {Model{Server: turns, Name: "qwen3-max"}, conversation, true, true, ""},
		"another model":            {Model{Server: turns, Name: "deepseek-v3"}, conversation, true, false, ""},
		"switched off":             {Model{Server: turns, Name: "qwen3-max", NoCache: true}, conversation, true, false, ""},
		"only the system prompt":   {Model{Server: Server{ToolChoice: true, CacheSystem: "google/gemini"}, Name: "google/gemini-2.5-pro"}, conversation, true, false, "be brief"},
		"server without marks":     {Model{Server: Server{ToolChoice: true}, Name: "m"}, conversation, true, false, ""},
		"empty messages between":   {Model{Server: turns, Name: "qwen3-max"}, append(append([]contract.Message{}, conversation...), contract.Message{Role: contract.RoleAssistant, Text: "ok"}, contract.Message{Role: contract.RoleUser}), true, false, "be brief|two|again"},
		"file in the last message": {Model{Server: turns, Name: "qwen3-max"}, append(append([]contract.Message{}, conversation...), contract.Message{Role: contract.RoleAssistant, Text: "ok"}, contract.Message{Role: contract.RoleUser, Text: "see", Media: []contract.Media{{MediaType: "image/png", Data: "cG5n"}}}), true, false, "be brief|again|image_url"},
	} {
		t.Run(name, func(t *testing.T) {
			q := &Request{System: "be brief", Messages: tt.messages, Once: tt.once, Options: llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1}}
			if tt.tools {
				q.Options.Tools = weatherTools
			}
			out, err := tt.m.Encode(q)
			if err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Messages []struct {
					Content json.RawMessage `json:"content"`
				} `json:"messages"`
			}
			if err := json.Unmarshal(out.Body, &sent); err != nil {
				t.Fatal(err)
			}
			var marked []string
			for _, m := range sent.Messages {
				var parts []struct {
					Type, Text string
					Mark       *struct{ Type string } `json:"cache_control"`
				}
				_ = json.Unmarshal(m.Content, &parts)
				for _, p := range parts {
					if p.Mark != nil && p.Mark.Type == "ephemeral" {
						marked = append(marked, cmp.Or(p.Text, p.Type))
					}
				}
			}
			if got := strings.Join(marked, "|"); got != tt.want {
				t.Errorf("marked texts %q, want %q in %s", got, tt.want, out.Body)
			}
		})
	}
}

// TestCacheKeys checks that the conversation's key is sent where the server reads it, as a hash.
func TestCacheKeys(t *testing.T) {
	key := contract.SHA([]byte("run/thread"))[:32]
	for name, tt := range map[string]struct {
		server                   Server
		api, conversation, extra string
		off                      bool
		wantField, wantHeader    string
	}{
		"in the request":            {server: Server{CacheKey: true}, conversation: "run/thread", wantField: key},
		"Responses":                 {server: Server{CacheKey: true}, api: APIResponses, conversation: "run/thread", wantField: key},
		"in a header":               {server: Server{CacheKey: true, CacheHeader: "x-conv"}, conversation: "run/thread", wantHeader: key},
		"header and Responses":      {server: Server{CacheKey: true, CacheHeader: "x-conv"}, api: APIResponses, conversation: "run/thread", wantField: key},
		"no conversation":           {server: Server{CacheKey: true, CacheHeader: "x-conv"}},
		"another server":            {server: Server{}, conversation: "run/thread"},
		"another server, Responses": {server: Server{}, api: APIResponses, conversation: "run/thread"},
		"switched off":              {server: Server{CacheKey: true}, conversation: "run/thread", off: true},
		"key in extra":              {server: Server{CacheKey: true}, conversation: "run/thread", extra: `{"prompt_cache_key":"mine"}`, wantField: "mine"},
		"key in extra, Responses":   {server: Server{CacheKey: true}, api: APIResponses, conversation: "run/thread", extra: `{"prompt_cache_key":"mine"}`, wantField: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Model{Server: tt.server, Name: "m", API: tt.api, NoCache: tt.off}
			out, err := m.Encode(&Request{Messages: conversation[:1], Conversation: tt.conversation, Extra: json.RawMessage(tt.extra), Options: llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1}})
			if err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Key string `json:"prompt_cache_key"`
			}
			if err := json.Unmarshal(out.Body, &sent); err != nil || sent.Key != tt.wantField || out.Header["x-conv"] != tt.wantHeader {
				t.Errorf("key %q, want %q; headers %v (%v)", sent.Key, tt.wantField, out.Header, err)
			}
		})
	}
}
