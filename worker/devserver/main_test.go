package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/tests/programs"
	"weft/worker/config"
)

// runMain is the environment variable that makes the test binary run the command.
const runMain = "WEFT_DEVSERVER_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a running weft-devserver.
type process struct {
	*exec.Cmd
	ready ready
	log   *strings.Builder
}

// start starts the command and waits for its ready line.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith is start with additional environment variables.
func startWith(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), log: &strings.Builder{}}
	p.Env, p.Stderr = append(append(programs.CleanEnv(), runMain+"=1"), env...), p.log
	programs.Ready(t, p.Cmd, &p.ready)
	return p
}

func connect(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRunsSurviveKill(t *testing.T) {
	db := filepath.Join(t.TempDir(), "sub", "t.db")
	args := []string{"-db", db, "-port", "0", "-ui-port", "0", "-worker=false"}
	first := start(t, args...)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if _, err := connect(t, first.ready.Address).ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "kept", TaskQueue: "nobody"}, "Flow"); err != nil {
		t.Fatal(err)
	}
	other := exec.Command(os.Args[0], args...)
	other.Env = append(programs.CleanEnv(), runMain+"=1")
	out, err := other.CombinedOutput()
	if want := fmt.Sprintf("weft-devserver: database %q is in use by another weft-devserver; stop that one, or use another file with -db\n", db); err == nil || string(out) != want {
		t.Errorf("a second server on the database: %v, %s; want %s", err, out, want)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()

	second := start(t, args...)
	d, err := connect(t, second.ready.Address).DescribeWorkflowExecution(ctx, "kept", "")
	if err != nil {
		t.Fatalf("the run was lost: %v", err)
	}
	if info, err := os.Stat(db + ".store"); err == nil || second.ready.Store != db+".store" {
		t.Errorf("store = %q; its folder without a worker: %v", second.ready.Store, info)
	}
	if s := d.GetWorkflowExecutionInfo().GetStatus().String(); s != "Running" {
		t.Errorf("status = %s, want Running", s)
	}
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Errorf("stopped with %v\n%s", err, second.log)
	}
}

func TestMemoryUIAndReadyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json")
	p := start(t, "-db", inMemory, "-port", "0", "-ui-port", "-1", "-ready-file", file)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got ready
	if err := json.Unmarshal(raw, &got); err != nil || got != p.ready || got.DB != inMemory || got.Store != "" || got.Namespace != "default" {
		t.Errorf("ready file = %s (%v), ready line = %+v", raw, err, p.ready)
	}
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(got.UI, "http://"), time.Second)
	if err != nil {
		t.Fatalf("the Web UI at %q does not answer: %v", got.UI, err)
	}
	_ = c.Close()
	if !strings.Contains(p.log.String(), "worker: temporal "+got.Address) {
		t.Errorf("no worker in %s", p.log)
	}
}

// TestDefaultStore checks that a worker keeps its store next to the database by default.
func TestDefaultStore(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "-db", filepath.Join(dir, "t.db"), "-port", "0", "-ui-port", "0")
	if want := filepath.Join(dir, "t.db.store"); p.ready.Store != want {
		t.Errorf("store = %q, want %q", p.ready.Store, want)
	}
	if _, err := os.Stat(filepath.Join(p.ready.Store, "store.id")); err != nil {
		t.Error(err)
	}
}

