package chaos

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/tests/harness"
)

// TestEndToEndClusterFaults injects one fault after another into a cluster under load. It checks
// that no run is lost, that no call recorded in history is repeated, and that every repetition is
// explained by a fault. In total it starts 1,000 runs, or 100 with BENCH_QUICK; CLUSTER_RUNS is
// the number of runs per fault, instead of 200.
func TestEndToEndClusterFaults(t *testing.T) {
	dir := harness.ClusterDir(t)
	first := harness.ServerAddress(t)
	host, port, err := net.SplitHostPort(first)
	if err != nil {
		t.Fatal(err)
	}
	second := net.JoinHostPort(strings.TrimSuffix(host, "1")+"2", port)
	runs := 200
	if os.Getenv("BENCH_QUICK") != "" {
		runs = 20
	}
	if text := os.Getenv("CLUSTER_RUNS"); text != "" {
		if runs, err = strconv.Atoi(text); err != nil || runs < 20 {
			t.Fatalf("CLUSTER_RUNS is %q, want 20 or more", text)
		}
	}
	t.Run("workers are killed", func(t *testing.T) {
		s := newLoadTest(t)
		workers := []*loadWorker{s.startWorker(first, s.model), s.startWorker(second, s.model)}
		killWorker := func(i int, address string) func() {
			return func() {
				s.withFault("a worker is killed and replaced", func() {
					workers[i].kill()
					workers[i] = s.startWorker(address, s.model)
				})
			}
		}
		s.run(runs, map[int]func(){runs / 5: killWorker(0, first), runs / 2: killWorker(1, second)})
	})
	t.Run("a server node is killed", func(t *testing.T) {
		s := newLoadTest(t)
		s.startWorker(first, s.model)
		s.startWorker(second, s.model)
		s.run(runs, map[int]func(){runs / 4: func() {
			s.withFault("a server node is killed and restarted", func() {
				killProgram(t, dir, "temporal-2")
				time.Sleep(2 * time.Second)
				restartProgram(t, dir, "temporal-2")
				waitUntilListening(t, second)
				time.Sleep(10 * time.Second) // its shards and queues move back
			})
		}})
	})
	t.Run("PostgreSQL is killed", func(t *testing.T) {
		s := newLoadTest(t)
		s.startWorker(first, s.model)
		s.startWorker(second, s.model)
		s.run(runs, map[int]func(){runs / 4: func() {
			s.withFault("PostgreSQL is killed and restarted", func() {
				killDatabase(t, dir)
				time.Sleep(2 * time.Second)
				startDatabase(t, dir)
				time.Sleep(15 * time.Second) // servers reconnect and acquire their shards
			})
		}})
	})
	t.Run("packets are lost", func(t *testing.T) {
		s := newLoadTest(t)
		relay := newRelay(t, "127.0.0.1", second)
		s.startWorker(first, s.model)
		s.startWorker(relay.address, s.model)
		s.run(runs, map[int]func(){runs / 5: func() {
			s.withFault("packet loss between one worker and the server", func() {
				relay.lose(true)
				time.Sleep(15 * time.Second)
				relay.lose(false)
				time.Sleep(5 * time.Second)
			})
		}})
		delayed, dropped := relay.counts()
		t.Logf("%d chunks delayed, %d dropped", delayed, dropped)
		if delayed == 0 {
			t.Error("no chunk was delayed")
		}
	})
	t.Run("the network is cut", func(t *testing.T) {
		n := newNamespace(t)
		s := newLoadTest(t)
		s.startWorker(first, s.model)
		s.disconnected = "w2"
		s.startWorker(newRelay(t, n.hostIP, second).address, newRelay(t, n.hostIP, s.model).address, "ip", "netns", "exec", n.name)
		s.run(runs, map[int]func(){runs / 5: func() {
			s.withFault("a worker is disconnected from server and model, and reconnects", func() {
				n.setLink(t, "down")
				time.Sleep(loadHeartbeat + 5*time.Second)
				n.setLink(t, "up")
				time.Sleep(10 * time.Second) // the results of its calls arrive late
			})
		}})
	})
}

// restartProgram starts a killed program of the cluster again.
func restartProgram(t *testing.T, dir, name string) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("bash", filepath.Join(dir, name+".run"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // the cluster stops it
}

// waitUntilListening waits until the address accepts connections.
func waitUntilListening(t *testing.T, address string) {
	t.Helper()
	harness.WaitFor(t, address, func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// killDatabase kills PostgreSQL and all its processes.
func killDatabase(t *testing.T, dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "pg", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || pid < 2 {
		t.Fatalf("PostgreSQL's pid is %q", line)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(f); err == nil {
			_ = syscall.Kill(child, syscall.SIGKILL) // it may have exited already
		}
	}
}

// startDatabase starts PostgreSQL again, retrying while it recovers.
func startDatabase(t *testing.T, dir string) {
	t.Helper()
	var out []byte
	for range 10 {
		var err error
		if out, err = os.ReadFile(filepath.Join(dir, "pg", "log")); err == nil {
			cmd := exec.Command("bash", filepath.Join(dir, "postgres.run"))
			if err = cmd.Run(); err == nil {
				return
			}
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("PostgreSQL does not restart: %s", out[max(0, len(out)-1000):])
}

// netNamespace is a network namespace that a veth pair connects with the host's.
type netNamespace struct{ name, veth, hostIP string }

// newNamespace creates one, or skips the test if that is not allowed.
func newNamespace(t *testing.T) *netNamespace {
	t.Helper()
	id := os.Getpid() % 10_000
	n := &netNamespace{name: fmt.Sprintf("weft-%d", id), veth: fmt.Sprintf("weft%d", id), hostIP: "10.213.77.1"}
	if os.Geteuid() != 0 {
		t.Skip("only root can create a network namespace")
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", n.veth).Run()
		_ = exec.Command("ip", "netns", "del", n.name).Run()
	})
	for _, args := range []string{
		"netns add " + n.name,
		"link add " + n.veth + " type veth peer name far netns " + n.name,
		"addr add " + n.hostIP + "/24 dev " + n.veth,
		"link set " + n.veth + " up",
		"-n " + n.name + " addr add 10.213.77.2/24 dev far",
		"-n " + n.name + " link set far up",
		"-n " + n.name + " link set lo up",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Skipf("cannot create a network namespace: ip %s: %v: %s", args, err, out)
		}
	}
	return n
}

// setLink sets the connection to the namespace up or down.
func (n *netNamespace) setLink(t *testing.T, state string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", n.veth, state).CombinedOutput(); err != nil {
		t.Errorf("ip link set %s %s: %v: %s", n.veth, state, err, out)
	}
}
