package llm

import (
	"testing"

	"weft/activities/contract"
)

// TestConversationKey checks that the conversation's key is sent in a header to xAI, and in a field or not at all to others.
func TestConversationKey(t *testing.T) {
	key := contract.SHA([]byte("run/thread"))[:32]
	for kind, want := range map[string][2]string{"xai": {key, ""}, "openai": {"", key}, "mistral": {"", key}, "deepseek": {}, "compatible": {}, "ollama": {}} {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, okHandler)
			call := newCall(&Call{}, hello(), nil)
			call.Conversation = "run/thread"
			if _, err := generate(t.Context(), openModel(t, kind, s.URL), call); err != nil {
				t.Fatal(err)
			}
			field, _ := s.sent(t)["prompt_cache_key"].(string)
			if header := s.headers[0].Get("X-Grok-Conv-Id"); header != want[0] || field != want[1] {
				t.Errorf("header %q, field %q; want %q", header, field, want)
			}
		})
	}
}
