package config

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const file = "connections:\n  c:\n    url: https://x.example/mcp\n    headers: {Authorization: \"Bearer ${TOKEN}\", X-Two: \"${TOKEN}-${OTHER}\"}\n"
	tests := map[string]struct {
		env  fakeEnv
		want map[string]string
		err  string
	}{
		"from variables": {env: fakeEnv{"TOKEN": "t", "OTHER": "o"}, want: map[string]string{"Authorization": "Bearer t", "X-Two": "t-o"}},
		"from a file":    {env: fakeEnv{"TOKEN_FILE": keyFile, "OTHER": "o"}, want: map[string]string{"Authorization": "Bearer from-file", "X-Two": "from-file-o"}},
		"all missing variables": {env: fakeEnv{}, err: "connections.c.headers.Authorization: the environment variable TOKEN is not set, nor is TOKEN_FILE\n" +
			"connections.c.headers.X-Two: the environment variable TOKEN is not set, nor is TOKEN_FILE\n" +
			"connections.c.headers.X-Two: the environment variable OTHER is not set, nor is OTHER_FILE"},
		"variable and file": {env: fakeEnv{"TOKEN": "t", "OTHER": "geheim", "OTHER_FILE": keyFile},
			err: "connections.c.headers.X-Two: both OTHER and OTHER_FILE are set; unset one of them"},
		"missing file": {env: fakeEnv{"TOKEN": "t", "OTHER_FILE": "/no/such/file"},
			err: "connections.c.headers.X-Two: read OTHER_FILE: open /no/such/file: no such file or directory"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			settings, err := load(t, file, tc.env).Tool()
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("Tool() error = %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, settings.Connections["c"].Headers); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProviderKeys(t *testing.T) {
	cfg := load(t, "providers:\n  mine: {kind: compatible, base_url: 'https://x.example/v1', key_env: MINE}\n",
		fakeEnv{"MINE": "k1", "OPENAI_API_KEY": "k2", "OLLAMA_HOST": "127.0.0.1:9"})
	settings, err := cfg.LLM()
	if err != nil {
		t.Fatal(err)
	}
	mine, openai, ollama := settings.Providers["mine"], settings.Providers["openai"], settings.Providers["ollama"]
	if mine.Key != "k1" || mine.KeyName != "MINE" || mine.Kind != "compatible" {
		t.Errorf("mine = %+v", mine)
	}
	if openai.Key != "k2" || openai.KeyName != "OPENAI_API_KEY" {
		t.Errorf("openai = %+v", openai)
	}
	if ollama.BaseURL != "127.0.0.1:9" {
		t.Errorf("ollama = %+v", ollama)
	}
	if diff := cmp.Diff([]string{"mine", "openai"}, cfg.Keys()); diff != "" {
		t.Errorf("Keys() (-want +got):\n%s", diff)
	}
}

func TestDefaultModel(t *testing.T) {
	ollama := func(body string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	running := ollama(`{"models":[{"name":"all-minilm:latest","details":{"family":"bert"}},{"name":"llama3.2:3b","details":{"family":"llama"}}]}`)
	tests := map[string]struct {
		file string
		env  fakeEnv
		want string
		err  string
	}{
		"configured":                   {file: "model: mistral/large", env: fakeEnv{"OPENAI_API_KEY": "k"}, want: "mistral/large"},
		"OpenAI key":                   {env: fakeEnv{"OPENAI_API_KEY": "k", "OLLAMA_HOST": running}, want: smallModel},
		"local Ollama":                 {env: fakeEnv{"OLLAMA_HOST": running}, want: "ollama/llama3.2:3b"},
		"Koog's variable":              {env: fakeEnv{"OLLAMA_BASE_URL": running}, want: "ollama/llama3.2:3b"},
		"both variables":               {env: fakeEnv{"OLLAMA_BASE_URL": closedPort(t), "OLLAMA_HOST": running}, want: "ollama/llama3.2:3b"},
		"Koog's variable, unreachable": {env: fakeEnv{"OLLAMA_BASE_URL": closedPort(t)}, err: "OLLAMA_BASE_URL is set, but its models cannot be listed"},
		"nothing configured":           {env: fakeEnv{}},
		"Ollama without models":        {env: fakeEnv{"OLLAMA_HOST": ollama(`{"models":[]}`)}, err: "has no models; pull one"},
		"unreachable Ollama":           {env: fakeEnv{"OLLAMA_HOST": closedPort(t)}, err: "OLLAMA_HOST is set, but its models cannot be listed"},
		"script set by variable":       {env: fakeEnv{"WEFT_MODEL": "script", "OPENAI_API_KEY": "k"}, want: "script"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, tc.file, tc.env).DefaultModel(context.Background())
			if got != tc.want {
				t.Errorf("DefaultModel() = %q, want %q", got, tc.want)
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("DefaultModel() error = %v, want %q in it", err, tc.err)
			}
		})
	}
}

// closedPort returns a local address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestClientErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "temporal.toml")
	profile := filepath.Join(t.TempDir(), "temporal.toml")
	address := closedPort(t)
	if err := os.WriteFile(profile, []byte("[profile.default]\naddress = \""+address+"\"\nnamespace = \"mine\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		env  fakeEnv
		want string
	}{
		"address from the environment": {env: fakeEnv{"TEMPORAL_CONFIG_FILE": missing, "TEMPORAL_ADDRESS": address},
			want: "no Temporal at " + address + " (TEMPORAL_ADDRESS), namespace \"default\": "},
		"address from Temporal's configuration file": {env: fakeEnv{"TEMPORAL_CONFIG_FILE": profile},
			want: "no Temporal at " + address + " (Temporal's configuration file), namespace \"mine\": "},
		"missing certificate": {env: fakeEnv{"TEMPORAL_CONFIG_FILE": missing, "TEMPORAL_TLS_CLIENT_CERT_PATH": "/no/cert", "TEMPORAL_TLS_CLIENT_KEY_PATH": "/no/key"},
			want: "read Temporal's settings (TEMPORAL_… and temporal.toml): "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "", tc.env).Client(context.Background(), nil)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("Client() error = %v, want prefix %s", err, tc.want)
			}
		})
	}
}
