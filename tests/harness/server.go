package harness

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"weft/activities/contract"
	"weft/tests/programs"
	"weft/worker/config"
	"weft/worker/store"
)

// Server is a Temporal server in a separate process.
type Server struct {
	Address string
	cmd     *exec.Cmd
}

// StartServer starts a server on a database and waits until it is ready.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	cmd := exec.Command(programs.Path(t, "WEFT_DEVSERVER"), append([]string{"-worker=false", "-ui-port=0"}, args...)...)
	cmd.Env = append(programs.CleanEnv(), "WEFT_MODEL=script")
	var ready struct{ Address string }
	programs.Ready(t, cmd, &ready)
	return &Server{Address: ready.Address, cmd: cmd}
}

// Kill kills the server immediately, like a crash.
func (s *Server) Kill() { programs.Kill(s.cmd) }

// StartWorker runs the worker program against a server, with its own settings.
func StartWorker(t *testing.T, address string, settings ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(programs.Path(t, "WEFT_WORKER"))
	cmd.Dir = t.TempDir()
	cmd.Env = slices.Concat(programs.CleanEnv(), []string{"TEMPORAL_ADDRESS=" + address}, settings)
	cmd.Stderr = programs.Log(t, "worker")
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

var sharedServer struct {
	once    sync.Once
	address string
	stop    func()
}

// ServerAddress returns the address of a server that tests share if they do not disrupt it.
func ServerAddress(t testing.TB) string {
	t.Helper()
	if a := os.Getenv("TEMPORAL_ADDRESS"); a != "" {
		return a
	}
	programs.Path(t, "WEFT_DEVSERVER")
	sharedServer.once.Do(func() {
		keep := &noCleanupTB{TB: t}
		s := StartServer(keep, "-db", ":memory:", "-port=0")
		sharedServer.address, sharedServer.stop = s.Address, s.Kill
	})
	if sharedServer.address == "" {
		t.Fatal("the shared server did not start")
	}
	return sharedServer.address
}

// noCleanupTB registers no cleanup, so that a server keeps running after the test that started it.
type noCleanupTB struct{ testing.TB }

func (*noCleanupTB) Cleanup(func()) {}

func (k *noCleanupTB) TempDir() string { return os.TempDir() }

// RunTests runs a package's tests, stops the shared server, and returns the exit code.
func RunTests(m *testing.M) int {
	code := m.Run()
	if sharedServer.stop != nil {
		sharedServer.stop()
	}
	return code
}

// ClusterDir returns the folder of the cluster that the cluster tests use, or skips the test.
func ClusterDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WEFT_CLUSTER")
	if dir == "" {
		t.Skip("WEFT_CLUSTER is not set; make cluster-test starts a cluster, where Debian's postgresql is installed, and runs this")
	}
	return dir
}

// WaitFor polls a condition with increasing intervals until it holds.
func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	begin := time.Now()
	for waited := time.Duration(0); waited < 5*time.Minute; waited = time.Since(begin) {
		if ok() {
			return
		}
		time.Sleep(min(max(waited/20, 20*time.Millisecond), 500*time.Millisecond))
	}
	t.Fatalf("waited five minutes for %s", what)
}

// Options returns client options for a server. Unlike the product's, they neither encrypt nor offload payloads.
func Options(address string) client.Options {
	return client.Options{HostPort: address, Logger: NoLog, ConnectionOptions: client.ConnectionOptions{GrpcCompression: config.Compression(address)}}
}

// Dial connects to a server; the connection is closed when the test ends.
func Dial(t testing.TB, address string) client.Client {
	t.Helper()
	o := Options(address)
	o.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(store.RepeatRequests)}
	c, err := client.Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Result waits for a run's result.
func Result(t testing.TB, run client.WorkflowRun) (*contract.RunResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // machines may be busy
	defer cancel()
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
