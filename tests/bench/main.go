// Command bench measures what interpreting a flow costs in comparison with a hand-written workflow.
//
// It starts the embedded server as a process and prints one table: each workload runs as a
// plan and as its twin, a hand-written Go workflow of the same structure that calls the same
// activities with the same inputs, alternately; the ratio is the result. It asserts no
// times, and uses only the loopback interface and the scripted model. README.md
// explains each row.
//
// Start at [sections]. The twins are in twin.go, the workloads of both sides in workloads.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == workerRole {
		if err := workAlone(os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "bench worker: %v\n", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// settings are read from the environment.
type settings struct {
	// server and worker are the paths of the built programs.
	server, worker string
	quick          bool
	// only, if set, is a comma-separated list of the sections to run.
	only string
	// cluster, if set, is the folder of a running cluster (docker/cluster.sh) to measure instead of
	// the embedded server, and address is its address.
	cluster, address string
	// elements is the size of the larger map; if forced is set, it has no time limit.
	elements int
	forced   bool
	// branches, if not 0, is the number of branches of the fork.
	branches int
	// record writes the counts to the recorded table.
	record bool
	// histories, if set, is the folder in which to store the replayed histories.
	histories string
}

// keptHistories is the variable that names the folder of stored histories.
const keptHistories = "BENCH_HISTORIES"

// environment returns the settings and the environment for child processes, without variables
// that could lead to a real provider or cluster.
func environment() (settings, []string, error) {
	var s settings
	var clean []string
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "WEFT_DEVSERVER":
			s.server = value
		case "WEFT_WORKER":
			s.worker = value
		case "BENCH_QUICK":
			s.quick = value != "" && value != "0"
		case "BENCH_RECORD":
			s.record = value != "" && value != "0"
		case "BENCH_ONLY":
			s.only = value
		case keptHistories:
			s.histories = value
		case "BENCH_ELEMENTS", "BENCH_BRANCHES":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 100_000 {
				return s, nil, fmt.Errorf("%s is %q; set it to a number from 1 to 100000", name, value)
			}
			if name == "BENCH_BRANCHES" {
				s.branches = n
			} else {
				s.elements, s.forced = n, true
			}
		case "WEFT_CLUSTER":
			s.cluster = value
		case "TEMPORAL_ADDRESS":
			s.address = value
		}
		if leadsOut(name) {
			continue
		}
		clean = append(clean, e)
	}
	if s.cluster == "" && (s.server == "" || s.worker == "") {
		return s, nil, errors.New("WEFT_DEVSERVER and WEFT_WORKER must name the built programs; make bench builds them and runs this")
	}
	return s, clean, nil
}

// leadsOut reports whether a variable could lead to a real provider or cluster.
func leadsOut(name string) bool {
	return strings.HasSuffix(name, "_API_KEY") || strings.HasSuffix(name, "_API_KEY_FILE") || name == "OLLAMA_HOST" || name == "OLLAMA_BASE_URL" ||
		strings.HasPrefix(name, "TEMPORAL_") || strings.HasPrefix(name, "WEFT_")
}

// bench is the state shared by all sections.
type bench struct {
	settings
	scale  scale
	env    []string
	dir    string
	table  *table
	server *process
	// address is the server's; serverCPU is the processor time that it has used, in a cluster the total of
	// all server nodes and the database.
	address   string
	serverCPU func() time.Duration
	client    client.Client
	// worker runs both sides' workflows and the activities in a separate process.
	worker *workerProcess
	tools  *toolServer
	runs   int
	// began distinguishes this benchmark's runs from those of others on the same cluster.
	began time.Time
}

// id returns the workflow id of the n-th run.
func (b *bench) id(n int) string { return fmt.Sprintf("bench-%d-%d", b.began.UnixNano(), n) }

// scale is the amount of work to measure.
type scale struct {
	rounds, fewRounds  int
	alone, inFlight    int
	branches           int
	widths             []int
	loops, toolLoops   []int
	coldLoops, byValue []int
	open               int
	// elements is the size of the larger map, which has no twin.
	elements             int
	replay, stream       time.Duration
	heartbeats           []int
	loads                int
	loopsToReplay        int
	killCalls, killInMid int
	saves                int
	// budget is the time after which a comparison starts no further round.
	budget time.Duration
}

