package config

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/specadapter/source"
)

// TestRuntimeSecrets checks that secrets are sent to another process, that the token is required, and that the file is removed at the end.
func TestRuntimeSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json"+SecretsFile)
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var secrets RuntimeSecrets
	if err := secrets.Serve(ctx, file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("file mode = %v: %v", info.Mode(), err)
	}
	all := []source.InlineSecret{{Ref: "crm.h", Value: "v", Hosts: []string{"x.com"}}, {Ref: "m.api_key", Value: "k", Provider: "openai", Setting: source.SettingKey},
		{Ref: "c.file", Value: "/f", Provider: "oci", Setting: source.SettingAuthFile}}
	if err := SendSecrets(ctx, file, all); err != nil {
		t.Fatal(err)
	}
	if s, ok := secrets.Secret("crm.h"); !ok || s.Value != "v" || s.Hosts[0] != "x.com" {
		t.Errorf("secret = %v", s)
	}
	if secrets.Model("openai").Key != "k" || secrets.Model("oci").AuthFile != "/f" || secrets.Model("oci").Key != "" {
		t.Error("the providers' secrets are missing")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(strings.SplitN(string(raw), `"address":"`, 2)[1], `"`)
	resp, err := http.Post("http://"+address, "application/json", strings.NewReader(`[{"ref":"crm.h","value":"evil"}]`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if s, _ := secrets.Secret("crm.h"); resp.StatusCode != http.StatusForbidden || s.Value != "v" {
		t.Errorf("request without the token: status %s, secret %v", resp.Status, s)
	}
	stop()
	for range 600 {
		if _, err = os.Stat(file); os.IsNotExist(err) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !os.IsNotExist(err) {
		t.Error("the file was not removed")
	}
	if err := SendSecrets(t.Context(), file, all); err == nil || strings.Contains(err.Error(), `"v"`) {
		t.Errorf("SendSecrets() to a stopped process: error = %v", err)
	}
	var noSecrets *RuntimeSecrets
	if _, ok := noSecrets.Secret("x"); ok || noSecrets.Model("x").Key != "" {
		t.Error("a nil RuntimeSecrets has secrets")
	}
}
