package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/worker/store"
	"weft/workflows/plan"
)

// fakeEnv replaces the environment of the process, so that tests do not depend on it.
type fakeEnv map[string]string

func (e fakeEnv) LookupEnv(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

func (e fakeEnv) Environ() []string {
	var out []string
	for k, v := range e {
		out = append(out, k+"="+v)
	}
	return out
}

// write creates a settings file in a temporary folder.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t *testing.T, text string, env fakeEnv) *Config {
	t.Helper()
	cfg, err := Load(Options{File: write(t, text), Env: env})
	if err != nil {
		t.Fatalf("Load() error: %v", err)
	}
	return cfg
}

func TestDefaults(t *testing.T) {
	cfg, err := Load(Options{Env: fakeEnv{}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.TaskQueue != contract.TaskQueue || cfg.Model != "" || cfg.File != "" || cfg.AllowPrivate {
		t.Errorf("defaults = %+v", cfg)
	}
	limits := plan.DefaultLimits
	limits.MaxSteps = 0 // set by the flow
	if diff := cmp.Diff(limits, plan.Limits(cfg.Limits)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plan.DefaultPolicy, cfg.Timeouts.policy()); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if want := (Worker{Slots: SlotsFixed, Activities: 200, WorkflowTasks: 100, TargetCPU: 90, TargetMemory: 80, PollersMin: 4, PollersMax: 32, Versioning: VersioningAuto, Heartbeats: 300 * time.Millisecond, StopTimeout: 30 * time.Second, Log: "text", LogLevel: "warn"}); cfg.Worker != want {
		t.Errorf("worker = %+v, want %+v", cfg.Worker, want)
	}
}

func TestLayers(t *testing.T) {
	file := write(t, "task_queue: file\nmodel: file/m\nlimits: {max_steps: 7}\nworker: {stop_timeout: 5s}\n")
	tests := map[string]struct {
		env       fakeEnv
		flags     map[string]string
		wantQueue string
		wantModel string
		wantSteps int
	}{
		"file over defaults":        {wantQueue: "file", wantModel: "file/m", wantSteps: 7},
		"environment over file":     {env: fakeEnv{"WEFT_TASK_QUEUE": "env", "WEFT_LIMITS_MAX_STEPS": "9"}, wantQueue: "env", wantModel: "file/m", wantSteps: 9},
		"flag over environment":     {env: fakeEnv{"WEFT_TASK_QUEUE": "env"}, flags: map[string]string{"task_queue": "flag"}, wantQueue: "flag", wantModel: "file/m", wantSteps: 7},
		"empty variable is ignored": {env: fakeEnv{"WEFT_MODEL": ""}, wantQueue: "file", wantModel: "file/m", wantSteps: 7},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.env == nil {
				tc.env = fakeEnv{}
			}
			tc.env["WEFT_CONFIG"] = file
			cfg, err := Load(Options{Env: tc.env, Flags: tc.flags})
			if err != nil {
				t.Fatal(err)
			}
			if cfg.TaskQueue != tc.wantQueue || cfg.Model != tc.wantModel || cfg.Limits.MaxSteps != tc.wantSteps {
				t.Errorf("queue %q, model %q, steps %d; want %q, %q, %d", cfg.TaskQueue, cfg.Model, cfg.Limits.MaxSteps, tc.wantQueue, tc.wantModel, tc.wantSteps)
			}
			if cfg.Worker.StopTimeout != 5*time.Second || cfg.File != file {
				t.Errorf("stop timeout = %v, file = %q", cfg.Worker.StopTimeout, cfg.File)
			}
		})
	}
}

func TestListenAndLogSettings(t *testing.T) {
	w := load(t, "worker: {health_listen: ':8086', metrics_listen: '127.0.0.1:9464', log: json, log_level: debug}\n", fakeEnv{}).Worker
	if w.HealthListen != ":8086" || w.MetricsListen != "127.0.0.1:9464" || w.Log != LogJSON || w.LogLevel != "debug" {
		t.Errorf("worker = %+v", w)
	}
	file := write(t, "worker:\n  health_listen: 8086\n  metrics_listen: ':0'\n  log: xml\n  log_level: loud\n")
	_, err := Load(Options{File: file, Env: fakeEnv{}})
	for _, want := range []string{
		`:2:18: worker.health_listen is 8086, expected host:port or :port, with a port from 1 to 65535`,
		`:3:19: worker.metrics_listen is ":0", expected host:port`,
		`:4:8: worker.log is "xml", expected text or json`,
		`:5:14: worker.log_level is "loud", expected warn, error, info or debug`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q in it", err, want)
		}
	}
}