func scaleOf(quick bool) scale {
	// Many short rounds, because the machine's speed varies over time.
	s := scale{rounds: 24, fewRounds: 3, alone: 8, inFlight: 50, branches: 100, widths: []int{300, 1000},
		loops: []int{100, 300, 1000}, toolLoops: []int{100, 500}, coldLoops: []int{100, 500}, byValue: []int{100, 300},
		open: 150, elements: 10_000, replay: 250 * time.Millisecond, stream: 10 * time.Second, heartbeats: []int{5, 2}, loads: 20,
		loopsToReplay: 100, killCalls: 100, killInMid: 51, saves: 100, budget: 80 * time.Second}
	if quick {
		s.rounds, s.fewRounds, s.alone, s.inFlight, s.branches, s.widths = 2, 2, 8, 50, 50, []int{150}
		s.loops, s.toolLoops, s.coldLoops, s.byValue = []int{100, 300}, []int{100}, []int{100}, []int{100}
		s.budget = 10 * time.Second
		s.stream = 5 * time.Second
		s.open, s.elements, s.replay, s.heartbeats, s.loads, s.saves = 50, 500, 300*time.Millisecond, []int{2}, 10, 20
	}
	return s
}

// section is a part of the table.
type section struct {
	name string
	run  func(context.Context, *bench) error
}

// sections are the parts of the table, in order.
var sections = []section{
	{"load", load},
	{"w1", sequential},
	{"w3", chains},
	{"w5", fanOut},
	{"widths", widths},
	{"w2", agentLoops},
	{"pure", pureTool},
	{"replay", replays},
	{"memory", memory},
	{"streams", watching},
	{"w4", kills},
	{"limits", sharedLimits},
	{"dev", saves},
	{"caches", caches},
}

func run(ctx context.Context) error {
	set, env, err := environment()
	if err != nil {
		return err
	}
	b := &bench{settings: set, scale: scaleOf(set.quick), env: env, table: &table{out: os.Stdout, counts: counts{}}, began: time.Now()}
	if set.forced {
		b.scale.elements = set.elements
	}
	b.scale.branches = cmp.Or(set.branches, b.scale.branches)
	if err := b.open(ctx); err != nil {
		return err
	}
	defer b.close()
	fmt.Printf("Weft beside hand-written twins: %d cores, %s, load %s. Ratios are ours/twin, min / median / max over rounds.\n",
		runtime.NumCPU(), runtime.Version(), loadAverage())
	var failed []error
	parts := sections
	if set.cluster != "" {
		parts = clusterSections
	}
	for _, s := range parts {
		if set.only != "" && !strings.Contains(","+set.only+",", ","+s.name+",") {
			continue
		}
		at := time.Now()
		if err := s.run(ctx, b); err != nil {
			failed = append(failed, fmt.Errorf("section %s: %w", s.name, err))
			b.table.note("not measured: %v", err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %.1f s\n", s.name, time.Since(at).Seconds())
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Printf("\nAll of it took %.0f s.\n", time.Since(b.began).Seconds())
	if set.cluster == "" {
		failed = append(failed, b.table.counts.check(set.record))
	}
	return errors.Join(failed...)
}

// open starts the server, the worker and the tool server.
func (b *bench) open(ctx context.Context) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "weft-bench-"); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		b.close()
		return err
	}
	return nil
}

func (b *bench) start(ctx context.Context) error {
	var err error
	if b.settings.cluster != "" {
		b.address = b.settings.address
		if b.serverCPU, err = clusterCPU(b.settings.cluster); err != nil {
			return err
		}
	} else {
		if b.server, b.address, err = startServer(b.settings.server, b.dir, b.env); err != nil {
			return err
		}
		pid := b.server.cmd.Process.Pid
		b.serverCPU = func() time.Duration { return cpuOf(pid) }
	}
	if b.tools, err = serveTools(); err != nil {
		return err
	}
	if b.client, err = client.DialContext(ctx, client.Options{HostPort: b.address, Logger: quiet}); err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	b.worker, err = b.startWorker(benchQueue)
	return err
}

func (b *bench) close() {
	if b.worker != nil {
		b.worker.kill()
	}
	if b.client != nil {
		b.client.Close()
	}
	if b.tools != nil {
		b.tools.close()
	}
	if b.server != nil {
		b.server.kill()
	}
	_ = os.RemoveAll(b.dir)
}
