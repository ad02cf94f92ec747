package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/llm"
)

// TestReadmeModels checks that the example in the README is valid and sets what it shows.
func TestReadmeModels(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	cfg := load(t, text, fakeEnv{"HOME": "/home/me", "OPENAI_API_KEY": "k"})
	settings, err := cfg.LLM()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Open(settings); err != nil {
		t.Fatal(err)
	}
	cached, stored, less := 0.3, 3.75, 0.125
	want := map[string]llm.Price{
		"openai/gpt-5*": {Input: 1.25, Output: 10, Cached: &less}, "anthropic/*": {Input: 3, Output: 15, Cached: &cached, CacheWrite: &stored},
	}
	if diff := cmp.Diff(want, settings.Prices); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	openai, oci := settings.Providers["openai"], settings.Providers["oci"]
	if openai.RequestsPerMinute != 500 || openai.TokensPerMinute != 200_000 || openai.Concurrent != 20 || openai.Key != "k" {
		t.Errorf("openai %+v", openai)
	}
	if oci.Region != "us-chicago-1" || oci.Compartment == "" || oci.Auth != llm.AuthInstancePrincipal || oci.AuthFile != "/home/me/.oci/config" {
		t.Errorf("oci %+v", oci)
	}
}

func TestGoogleKeyVariables(t *testing.T) {
	for name, tc := range map[string]struct {
		env       fakeEnv
		key, from string
	}{
		"the preferred variable": {fakeEnv{"GEMINI_API_KEY": "a"}, "a", "GEMINI_API_KEY"},
		"the other variable":     {fakeEnv{"GOOGLE_API_KEY": "b"}, "b", "GOOGLE_API_KEY"},
		"both":                   {fakeEnv{"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}, "a", "GEMINI_API_KEY"},
		"neither":                {fakeEnv{}, "", "GEMINI_API_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := load(t, "", tc.env).LLM()
			if err != nil {
				t.Fatal(err)
			}
			if p := settings.Providers["google"]; p.Key != tc.key || p.KeyName != tc.from {
				t.Errorf("key %q from %s", p.Key, p.KeyName)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := load(t, "", fakeEnv{"GOOGLE_API_KEY_FILE": file}).LLM()
	if err != nil || settings.Providers["google"].Key != "c" {
		t.Errorf("%+v, %v", settings.Providers["google"], err)
	}
}

func TestPricesAreNumbers(t *testing.T) {
	_, err := Load(Options{File: write(t, "prices:\n  openai/x: { input: cheap, cached: -1 }\n"), Env: fakeEnv{}})
	if err == nil || !strings.Contains(err.Error(), "prices.openai/x.input") || !strings.Contains(err.Error(), "prices.openai/x.cached") || !strings.Contains(err.Error(), "expected a number like 1.25") {
		t.Errorf("error %v", err)
	}
}

// TestBedrockEnvironment checks that keys and region are read from AWS variables, and that settings take precedence.
func TestBedrockEnvironment(t *testing.T) {
	env := fakeEnv{"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t", "AWS_DEFAULT_REGION": "eu-west-1"}
	for text, region := range map[string]string{"": "eu-west-1", "providers: { bedrock: { region: us-east-1 } }\n": "us-east-1"} {
		settings, err := load(t, text, env).LLM()
		if err != nil {
			t.Fatal(err)
		}
		got := settings.Providers["bedrock"]
		if got.AWS != (llm.AWSKeys{ID: "AKID", Secret: "s", Token: "t"}) || got.Region != region || got.KeyName != "AWS_ACCESS_KEY_ID" {
			t.Errorf("%q: %+v", text, got)
		}
	}
	env["AWS_BEARER_TOKEN_BEDROCK"] = "k"
	for text, want := range map[string][2]string{"": {"AWS_BEARER_TOKEN_BEDROCK", "k"}, "providers: { bedrock: { key_env: MINE } }\n": {"MINE", ""}} {
		settings, err := load(t, text, env).LLM()
		if got := settings.Providers["bedrock"]; err != nil || got.KeyName != want[0] || got.Key != want[1] || got.AWS.ID != "" || got.Region != "eu-west-1" {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
