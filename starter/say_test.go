package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command that has read the settings says nothing of their secrets, whatever an error repeats.
func TestNothingIsSaidOfSecrets(t *testing.T) {
	const key = "canary-4f0c9a7712"
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, []byte("task_queue: weft\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	a := &app{stdout: &out, stderr: &errs, env: mapEnv{
		"TEMPORAL_API_KEY": key, "TEMPORAL_ADDRESS": key + ".invalid:1", "TEMPORAL_TLS": "false", "TEMPORAL_CONFIG_FILE": file + ".none", "WEFT_CONFIG": file,
	}}
	if code := a.run(context.Background(), []string{"status", "x"}); code != exitNoTemporal {
		t.Errorf("exit code %d", code)
	}
	if said := out.String() + errs.String(); strings.Contains(said, key) || !strings.Contains(said, "[secret].invalid:1") {
		t.Errorf("it says %q", said)
	}
}
