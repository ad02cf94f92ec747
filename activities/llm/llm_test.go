package llm

import (
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
)

func TestInvalidSettings(t *testing.T) {
	_, err := Open(Settings{
		Default: "nobody/m",
		Providers: map[string]ProviderSettings{
			"a/b":       {Kind: "openai"},
			"corp":      {Kind: "acme"},
			"mine":      {Kind: "compatible", BaseURL: "ftp://x", Proxy: "::"},
			"openai":    {Key: "sk-hidden-value\n", Headers: map[string]string{"Host": "x", "bad name": "x", "X-A": "a\nb", "Authorization": "Bearer hidden-value"}},
			"vllm":      {BaseURL: "http://user:hidden-value@host/v1", IdleTimeout: time.Minute},
			"ollama":    {BaseURL: "http://host:11434/v1/chat/completions?x=hidden-value"},
			"anthropic": {BaseURL: "https://api.anthropic.com/v1/messages"},
			"mistral": {
				BaseURL: "https://host/v1/chat/completions", Headers: map[string]string{"X-B": "1", "x-b": "2"},
			},
		},
	})
	f := failureOf(t, err)
	if f.Class != contract.ClassConnection {
		t.Errorf("class %q", f.Class)
	}
	checkContains(t, f.Text,
		`name "a/b"`, `providers.corp.kind: unknown kind "acme"`, "openai, deepseek, anthropic, google, ",
		"providers.mine.base_url", "providers.mine.proxy", "OPENAI_API_KEY has a space, line break",
		"at byte 16", "Host is set by the engine", `"bad name"`, "X-A has a line break", "Authorization and a key are both set",
		`host "host"`, "providers.ollama.base_url",
		"ends in /chat/completions, which is appended", "ends in /messages, which is appended", "X-B is set twice", `default: model "nobody/m"`)
	if strings.Contains(f.Text, "hidden-value") {
		t.Errorf("secret in %q", f.Text)
	}
}

func TestGet(t *testing.T) {
	models, err := Open(Settings{Providers: map[string]ProviderSettings{
		"openai": {KeyName: "MY_OPENAI_KEY"}, "proxy": {Kind: "openrouter", Key: "k"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		ref      string
		class    string
		wantText []string
	}{
		"no provider":             {"gpt-5", contract.ClassBadRequest, []string{`"gpt-5" is not provider/model`, "openai/gpt-5", "ollama"}},
		"empty":                   {"", contract.ClassBadRequest, []string{"provider/model"}},
		"an unknown provider":     {"opnai/gpt-5", contract.ClassBadRequest, []string{`unknown provider "opnai"`, "anthropic, azure", "proxy, script, vllm, xai"}},
		"provider without model":  {"ollama/", contract.ClassBadRequest, []string{"ollama/MODEL"}},
		"a provider without key":  {"openai/gpt-5", contract.ClassConnection, []string{"MY_OPENAI_KEY", "worker's environment (not the client's)"}},
		"default key name":        {"deepseek/x", contract.ClassConnection, []string{"DEEPSEEK_API_KEY is not set"}},
		"a provider without URL":  {"compatible/x", contract.ClassConnection, []string{"providers: {\"compatible\": {base_url: "}},
		"model with slashes":      {"proxy/vendor/model:free", "", nil},
		"server without key":      {"ollama/qwen3:8b", "", nil},
		"the script":              {"script", "", nil},
		"the script with a name":  {"script/any", "", nil},
		"the script with no name": {"script/", contract.ClassBadRequest, []string{"script/MODEL"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := models.get(tc.ref)
			if tc.class == "" {
				if err != nil || m == nil {
					t.Fatalf("%v, %v", m, err)
				}
				return
			}
			f := failureOf(t, err)
			if f.Class != tc.class {
				t.Errorf("class %q, want %q", f.Class, tc.class)
			}
			checkContains(t, f.Error(), tc.wantText...)
		})
	}
}

func TestDefault(t *testing.T) {
	models, err := Open(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = models.Default()
	checkContains(t, failureOf(t, err).Error(), "no default model", "provider/model", "script")
	for _, def := range []string{"script", "script/first, script/backup", "ollama/x", "openrouter/a/b"} {
		if models, err = Open(Settings{Default: def}); err != nil {
			t.Fatal(err)
		}
		if got, err := models.Default(); got != def || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, def := range []string{"openai/", "script/"} {
		if _, err := Open(Settings{Default: def}); err == nil {
			t.Errorf("default %q: no error", def)
		}
	}
}

func TestOllamaAddress(t *testing.T) {
	for in, want := range map[string]string{
		"": "http://127.0.0.1:11434/v1", "localhost": "http://localhost:11434/v1", "host:8080": "http://host:8080/v1", "0.0.0.0": "http://127.0.0.1:11434/v1",
		"0.0.0.0:1234": "http://127.0.0.1:1234/v1", "http://host:1/": "http://host:1/v1", "https://host/v1/": "https://host/v1", "[::1]:5": "http://[::1]:5/v1",
		"https://host": "https://host/v1", "https://host/proxy/v1": "https://host/proxy/v1",
	} {
		models, err := Open(Settings{Providers: map[string]ProviderSettings{"ollama": {BaseURL: in}}})
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := models.providers["ollama"].Base; got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestProxy(t *testing.T) {
	proxy := serve(t, answer(200, completion(`{"content":"by proxy"}`, "stop")))
	t.Setenv("HTTP_PROXY", proxy.URL)
	m := openModel(t, "compatible", "http://model.invalid", func(p *ProviderSettings) { p.Proxy = proxy.URL })
	if a, err := ask(t, m, &Call{}); err != nil || a.Message.Text != "by proxy" {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := ask(t, openModel(t, "compatible", "http://model.invalid"), &Call{}); err == nil || proxy.calls() != 1 {
		t.Errorf("proxy of the environment used: %v", err)
	}
}

func TestUniqueCallIDs(t *testing.T) {
	calls := []contract.ToolCall{{Name: "get"}, {ID: "x", Name: "get"}, {ID: "x", Name: "put"}}
	fillIDs(calls, []contract.Message{{Role: "assistant", Calls: []contract.ToolCall{{ID: "x"}, {ID: "y"}}}})
	checkEqual(t, "calls", calls, []contract.ToolCall{{ID: "call_3", Name: "get"}, {ID: "x_2", Name: "get"}, {ID: "x_3", Name: "put"}})
}