func TestStore(t *testing.T) {
	if s := load(t, "", fakeEnv{}).Store; s.Dir != "" || s.PayloadLimit() != 0 || s.Threshold != store.DefaultThreshold || s.MaxPayload != store.DefaultMaxPayload {
		t.Errorf("default store = %+v", s)
	}
	s := load(t, "store: {dir: /srv/a, threshold: 4096, max_payload: 2097152}\n", fakeEnv{"WEFT_STORE_DIR": "/srv/b"}).Store
	if s.Dir != "/srv/b" || s.Threshold != 4096 || s.PayloadLimit() != 2<<20 {
		t.Errorf("store = %+v", s)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, "", fakeEnv{"WEFT_STORE_DIR": file})
	_, err := cfg.Client(t.Context(), nil)
	if problems, ok := err.(Problems); !ok || len(problems) != 1 || !strings.Contains(problems[0], `store.dir "`+file+`" cannot be created`) {
		t.Errorf("store.dir is a file: error = %T %v", err, err)
	}
}

// TestRecords checks that user-defined names keep their case and dots.
func TestRecords(t *testing.T) {
	cfg := load(t, `
providers:
  myGPT:
    kind: compatible
    base_url: https://models.example/v1
    key_env: MY_KEY
    headers: {X-Team: weft}
    stream: false
    first_token_timeout: 30s
connections:
  Web.Search-7F:
    url: https://tools.example/mcp
    headers: {X-Key: "${SEARCH_KEY}"}
    retry: never
  files:
    command: mcp-files
    args: [--root, "/srv", 8]
    env: {LOG_Level: debug}
    dir: /srv
tools:
  webSearch: Web.Search-7F
  read.file: files
allow_hosts: [tools.example, "10.0.0.1:8080"]
allow_private: true
timeouts: {model: 2m, first_retry: 250ms}
`, fakeEnv{
		"WEFT_PROVIDERS_MYGPT_IDLE_TIMEOUT":    "44s",
		"WEFT_PROVIDERS_OPENAI_BASE_URL":       "http://127.0.0.1:9/v1",
		"WEFT_CONNECTIONS_WEB_SEARCH_7F_PROXY": "http://proxy:1",
		"WEFT_TOOLS_NEWTOOL":                   "files",
		"WEFT_SERVICE_HOST":                    "10.1.2.3",
	})
	wantProviders := map[string]Provider{
		"myGPT": {Kind: "compatible", BaseURL: "https://models.example/v1", KeyEnv: "MY_KEY",
			Headers: map[string]string{"X-Team": "weft"}, PromptCache: true, CutRetries: 2, Images: true, FirstTokenTimeout: 30 * time.Second, IdleTimeout: 44 * time.Second},
		"openai": {BaseURL: "http://127.0.0.1:9/v1", Stream: true, PromptCache: true, CutRetries: 2, Images: true},
	}
	if diff := cmp.Diff(wantProviders, cfg.Providers); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	wantConnections := map[string]tool.Connection{
		"Web.Search-7F": {URL: "https://tools.example/mcp", Headers: map[string]string{"X-Key": "${SEARCH_KEY}"}, Retry: "never", Proxy: "http://proxy:1"},
		"files":         {Command: "mcp-files", Args: []string{"--root", "/srv", "8"}, Env: map[string]string{"LOG_Level": "debug"}, Dir: "/srv"},
	}
	if diff := cmp.Diff(wantConnections, cfg.Connections, cmpopts.IgnoreUnexported(tool.Connection{})); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"webSearch": "Web.Search-7F", "read.file": "files", "newtool": "files"}, cfg.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tools.example", "10.0.0.1:8080"}, cfg.AllowHosts); diff != "" || !cfg.AllowPrivate {
		t.Errorf("policy: private %v, hosts (-want +got):\n%s", cfg.AllowPrivate, diff)
	}
	if cfg.Timeouts.Model != 2*time.Minute || cfg.Timeouts.FirstRetry != 250*time.Millisecond {
		t.Errorf("timeouts = %+v", cfg.Timeouts)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings: %q", cfg.Warnings)
	}
	o := cfg.Reading("continuum", "")
	if !o.UnboundTools["read.file"] || !o.Connections["Web.Search-7F"] || o.Dialect != "continuum" || o.Policy.ModelSeconds != 120 {
		t.Errorf("Reading() = %+v", o)
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	tests := map[string]struct {
		file  string
		env   fakeEnv
		flags map[string]string
		want  []string
	}{
		"misspelt keys at every level": {
			file: "task_que: x\nlimits:\n  max_step: 3\nproviders:\n  openai: {base_ur: x}\nzzz: 1\n",
			want: []string{
				`weft.yaml:1:1: unknown setting "task_que"; did you mean task_queue?`,
				`weft.yaml:3:3: unknown setting "limits.max_step"; did you mean max_steps?`,
				`weft.yaml:5:12: unknown setting "providers.openai.base_ur"; did you mean base_url?`,
				`weft.yaml:6:1: unknown setting "zzz"; known settings: task_queue, model, allow_private, allow_loopback, allow_hosts, allow_commands, allow_env, allow_dirs, authority, agents, flows, starter, serve, store, codec, limits, budget, timeouts, worker, providers, prices, connections, activities, secrets, variables, webhooks, confirm, contexts, policies, principals, issuers, tools`,
			},
		},
		"values of the wrong type": {
			file: "task_queue: [a]\nlimits: 3\nproviders: {openai: yes please}\ntools: {a: 1}\nconnections:\n  c: {args: {a: b}, env: x, timeout: -1}\n",
			want: []string{
				`weft.yaml:1:13: task_queue is an array, expected a string`,
				`weft.yaml:2:9: limits is 3, expected a section of settings`,
				`weft.yaml:3:21: providers.openai is "yes please", expected a section of settings`,
				`weft.yaml:4:12: tools.a is 1, expected the id of a connection`,
				`weft.yaml:6:13: connections.c.args is an object, expected a list of strings`,
				`weft.yaml:6:26: connections.c.env is "x", expected a map of strings, in the file`,
				`weft.yaml:6:38: connections.c.timeout is -1, expected a duration from 0s to 24h, such as 90s or 10m`,
			},
		},
		"values out of range in file, environment and flags": {
			file:  "store: {threshold: 0, max_payload: 1000}\nlimits: {max_steps: -1}\ntimeouts: {model: 1500ms, tool: soon}\nallow_private: maybe\n",
			env:   fakeEnv{"WEFT_WORKER_ACTIVITIES": "many", "WEFT_CONNECTIONS_C_CONNECT_TIMEOUT": "x", "WEFT_PROVIDERS_A_COLOUR": "red"},
			flags: map[string]string{"limits.max_depth": "1000"},
			want: []string{
				`weft.yaml:1:20: store.threshold is 0, expected a whole number from 1024 to 2011136`,
				`weft.yaml:1:36: store.max_payload is 1000, expected a whole number from 2097152 to 1073741824`,
				`weft.yaml:2:21: limits.max_steps is -1, expected a whole number from 0 to 1000000`,
				`weft.yaml:3:19: timeouts.model is "1500ms", expected a multiple of 1s`,
				`weft.yaml:3:33: timeouts.tool is "soon", expected a duration from 1s to 24h, such as 90s or 10m`,
				`weft.yaml:4:16: allow_private is "maybe", expected true or false`,
				`-limits.max-depth: limits.max_depth is "1000", expected a whole number from 1 to 100`,
				`WEFT_CONNECTIONS_C_CONNECT_TIMEOUT: connections.c.connect_timeout is "x", expected a duration from 0s to 24h, such as 90s or 10m`,
				`WEFT_PROVIDERS_A_COLOUR: unknown setting of providers; known settings: kind, base_url, api, key_env, headers, proxy, stream, region, compartment, auth, auth_file, auth_profile, requests_per_minute, tokens_per_minute, concurrent, prompt_cache, images, text_calls, first_token_timeout, idle_timeout, cut_retries, max_body_bytes`,
				`WEFT_WORKER_ACTIVITIES: worker.activities is "many", expected a whole number from 1 to 100000`,
			},
		},
		"values of entries out of range": {
			file: "providers:\n  a: {first_token_timeout: -1s, idle_timeout: 25h, max_body_bytes: -1}\n  b: {requests_per_minute: 1000001, tokens_per_minute: 1000000001, concurrent: 100001}\nactivities:\n  c: {task_queue: q, timeout: -1s, attempts: 1000001}\n  d: {task_queue: q, start_timeout: -1s, retry: always}\nconnections: {e: {timeout: -1s, retry: sometimes}}\nconfirm: {f: {tools: [a], timeout: -1s}}\n",
			want: []string{
				`weft.yaml:2:28: providers.a.first_token_timeout is "-1s", expected a duration from 0s to 24h, such as 90s or 10m`,
				`weft.yaml:2:47: providers.a.idle_timeout is "25h", expected a duration from 0s to 24h, such as 90s or 10m`,
				`weft.yaml:2:68: providers.a.max_body_bytes is -1, expected a whole number from 0 to 1073741824`,
				`weft.yaml:3:28: providers.b.requests_per_minute is 1000001, expected a whole number from 0 to 1000000`,
				`weft.yaml:3:56: providers.b.tokens_per_minute is 1000000001, expected a whole number from 0 to 1000000000`,
				`weft.yaml:3:80: providers.b.concurrent is 100001, expected a whole number from 0 to 100000`,
				`weft.yaml:5:31: activities.c.timeout is "-1s", expected a duration from 0s to 277h, such as 90s or 10m`,
				`weft.yaml:5:46: activities.c.attempts is 1000001, expected a whole number from 0 to 1000000`,
				`weft.yaml:6:37: activities.d.start_timeout is "-1s", expected a duration from 0s to 277h, such as 90s or 10m`,
				`weft.yaml:6:49: activities.d.retry is "always", expected never`,
				`weft.yaml:7:28: connections.e.timeout is "-1s", expected a duration from 0s to 24h, such as 90s or 10m`,
				`weft.yaml:7:40: connections.e.retry is "sometimes", expected never, ask or always`,
				`weft.yaml:8:36: confirm.f.timeout is "-1s", expected a duration from 0s to 87600h, such as 90s or 10m`,
			},
		},
		"duplicate key": {
			file: "model: a/b\nmodel: c/d\n",
			want: []string{"weft.yaml:2:1: error: duplicate key \"model\", first used at line 1 [duplicate-key]\n\tremove one of the two"},
		},
		"not a mapping": {file: "[1, 2]", want: []string{`weft.yaml:1:1: the file is an array, expected a section of settings`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Chdir(filepath.Dir(write(t, tc.file)))
			if tc.env == nil {
				tc.env = fakeEnv{}
			}
			_, err := Load(Options{Env: tc.env, Flags: tc.flags})
			got, ok := err.(Problems)
			if !ok {
				t.Fatalf("Load() error = %v of type %T, want Problems", err, err)
			}
			if diff := cmp.Diff(tc.want, []string(got)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(Options{File: "no/such.yaml", Env: fakeEnv{}})
	if want := "read the configuration: open no/such.yaml: no such file or directory; use another file with -config or WEFT_CONFIG"; err == nil || err.Error() != want {
		t.Errorf("Load() error = %v, want %s", err, want)
	}
}

func TestEmptyFile(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "blank": " \n", "comment": "# nothing yet\n", "null sections": "limits:\nproviders:\n  openai: {kind: }\n"} {
		t.Run(name, func(t *testing.T) {
			if cfg := load(t, text, fakeEnv{}); cfg.TaskQueue != contract.TaskQueue {
				t.Errorf("task queue = %q", cfg.TaskQueue)
			}
		})
	}
}

// TestLoopbackDefault checks that the author's own worker allows loopback addresses by default, and a deployed one does not.
func TestLoopbackDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	tests := map[string]struct {
		author bool
		file   string
		env    fakeEnv
		want   bool
		origin string
	}{
		"deployed worker":                           {origin: "default"},
		"author's worker":                           {author: true, want: true, origin: "default of weft-devserver"},
		"author's worker, disabled in the file":     {author: true, file: "allow_loopback: false\n", origin: "weft.yaml:1:17"},
		"author's worker, disabled by the variable": {author: true, env: fakeEnv{"WEFT_ALLOW_LOOPBACK": "false"}, origin: "variable WEFT_ALLOW_LOOPBACK"},
		"deployed worker, enabled in the file":      {file: "allow_loopback: true\n", want: true, origin: "weft.yaml:1:17"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile("weft.yaml", []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(Options{Env: tc.env, Author: tc.author})
			if err != nil {
				t.Fatal(err)
			}
			tools, err := cfg.Tool()
			if err != nil {
				t.Fatal(err)
			}
			if cfg.AllowLoopback != tc.want || tools.AllowLoopback != tc.want || tools.AllowPrivate || cfg.originOf("allow_loopback") != tc.origin {
				t.Errorf("allow_loopback = %v, of tools %v, from %s; want %v from %s", cfg.AllowLoopback, tools.AllowLoopback, cfg.originOf("allow_loopback"), tc.want, tc.origin)
			}
		})
	}
}

func TestMisspeltVariableIsAWarning(t *testing.T) {
	cfg := load(t, "", fakeEnv{"WEFT_TASK_QUEU": "x"})
	if want := []string{"the environment variable WEFT_TASK_QUEU is not a setting; did you mean WEFT_TASK_QUEUE?"}; !cmp.Equal(cfg.Warnings, want) {
		t.Errorf("warnings = %q, want %q", cfg.Warnings, want)
	}
}

// FuzzLoad checks that Load returns either settings or problems with locations, whatever the file contains.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"", "model: a/b", "limits: {max_steps: 1e9}", "a: &a [*a]", "providers: {x: {headers: {a: 1}}}", "tools: {\"\": x}", "connections: {c: {args: [[]]}}"} {
		f.Add(seed)
	}
	file := filepath.Join(f.TempDir(), "weft.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(Options{File: file, Env: fakeEnv{}})
		if (cfg == nil) != (err != nil) {
			t.Fatalf("Load() = %v, %v", cfg, err)
		}
		if problems, ok := err.(Problems); err != nil && (!ok || len(problems) == 0) {
			t.Fatalf("error = %T %v, want Problems", err, err)
		}
		if err != nil && !strings.Contains(err.Error(), "weft.yaml") {
			t.Errorf("problem without a location: %v", err)
		}
	})
}

