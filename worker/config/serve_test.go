package config

import (
	"os"
	"path/filepath"
	"strings"
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
		"none":                    {env: fakeEnv{}},
		"one":                     {env: fakeEnv{"WEFT_SERVE_TOKENS": "kim:kimkimkimkimkimkim"}, want: []Token{kim}},
		"two":                     {env: fakeEnv{"WEFT_SERVE_TOKENS": "kim:kimkimkimkimkimkim, ann:annannannannannann="}, want: []Token{kim, ann}},
		"custom variable":         {file: "serve: {tokens_env: MINE}", env: fakeEnv{"MINE": "kim:kimkimkimkimkimkim"}, want: []Token{kim}},
		"invalid token in a file": {env: fakeEnv{"WEFT_SERVE_TOKENS_FILE": file}, want: []Token{kim}, err: "serve.tokens_env: entry 2 of WEFT_SERVE_TOKENS has an invalid token; expected letters, digits and ._~+/-=; write NAME:TOKEN"},
		"missing file":            {env: fakeEnv{"WEFT_SERVE_TOKENS_FILE": "/no/such"}, err: "serve.tokens_env: read WEFT_SERVE_TOKENS_FILE: open /no/such: no such file or directory"},
		"short token":             {env: fakeEnv{"WEFT_SERVE_TOKENS": "kim:kimkimkimkimkimkim,ann:short"}, err: "serve.tokens_env: entry 2 of WEFT_SERVE_TOKENS has a token with fewer than 16 characters; write NAME:TOKEN"},
		"only commas":             {env: fakeEnv{"WEFT_SERVE_TOKENS": ",,"}, err: "serve.tokens_env: WEFT_SERVE_TOKENS contains no token; write NAME:TOKEN"},
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
					t.Errorf("error = %v, want %s", err, tc.err)
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

// TestPrincipalsAndIssuers checks that every mistake is reported once, with its location.
func TestPrincipalsAndIssuers(t *testing.T) {
	issuer := func(more string) string {
		return "issuers:\n  corp: {url: 'https://a.example/x', audience: weft, " + more + "}\n"
	}
	for name, tc := range map[string]struct{ file, want string }{
		"unknown scope":                    {"principals:\n  kim: {scopes: [read, write]}", "weft.yaml:2:17: principals.kim.scopes is an array, expected a list of start, read, answer, cancel or administer, got \"write\""},
		"unknown scope of an issuer":       {issuer("scopes: [root]"), "weft.yaml:2:62: issuers.corp.scopes is an array, expected a list of start, read, answer, cancel or administer, got \"root\""},
		"negative limit":                   {"principals:\n  kim: {open_runs: -1}", "weft.yaml:2:20: principals.kim.open_runs is -1, expected a whole number from 0 to 1000"},
		"max_body too small":               {"principals:\n  kim: {max_body: 5}", "weft.yaml:2:19: principals.kim.max_body is 5, expected 0, or a whole number from 1024 to 1073741824"},
		"issuer without TLS":               {"issuers:\n  corp: {url: 'http://a.example', audience: weft}", "weft.yaml:2:15: issuers.corp.url: \"http://a.example\" cannot be an issuer; expected https://HOST/PATH, as in the iss claim"},
		"no url":                           {"issuers:\n  corp: {audience: weft}", "weft.yaml:2:3: issuers.corp.url: \"\" cannot be an issuer; expected https://HOST/PATH, as in the iss claim"},
		"no audience":                      {"issuers:\n  corp: {url: 'http://localhost:9/x'}", "weft.yaml:2:3: issuers.corp.audience: not set, so tokens for other services would be accepted; set it to a value of the aud claim"},
		"issuers of one tenant":            {issuer("tenant: t") + "  more: {url: 'https://b.example', audience: weft, tenant: t}", "weft.yaml:3:3: issuers.more: its principals may share names with those of issuers.corp; set a separate tenant for each, without tenant_claim"},
		"issuers with overlapping tenants": {issuer("tenant_claim: org") + "  more: {url: 'https://b.example', audience: weft, tenant: t}", "weft.yaml:3:3: issuers.more: its principals may share names with those of issuers.corp; set a separate tenant for each, without tenant_claim"},
		"duplicate url":                    {issuer("tenant: t") + "  more: {url: 'https://a.example/x', audience: weft}", "weft.yaml:3:15: issuers.more.url: https://a.example/x is also the url of issuers.corp; remove one of them"},
		"issuers of separate tenants":      {issuer("tenant: t") + "  more: {url: 'https://b.example', audience: weft}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, tc.file)
			cfg, err := Load(Options{File: file, Env: fakeEnv{}})
			if err == nil && tc.want == "" {
				if corp := cfg.Issuers["corp"]; corp.NameClaim != "sub" || corp.Starts != 600 || len(corp.Scopes) != 4 {
					t.Errorf("issuer = %+v", corp)
				}
				return
			}
			if err == nil || strings.ReplaceAll(err.Error(), file, "weft.yaml") != tc.want {
				t.Errorf("error = %v, want %s", err, tc.want)
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
		t.Errorf("settings = %+v", cfg.Serve)
	}
}
