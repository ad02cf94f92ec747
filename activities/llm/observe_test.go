package llm

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestObserve checks that every call of a model in a list is observed, with its outcome.
func TestObserve(t *testing.T) {
	m, _, _ := openPair(t, answer(503, `{"error":{"message":"down"}}`), okHandler)
	var got []string
	type key struct{}
	call := &Call{Observe: func(ctx context.Context, a Request) (context.Context, func(*Answer, error)) {
		got = append(got, fmt.Sprintf("%s %s stream %v", a.System, a.Model, a.Stream))
		return context.WithValue(ctx, key{}, true), func(answer *Answer, err error) {
			got = append(got, fmt.Sprintf("answer %v, error %v", answer != nil, err != nil))
		}
	}}
	if _, err := m.Generate(t.Context(), "a/x/y, b/z, b/never", newCall(call, hello(), nil)); err != nil {
		t.Fatal(err)
	}
	want := []string{"a x/y stream true", "answer false, error true", "b z stream true", "answer true, error false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observations (-want +got):\n%s", diff)
	}
	if _, err := m.Generate(t.Context(), "nobody/x", newCall(call, hello(), nil)); err == nil || got[len(got)-1] != "answer false, error true" {
		t.Errorf("unknown provider: %v, observations %v", err, got)
	}
}

// TestSystemNames checks that well-known providers have the names of OpenTelemetry's conventions,
// and others the name configured by the operator.
func TestSystemNames(t *testing.T) {
	m, err := Open(Settings{Providers: map[string]ProviderSettings{
		"second": {Kind: "azure", BaseURL: "https://r.openai.azure.com/openai/v1"}, "acme": {Kind: "compatible", BaseURL: "https://acme.example/v1", Unary: true}, "eu": {Kind: "openai"}}})
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"openai/m": "openai", "eu/m": "openai", "anthropic/m": "anthropic", "google/m": "gcp.gemini", "azure/m": "azure.ai.openai", "second/m": "azure.ai.openai", "bedrock/m": "aws.bedrock",
		"mistral/m": "mistral_ai", "xai/m": "x_ai", "deepseek/m": "deepseek", "groq/m": "groq", "cohere/m": "cohere", "acme/m": "acme", "ollama/m": "ollama", "script": "script",
	} {
		got := m.request(ref, newCall(&Call{}, hello(), tools()))
		if got.System != want {
			t.Errorf("%s: system %q, want %q", ref, got.System, want)
		}
		// Ollama's streams lose tool calls; acme is configured as unary.
		if unary := ref == "ollama/m" || ref == "acme/m" || ref == "script"; got.Stream == unary {
			t.Errorf("%s: streamed %v", ref, got.Stream)
		}
	}
}