func TestVersioning(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		want Versioning
	}{
		"default":                    {nil, Versioning{Behavior: VersioningOff, Deployment: "weft"}},
		"deployment name":            {map[string]string{"TEMPORAL_DEPLOYMENT_NAME": "triage"}, Versioning{Behavior: VersioningUpgrade, Deployment: "triage"}},
		"build id":                   {map[string]string{"TEMPORAL_WORKER_BUILD_ID": "7.1"}, Versioning{Behavior: VersioningUpgrade, Deployment: "weft", BuildID: "7.1"}},
		"pinned":                     {map[string]string{"WEFT_WORKER_VERSIONING": "pinned"}, Versioning{Behavior: VersioningPinned, Deployment: "weft"}},
		"off with a deployment name": {map[string]string{"WEFT_WORKER_VERSIONING": "off", "TEMPORAL_DEPLOYMENT_NAME": "triage"}, Versioning{Behavior: VersioningOff, Deployment: "triage"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, err := Load(Options{Env: fakeEnv(tc.env)})
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Versioning(); got != tc.want {
				t.Errorf("versioning = %+v, want %+v", got, tc.want)
			}
		})
	}
	_, err := Load(Options{Env: fakeEnv{"TEMPORAL_DEPLOYMENT_NAME": "a.b"}})
	if err == nil || !strings.Contains(err.Error(), `TEMPORAL_DEPLOYMENT_NAME is "a.b"`) {
		t.Errorf("invalid deployment name: error = %v", err)
	}
}
