package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// alone keeps a developer's own settings away.
func alone(t *testing.T, address string) {
	t.Chdir(t.TempDir())
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "WEFT_") || strings.HasPrefix(name, "TEMPORAL_") || strings.HasSuffix(name, "_API_KEY") || name == "OLLAMA_HOST" {
			t.Setenv(name, "")
		}
	}
	t.Setenv("TEMPORAL_ADDRESS", address)
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
}

func TestExitCodes(t *testing.T) {
	alone(t, "127.0.0.1:1") // nothing listens there
	if err := os.WriteFile("bad.yaml", []byte("task_que: x\nworker: {activities: 0}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":                 {args: []string{"-h"}, code: 0, want: "usage: worker [flags]"},
		"an unknown flag":      {args: []string{"-nope"}, code: exitBadInput, want: "flag provided but not defined: -nope"},
		"an argument":          {args: []string{"x"}, code: exitBadInput, want: `worker: "x" is no flag`},
		"wrong settings":       {args: []string{"-config", "bad.yaml"}, code: exitBadInput, want: "worker: bad.yaml:1:1: there is no setting \"task_que\"; did you mean task_queue?\nbad.yaml:2:22: "},
		"settings not there":   {args: []string{"-config", "none.yaml"}, code: exitBadInput, want: "open none.yaml: no such file or directory"},
		"no Temporal to serve": {code: exitNoTemporal, want: "worker: no Temporal at 127.0.0.1:1 (TEMPORAL_ADDRESS)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(context.Background(), tc.args, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("stderr is %q, want %q in it", stderr.String(), tc.want)
			}
		})
	}
}

// TestEndToEndStartAndStop runs a worker on a real server and stops it.
func TestEndToEndStartAndStop(t *testing.T) {
	path := os.Getenv("WEFT_DEVSERVER")
	if path == "" {
		t.Skip("WEFT_DEVSERVER is not set; make e2e builds the server and runs this")
	}
	server := exec.Command(path, "-db", ":memory:", "-port", "0", "-ui-port", "0", "-worker=false")
	server.Dir = t.TempDir()
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: %v", err)
	}
	var ready struct{ Address string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "ready ")), &ready); err != nil {
		t.Fatal(err)
	}
	alone(t, ready.Address)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	if code := run(ctx, nil, &stderr); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	want := "worker: temporal " + ready.Address + ", namespace default, task queue weft\nworker: settings none\n"
	if got := stderr.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "worker: stopped\n") {
		t.Errorf("stderr is %q, want it to begin with %q", got, want)
	}
}