func TestIncompleteDatabaseIsRecreated(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	if err := os.WriteFile(db+".new", []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	store, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	if store.DatabaseName != db || store.ConnectAttributes["journal_mode"] != "wal" {
		t.Errorf("store = %+v", store)
	}
	if _, err := openStore(db); err != nil {
		t.Errorf("opening it again: %v", err)
	}
}

func TestForeignFileIsRejected(t *testing.T) {
	db := filepath.Join(t.TempDir(), "letter.txt")
	if err := os.WriteFile(db, []byte("Dear reader, this is no database at all."), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(db); err == nil || !strings.Contains(err.Error(), "if the file is not a Temporal database, use another with -db") {
		t.Errorf("openStore() error = %v", err)
	}
	if raw, _ := os.ReadFile(db); !strings.HasPrefix(string(raw), "Dear reader") {
		t.Errorf("the file was changed: %q", raw)
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", at(0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	used := l.Addr().(*net.TCPAddr).Port
	if _, err := choosePort("-port", used, false); err == nil || !strings.Contains(err.Error(), "use another with -port") {
		t.Errorf("port in use: error = %v", err)
	}
	if got, err := choosePort("-port", used, true); err != nil || got == used || got == 0 {
		t.Errorf("alternative port = %d, %v", got, err)
	}
	for _, want := range []int{-2, 65536} {
		if _, err := choosePort("-port", want, true); err == nil {
			t.Errorf("port %d: no error", want)
		}
	}
	ports, err := freePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] {
			t.Errorf("port %d twice in %v", p, ports)
		}
		seen[p] = true
	}
}

// TestWorkerWithoutServer checks that a worker can use the server of another process.
func TestWorkerWithoutServer(t *testing.T) {
	server := start(t, "-db", inMemory, "-port", "0", "-ui-port", "0", "-worker=false")
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := startWith(t, []string{"TEMPORAL_ADDRESS=" + server.ready.Address}, "-server=false", "-ready-file", ready)
	if p.ready.Address != server.ready.Address {
		t.Errorf("ready = %+v", p.ready)
	}
	if _, err := lock(ready); err == nil {
		t.Error("the lock of a running worker is not held")
	}
	c := connect(t, server.ready.Address)
	seen := false
	for end := time.Now().Add(10 * time.Second); !seen && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		d, err := c.DescribeTaskQueue(context.Background(), "weft", enumspb.TASK_QUEUE_TYPE_WORKFLOW)
		if err != nil {
			t.Fatal(err)
		}
		for _, poller := range d.GetPollers() {
			seen = seen || strings.HasPrefix(poller.GetIdentity(), config.DevIdentity)
		}
	}
	if !seen {
		t.Error("no development worker polls the task queue")
	}
	for _, args := range [][]string{{"-server=false", "-worker=false"}, {"-server=false", "-demo", "x.json"}} {
		if _, err := parse(args, os.Stderr); err == nil || !strings.Contains(err.Error(), "-server=false runs only the worker") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestCommandsOfFlows checks that commands of flows need no permission only if the flag is set.
func TestCommandsOfFlows(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("WEFT_ALLOW_COMMANDS", "")
	for _, tc := range []struct{ args, want []string }{{nil, nil}, {[]string{"--allow-commands"}, []string{"*"}}} {
		o, err := parse(tc.args, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(o.config)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(cfg.AllowCommands, tc.want) || !cfg.AllowLoopback {
			t.Errorf("flags %q: allowed commands = %q, loopback = %v", tc.args, cfg.AllowCommands, cfg.AllowLoopback)
		}
	}
}

// TestSecretsAreNotPrinted checks that secrets in the settings are masked in the log and in error output.
func TestSecretsAreNotPrinted(t *testing.T) {
	const secret = "canary-0a1b2c3d4e"
	dir := t.TempDir()
	file := filepath.Join(dir, "weft.yaml")
	if err := os.WriteFile(file, []byte("connections: {web: {url: 'https://tools.example.com/mcp', headers: {Authorization: 'Bearer ${CANARY}'}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CANARY", secret)
	t.Setenv("OPENAI_API_KEY", secret+"-openai")
	cfg, err := config.Load(config.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o := &options{stderr: &out}
	o.masked(cfg)
	o.logger().Error("it was told of "+secret, "error", secret+"-openai")
	fmt.Fprintf(o.stderr, "Bearer %s\n", secret)
	if strings.Contains(out.String(), "canary") || strings.Count(out.String(), "[secret]") != 3 {
		t.Errorf("output = %q", out.String())
	}
}
