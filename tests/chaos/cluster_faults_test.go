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

// TestEndToEndClusterFaults breaks one part of a cluster after the other under load. No run is
// lost, no call that history has is made again, and every call that was under way is accounted
// for. All together these are 1,000 runs, with BENCH_QUICK 100; CLUSTER_RUNS is how many each part
// that breaks has, instead of 200.
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
		crew := []*loadWorker{s.hire(first, s.model), s.hire(second, s.model)}
		blow := func(i int, address string) func() {
			return func() {
				s.broken("a worker is killed, and another started", func() {
					crew[i].kill()
					crew[i] = s.hire(address, s.model)
				})
			}
		}
		s.run(runs, map[int]func(){runs / 5: blow(0, first), runs / 2: blow(1, second)})
	})
	t.Run("a server node is killed", func(t *testing.T) {
		s := newLoadTest(t)
		s.hire(first, s.model)
		s.hire(second, s.model)
		s.run(runs, map[int]func(){runs / 4: func() {
			s.broken("a server node is killed, and started again", func() {
				killed(t, dir, "temporal-2")
				time.Sleep(2 * time.Second)
				again(t, dir, "temporal-2")
				reachable(t, second)
				time.Sleep(10 * time.Second) // its shards and queues move back
			})
		}})
	})
	t.Run("PostgreSQL is killed", func(t *testing.T) {
		s := newLoadTest(t)
		s.hire(first, s.model)
		s.hire(second, s.model)
		s.run(runs, map[int]func(){runs / 4: func() {
			s.broken("PostgreSQL is killed, and started again", func() {
				killDatabase(t, dir)
				time.Sleep(2 * time.Second)
				startDatabase(t, dir)
				time.Sleep(15 * time.Second) // servers connect again, and find their shards
			})
		}})
	})
	t.Run("packets are lost", func(t *testing.T) {
		s := newLoadTest(t)
		line := newRelay(t, "127.0.0.1", second)
		s.hire(first, s.model)
		s.hire(line.address, s.model)
		s.run(runs, map[int]func(){runs / 5: func() {
			s.broken("one worker's way to the server is lossy", func() {
				line.lose(true)
				time.Sleep(15 * time.Second)
				line.lose(false)
				time.Sleep(5 * time.Second)
			})
		}})
		late, gone := line.counts()
		t.Logf("%d pieces came late, %d never", late, gone)
		if late == 0 {
			t.Error("the line lost nothing")
		}
	})
	t.Run("the network is cut", func(t *testing.T) {
		n := newIsland(t)
		s := newLoadTest(t)
		s.hire(first, s.model)
		s.far = "w2"
		s.hire(newRelay(t, n.shore, second).address, newRelay(t, n.shore, s.model).address, "ip", "netns", "exec", n.name)
		s.run(runs, map[int]func(){runs / 5: func() {
			s.broken("a worker is cut off from server and model, and comes back", func() {
				n.link(t, "down")
				time.Sleep(loadHeartbeat + 5*time.Second)
				n.link(t, "up")
				time.Sleep(10 * time.Second) // what it did in the dark comes late
			})
		}})
	})
}

// again starts a program of the cluster that was killed.
func again(t *testing.T, dir, name string) {
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
	go func() { _ = cmd.Wait() }() // the cluster ends it
}

// reachable waits until somebody listens.
func reachable(t *testing.T, address string) {
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
			_ = syscall.Kill(child, syscall.SIGKILL) // it may be gone already
		}
	}
}

// startDatabase starts PostgreSQL again, which first mends what the kill left.
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
	t.Fatalf("PostgreSQL does not start again: %s", out[max(0, len(out)-1000):])
}

// island is a network namespace with one way to this one.
type island struct{ name, way, shore string }

// newIsland makes one, or skips where that is not allowed.
func newIsland(t *testing.T) *island {
	t.Helper()
	id := os.Getpid() % 10_000
	n := &island{name: fmt.Sprintf("weft-%d", id), way: fmt.Sprintf("weft%d", id), shore: "10.213.77.1"}
	if os.Geteuid() != 0 {
		t.Skip("a network namespace is made, which only root may do")
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", n.way).Run()
		_ = exec.Command("ip", "netns", "del", n.name).Run()
	})
	for _, args := range []string{
		"netns add " + n.name,
		"link add " + n.way + " type veth peer name far netns " + n.name,
		"addr add " + n.shore + "/24 dev " + n.way,
		"link set " + n.way + " up",
		"-n " + n.name + " addr add 10.213.77.2/24 dev far",
		"-n " + n.name + " link set far up",
		"-n " + n.name + " link set lo up",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Skipf("no network namespace can be made here: ip %s: %v: %s", args, err, out)
		}
	}
	return n
}

// link sets the way to the island up or down.
func (n *island) link(t *testing.T, state string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", n.way, state).CombinedOutput(); err != nil {
		t.Errorf("ip link set %s %s: %v: %s", n.way, state, err, out)
	}
}
