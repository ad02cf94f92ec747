package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weft/tests/programs"
	"weft/worker/host"
)

// isolate hides the developer's own settings from the test.
func isolate(t *testing.T, address string) {
	t.Chdir(t.TempDir())
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "WEFT_") || strings.HasPrefix(name, "TEMPORAL_") || strings.HasSuffix(name, "_API_KEY") || name == "OLLAMA_HOST" || name == "OLLAMA_BASE_URL" {
			t.Setenv(name, "")
		}
	}
	t.Setenv("WEFT_SEAL_KEYS", programs.SealKeys)
	t.Setenv("WEFT_FLOWS_SCRIPTS", "true")
	t.Setenv("TEMPORAL_ADDRESS", address)
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
}

func TestExitCodes(t *testing.T) {
	isolate(t, "127.0.0.1:1") // nothing listens there
	if err := os.WriteFile("bad.yaml", []byte("task_que: x\nworker: {activities: 0}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":                          {args: []string{"-h"}, code: 0, want: "worker [flags]"},
		"unknown flag":                  {args: []string{"-nope"}, code: 2, want: "worker: unknown flag -nope; list the flags with: worker -help"},
		"unknown command":               {args: []string{"x"}, code: 2, want: `worker: unknown command "x"; list the commands with: worker -help`},
		"wrong settings":                {args: []string{"-config", "bad.yaml"}, code: 2, want: "worker: bad.yaml:1:1: unknown setting \"task_que\"; did you mean task_queue?\nbad.yaml:2:22: "},
		"missing settings file":         {args: []string{"-config", "none.yaml"}, code: 2, want: "open none.yaml: no such file or directory"},
		"sweep without a store":         {args: []string{"store", "sweep", "-older-than", "24h"}, code: 2, want: "no store to sweep; set store.dir (WEFT_STORE_DIR) or store.bucket (WEFT_STORE_BUCKET)"},
		"sweep without an age":          {args: []string{"store", "sweep"}, code: 2, want: "-older-than is 0s; it must be at least 1h0m0s"},
		"sweep with an invalid age":     {args: []string{"store", "sweep", "-older-than", "7d"}, code: 2, want: `invalid value "7d" for flag -older-than`},
		"sweep with an argument":        {args: []string{"store", "sweep", "-older-than", "24h", "x"}, code: 2, want: `unexpected argument "x"; see worker`},
		"help for sweep":                {args: []string{"store", "sweep", "-h"}, code: 0, want: "-older-than AGE"},
		"help for codec":                {args: []string{"codec", "-h"}, code: 0, want: "-listen HOST:PORT"},
		"codec with an argument":        {args: []string{"codec", "x"}, code: 2, want: `unexpected argument "x"; see worker`},
		"codec without tokens":          {args: []string{"codec", "-listen", "0.0.0.0:0"}, code: 2, want: "set WEFT_CODEC_TOKENS to NAME:TOKEN, or listen on 127.0.0.1"},
		"codec with an invalid address": {args: []string{"codec", "-listen", "here"}, code: 2, want: `codec.listen is "here", expected HOST:PORT`},
		"health without an endpoint":    {args: []string{"health"}, code: 2, want: "the worker has no health endpoint; set worker.health_listen (WEFT_WORKER_HEALTH_LISTEN)"},
		"health with an argument":       {args: []string{"health", "x"}, code: 2, want: `unexpected argument "x"; see worker`},
		"help for health":               {args: []string{"health", "-h"}, code: 0, want: "-live "},
		"setup with a short retention":  {args: []string{"setup", "-retention", "1h"}, code: 2, want: "-retention is 1h0m0s; it must be at least 24h0m0s"},
		"setup with an argument":        {args: []string{"setup", "x"}, code: 2, want: `unexpected argument "x"; see worker`},
		"setup without Temporal":        {args: []string{"setup", "-wait", "0s"}, code: 3, want: "worker: no Temporal at 127.0.0.1:1 (TEMPORAL_ADDRESS)"},
		"deployment without versioning": {args: []string{"deployment"}, code: 2, want: "worker versioning is off; set TEMPORAL_DEPLOYMENT_NAME"},
		"deployment with an argument":   {args: []string{"deployment", "x"}, code: 2, want: `unexpected argument "x"; see worker`},
		"help for deployment":           {args: []string{"deployment", "-h"}, code: 0, want: "-current "},
		"version with an argument":      {args: []string{"version", "x"}, code: 2, want: `unexpected argument "x"; see worker`},
		"unknown store command":         {args: []string{"store", "empty"}, code: 2, want: `worker: unknown command "store empty"; list the commands with: worker store -help`},
		"worker without Temporal":       {code: 3, want: "worker: no Temporal at 127.0.0.1:1 (TEMPORAL_ADDRESS)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// Help goes to standard output, errors go to standard error.
			var stdout, stderr bytes.Buffer
			if code := host.Command(context.Background(), tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			got := &stderr
			if tc.code == 0 {
				got = &stdout
			}
			if !strings.Contains(got.String(), tc.want) {
				t.Errorf("output = %q, want %q in it", got, tc.want)
			}
		})
	}
}

// TestUnknownFlag checks that an unknown flag is reported once, without the help text.
func TestUnknownFlag(t *testing.T) {
	isolate(t, "127.0.0.1:1")
	for _, command := range []string{"worker", "worker config", "worker store sweep", "worker codec", "worker health", "worker setup", "worker deployment"} {
		var stderr bytes.Buffer
		code := host.Command(context.Background(), append(strings.Fields(command)[1:], "-nope"), io.Discard, &stderr)
		if want := "worker: unknown flag -nope; list the flags with: " + command + " -help\n"; code != 2 || stderr.String() != want {
			t.Errorf("%s -nope: exit code %d, stderr = %q, want %q", command, code, stderr.String(), want)
		}
	}
}

func TestStoreSweep(t *testing.T) {
	isolate(t, "127.0.0.1:1")
	t.Setenv("WEFT_STORE_DIR", "payloads")
	key := strings.Repeat("ab", 32)
	if err := os.MkdirAll("payloads/ab", 0o700); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{key, "ac" + key[2:]} {
		if err := os.WriteFile("payloads/ab/"+name, []byte("1234"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes("payloads/ab/"+key, then, then); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := host.Command(context.Background(), []string{"store", "sweep", "-older-than", "47h"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if want := "/payloads: removed 1 payloads, 4 bytes; kept 1 payloads, 4 bytes\n"; !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("output = %q, want suffix %q", stdout.String(), want)
	}
}

func TestConfigShowsOriginsAndNoSecrets(t *testing.T) {
	isolate(t, "there:7233")
	t.Setenv("MISTRAL_API_KEY", "geheim")
	t.Setenv("TOKEN", "geheim")
	t.Setenv("WEFT_WORKER_ACTIVITIES", "7")
	t.Setenv("WEFT_CONNECTIONS_FILES_DIR", "/srv")
	if err := os.WriteFile("weft.yaml", []byte(`
limits: {max_steps: 9}
connections:
  web:
    url: https://me:geheim@x.example/mcp?key=geheim
    headers: {Authorization: "Bearer ${TOKEN}", X-Key: geheim, X-Two: "geheim${TOKEN}"}
  files: {command: mcp-files, args: [--root, /srv, --api-token, geheim, --key=geheim], env: {A: "geheim"}}
tools: {search: web}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := host.Command(context.Background(), []string{"config", "-task-queue", "mine"}, &stdout, &stderr); code != 2 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	// Problems are reported after the settings, without secrets.
	if problems := stderr.String(); !strings.Contains(problems, "weft.yaml:5:10: connections.web.url: ") || strings.Count(problems, "\n") != 1 || strings.Contains(problems, "geheim") {
		t.Errorf("problems = %s", problems)
	}
	got := regexp.MustCompile(`  +`).ReplaceAllString(stdout.String(), " | ")
	for _, want := range []string{
		"task_queue | mine | flag -task-queue\n", "limits.max_steps | 9 | weft.yaml:2:21\n", "limits.max_depth | 5 | default\n",
		"worker.activities | 7 | variable WEFT_WORKER_ACTIVITIES\n", "timeouts.model | 10m | default\n", "flows.accept | any | default\n",
		"connections.web.url | https://hidden@x.example/mcp?hidden | weft.yaml:5:10\n",
		"connections.web.headers.Authorization | Bearer ${TOKEN} | weft.yaml:6:14\n", "connections.web.headers.X-Key | (set) | ",
		"connections.web.headers.X-Two | ${TOKEN} and more | ", "connections.files.dir | /srv | variable WEFT_CONNECTIONS_FILES_DIR\n",
		"connections.files.args | --root /srv --api-token *** --key=*** | ", "connections.files.env.A | (set) | ",
		"tools.search | web | weft.yaml:8:17\n", "providers.mistral key | (set) | variable MISTRAL_API_KEY\n",
		"temporal address | there:7233 | variable TEMPORAL_ADDRESS\n", "temporal namespace | default | default\n", "temporal api_key | - | default\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("output does not contain %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "geheim") {
		t.Errorf("a secret is shown:\n%s", got)
	}
}

// TestConfigReportsAllProblems checks that the command config and a start of the worker report the
// same problems of invalid settings, all at once, and write nothing to disk.
func TestConfigReportsAllProblems(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		file string
		want []string
	}{
		"various problems": {
			env: map[string]string{"WEFT_CODEC_KEYS": "a:bm90IGVub3VnaA==", "WEFT_CODEC_KEY": "a", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
			file: "connections: {web: {url: 'https://x.example', headers: {A: '${NOPE}'}}}\ntools: {search: nowhere}\nmodel: acme/m\nflows: {dir: none}\n" +
				"budget: {cost_micros: 5}\nstore: {dir: taken/payloads}\nwebhooks: {ops: {url: 'ftp://x'}}\n",
			want: []string{"weft.yaml:1:56: connections.web.headers.A: the environment variable NOPE is not set", "weft.yaml:2:17: tools.search: unknown connection \"nowhere\"",
				`unknown provider "acme"`, "weft.yaml:4:14: flows.dir: stat none", "no prices are set", "has a key of 10 bytes, expected 32",
				`store.dir "taken/payloads" cannot be created: `, `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc", expected http/protobuf`, "webhooks.ops.url"},
		},
		"bucket and folder":               {file: "store: {dir: here, bucket: there}\n", want: []string{`store.dir is "here" and store.bucket "there"; set only one of them`}},
		"bucket with an invalid endpoint": {file: "store: {bucket: there, endpoint: minio}\n", want: []string{"store.endpoint is not the URL of a host"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			isolate(t, "127.0.0.1:1")
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			for file, text := range map[string]string{"weft.yaml": tc.file, "taken": "a file"} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var shown, problems, startProblems bytes.Buffer
			if code := host.Command(t.Context(), []string{"config"}, &shown, &problems); code != 2 || !strings.Contains(shown.String(), "task_queue") {
				t.Errorf("config: exit code %d, output %s", code, shown.String())
			}
			if code := host.Command(t.Context(), nil, io.Discard, &startProblems); code != 2 || startProblems.String() != problems.String() {
				t.Errorf("start: exit code %d, problems:\n%s\nproblems of config:\n%s", code, startProblems.String(), problems.String())
			}
			for _, want := range tc.want {
				if !strings.Contains(problems.String(), want) {
					t.Errorf("problems do not contain %q:\n%s", want, problems.String())
				}
			}
			if left, err := os.ReadDir("."); err != nil || len(left) != 2 {
				t.Errorf("files in the folder = %v, %v", left, err)
			}
		})
	}
}

// TestConfigCreatesNoStore checks that the command config does not create the folder of the store, as a worker would.
func TestConfigCreatesNoStore(t *testing.T) {
	isolate(t, "127.0.0.1:1")
	t.Setenv("WEFT_STORE_DIR", "payloads")
	var stderr bytes.Buffer
	if code := host.Command(t.Context(), []string{"config"}, io.Discard, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat("payloads"); !os.IsNotExist(err) {
		t.Errorf("the folder exists: %v", err)
	}
}

// TestGoldenReference checks that README.md contains the output of worker config -reference;
// UPDATE=1 rewrites it.
func TestGoldenReference(t *testing.T) {
	const begin, end = "<!-- worker config -reference -->\n", "<!-- end of the reference -->"
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("README.md has no markers for the reference")
	}
	var stdout bytes.Buffer
	host.Command(context.Background(), []string{"config", "-reference"}, &stdout, io.Discard)
	switch {
	case old == stdout.String():
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile("README.md", []byte(before+begin+stdout.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the reference in README.md differs from the output of worker config -reference; run make golden")
	}
}

// server is a Temporal server in a separate process.
type server struct {
	address string
	kill    func()
}

// startServer starts a server, or skips the test.
func startServer(t *testing.T) server {
	t.Helper()
	path := programs.Path(t, "WEFT_DEVSERVER")
	cmd := exec.Command(path, "-db", ":memory:", "-port", "0", "-ui-port", "0", "-worker=false")
	cmd.Dir = t.TempDir()
	var ready struct{ Address string }
	programs.Ready(t, cmd, &ready)
	return server{address: ready.Address, kill: func() { programs.Kill(cmd) }}
}

// TestEndToEndSetup checks that setup creates a missing namespace, and does not change an existing one.
func TestEndToEndSetup(t *testing.T) {
	srv := startServer(t)
	isolate(t, srv.address)
	t.Setenv("TEMPORAL_NAMESPACE", "fresh")
	ready := "worker: namespace fresh at " + srv.address + " is ready\n"
	for _, want := range []string{
		"worker: created namespace fresh with a retention of 48h0m0s\nworker: namespace fresh: added search attributes WeftFlow, WeftDialect, WeftPlanHash, WeftStatus, WeftPrincipal, WeftTenant\n" + ready,
		ready,
	} {
		var stdout, stderr bytes.Buffer
		code := host.Command(t.Context(), []string{"setup", "-retention", "48h"}, &stdout, &stderr)
		if code != 0 || stdout.String() != want {
			t.Errorf("exit code %d, output = %q %s, want %q", code, stdout.String(), stderr.String(), want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	if code := host.Command(ctx, nil, io.Discard, &stderr); code != 0 || strings.Contains(stderr.String(), "search attributes missing") {
		t.Errorf("worker in the new namespace: exit code %d, %s", code, stderr.String())
	}
}

// TestEndToEndStartAndStop checks that a worker starts on a real server, and stops cleanly.
func TestEndToEndStartAndStop(t *testing.T) {
	srv := startServer(t)
	isolate(t, srv.address)
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	if code := host.Command(ctx, nil, io.Discard, &stderr); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	want := "worker: temporal " + srv.address + ", namespace default, task queue weft\nworker: settings none\n"
	if got := stderr.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "worker: stopped\n") {
		t.Errorf("stderr = %q, want prefix %q", got, want)
	}
}
