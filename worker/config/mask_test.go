package config

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/activities/mask"
	"weft/specadapter/source"
)

// TestMask checks that secrets in every kind of setting are masked, and that ordinary values are not.
func TestMask(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := func(canary string) string {
		return "-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----\n"
	}
	codec := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("c", 32)))
	env := fakeEnv{
		"ANTHROPIC_API_KEY": "canaryanthropic", "MISTRAL_API_KEY_FILE": file("mistral", "canarymistral\n"), "OWN_KEY": "canaryownkey",
		"MODEL_TOKEN": "canarymodelheader", "CRM_TOKEN": "canarycrmheader", "TOOL_TOKEN": "canarytoolenv", "FLOW_SECRET": "canaryflowsecret",
		"VARIABLE": "canaryvariable", "AWS_SECRET_ACCESS_KEY": "canarystorekey", "AWS_SESSION_TOKEN": "canarystoresession",
		"WEFT_CODEC_KEYS": "one:" + codec, "WEFT_CODEC_TOKENS": "ui:canarycodectoken", "WEFT_SERVE_TOKENS": "a:canaryservetoken1,b:canaryservetoken2",
		"HOOK": "whsec_Y2FuYXJ5aG9va29uZWNhbmFyeWhvb2tvbmU= whsec_Y2FuYXJ5aG9va3R3b2NhbmFyeWhvb2t0d28=", "TEMPORAL_API_KEY": "canarytemporalkey",
		"TEMPORAL_TLS_CLIENT_KEY_PATH": file("temporal.pem", key("canarytemporalpem")), "HOME": "/home/somebody", "PATH": "/usr/bin:/bin",
	}
	settings := fmt.Sprintf(`
providers:
  own: {kind: compatible, base_url: 'http://127.0.0.1:1/v1', key_env: OWN_KEY, proxy: 'http://u:canaryproxy0@proxy:1', headers: {X-Auth: '${MODEL_TOKEN}', X-Note: 'not a secret at all'}}
connections:
  crm: {url: 'http://127.0.0.1:1/mcp?api_key=canaryquery0&page=ordinaryquery', headers: {Authorization: 'Bearer ${CRM_TOKEN}', X-Auth-Mode: standard}, proxy: 'http://u:canaryproxy1@proxy:1', cert_file: %q, key_file: %q}
  cmd: {command: sh, env: {TOOL_TOKEN: '${TOOL_TOKEN}', TOOL_HOME: '${HOME}'}}
secrets:
  flow: {value: '${FLOW_SECRET}', hosts: [x.com]}
  pem: {value: %q, hosts: [x.com]}
variables: {VARIABLE: {hosts: [x.com]}}
webhooks: {h: {url: 'https://x.com', secret_env: HOOK}}
`, file("cert.pem", "-----BEGIN CERTIFICATE-----\npublicpublic\n-----END CERTIFICATE-----\n"), file("key.pem", key("canarytlskeyfile")), file("flow.pem", key("canaryflowpem")))
	runtime := &RuntimeSecrets{}
	runtime.add([]source.InlineSecret{{Ref: "x.y", Value: "canarylentbefore"}})
	cfg, err := Load(Options{File: write(t, settings), Env: env, RuntimeSecrets: runtime})
	if err != nil {
		t.Fatal(err)
	}
	m := cfg.Mask()
	runtime.add([]source.InlineSecret{{Ref: "m.api_key", Value: "canarylentlater", Provider: "openai", Setting: source.SettingKey}})
	for _, secret := range []string{
		"canaryanthropic", "canarymistral", "canaryownkey", "canarymodelheader", "canaryproxy0", "canarycrmheader", "canaryquery0", "canaryproxy1",
		"canarytlskeyfile", "canarytoolenv", "canaryflowsecret", "canaryflowpem", "canaryvariable", "canarystorekey", "canarystoresession", codec,
		"canarycodectoken", "canaryservetoken1", "canaryservetoken2", strings.Fields(env["HOOK"])[0], strings.Fields(env["HOOK"])[1],
		"canarytemporalkey", "canarytemporalpem", "canarylentbefore", "canarylentlater",
	} {
		if got := m.Text("it is " + secret); got != "it is "+mask.Hidden {
			t.Errorf("%s masked as %q", secret, got)
		}
	}
	for _, ordinary := range []string{"not a secret at all", "ordinaryquery", "standard", "publicpublic", "/home/somebody", "/usr/bin:/bin", "compatible"} {
		if got := m.Text(ordinary); got != ordinary {
			t.Errorf("%s masked as %q", ordinary, got)
		}
	}
}

// TestMaskWithMissingVariable checks that the other secrets are masked if a variable is not set, as in a
// starter that shares its weft.yaml with workers.
func TestMaskWithMissingVariable(t *testing.T) {
	cfg, err := Load(Options{File: write(t, `
providers: {own: {kind: compatible, base_url: 'http://127.0.0.1:1/v1', key_env: OWN, headers: {X-Note: '${NOT_HERE}'}}}
connections: {crm: {url: 'http://127.0.0.1:1/mcp', headers: {X-Note: '${NOT_HERE}'}}}
secrets: {flow: {value: '${FLOW}', hosts: [x.com]}, half: {value: 'Negotiate ${NOT_HERE}', hosts: [x.com]}}
`), Env: fakeEnv{"OWN": "canaryown", "FLOW": "canaryflow"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Mask().Text("Negotiate canaryown and canaryflow"); got != "Negotiate [secret] and [secret]" {
		t.Errorf("masked text = %q", got)
	}
}
