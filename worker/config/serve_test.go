package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("kim:kimkimkimkimkimkim\r\nann: annannannannannann=\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	usual := []string{ScopeStart, ScopeRead, ScopeAnswer, ScopeCancel}
	kim, ann := Token{Name: "kim", Value: "kimkimkimkimkimkim", Principal: Principal{Scopes: usual, Starts: 600, Streams: 50}}, Token{Name: "ann", Value: "annannannannannann=", Principal: Principal{Scopes: usual, Starts: 600, Streams: 50}}
	tests := map[string]struct {
		file string
		env  fakeEnv
		want []Token
		err  string
	}{
		"none":                     {env: fakeEnv{}},
		"one":                      {env: fakeEnv{"WEFT_SERVE_TOKENS": "kim:kimkimkimkimkimkim"}, want: []Token{kim}},
		"two":                      {env: fakeEnv{"WEFT_SERVE_TOKENS": "kim:kimkimkimkimkimkim, ann:annannannannannann="}, want: []Token{kim, ann}},
		"another variable":         {file: "serve: {tokens_env: MINE}", env: fakeEnv{"MINE": "kim:kimkimkimkimkimkim"}, want: []Token{kim}},
		"a file":                   {env: fakeEnv{"WEFT_SERVE_TOKENS_FILE": file}, want: []Token{kim}, err: "serve.tokens_env: entry 2 of WEFT_SERVE_TOKENS has an invalid token; want letters, digits and ._~+/-=; write NAME:TOKEN"},
		"a file that is not there": {env: fakeEnv{"WEFT_SERVE_TOKENS_FILE": "/no/such"}, err: "serve.tokens_env: read WEFT_SERVE_TOKENS_FILE: open /no/such: no such file or directory"},
		"nothing but commas":       {env: fakeEnv{"WEFT_SERVE_TOKENS": ",,"}, err: "serve.tokens_env: WEFT_SERVE_TOKENS contains no token; write NAME:TOKEN"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, tc.file, tc.env)
			if len(cfg.Warnings) > 0 {
				t.Errorf("warnings: %q", cfg.Warnings)
			}
			got, err := cfg.Tokens()
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error is %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServeSettings(t *testing.T) {
	cfg := load(t, "serve: {listen: '127.0.0.1:9', origins: ['https://a.example', 'https://b.example'], edit_agents: true}", fakeEnv{"WEFT_SERVE_MAX_BODY": "4096"})
	want := Serve{Listen: "127.0.0.1:9", TokensEnv: "WEFT_SERVE_TOKENS", Origins: []string{"https://a.example", "https://b.example"}, EditAgents: true, Profile: "default", MaxBody: 4096}
	if diff := cmp.Diff(want, cfg.Serve); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if cfg = load(t, "", fakeEnv{"WEFT_SERVE_ORIGINS": "https://a.example"}); cfg.Serve.Listen != "127.0.0.1:8765" || len(cfg.Serve.Origins) != 1 || cfg.Serve.EditAgents {
		t.Errorf("settings are %+v", cfg.Serve)
	}
}
