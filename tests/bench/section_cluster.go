package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clusterSections are the sections of the table for a cluster.
var clusterSections = []section{{"load", clusterLoad}, {"memory", memory}, {"wide", wide}, {"map", elements}}

// clusterLoad is workload W1 with several numbers of flows in flight, and the cluster size that
// results.
func clusterLoad(ctx context.Context, b *bench) error {
	w := tenCalls()
	levels := []struct {
		runs, inFlight, rounds int
		cold                   bool
	}{{10, 1, 3, false}, {100, 50, 3, false}, {500, 500, 2, true}}
	if b.quick {
		levels = levels[:2]
		levels[0].runs, levels[1].runs, levels[0].rounds, levels[1].rounds = 5, 50, 2, 2
	}
	var size []float64
	metrics := []metric{
		{"flows per second", func(s sample) float64 { return float64(len(s.flow)) / s.span * float64(time.Second) }, count, 0},
		{"steps per second", stepsPerSecond, whole, 0},
		{"step p50", stepQuantile(0.5), nanos, 0},
		{"step p99", stepQuantile(0.99), nanos, 0},
		{"CPU of the worker per step", perStep(workerOf), nanos, 0},
		{"CPU of servers and database per step", perStep(func(s sample) float64 { size = append(size, (s.server+s.worker)/float64(s.steps)); return s.server }), nanos, 0},
		{"history events per step", perStep(eventsOf), count, eventLimit},
	}
	for _, l := range levels {
		size = nil
		b.table.head("Ten model calls one behind the other, %d in flight (%d flows, at most %d rounds)", l.inFlight, l.runs, l.rounds)
		if err := b.compare(ctx, w, l.rounds, burst{queue: benchQueue, runs: l.runs, inFlight: l.inFlight, cold: l.cold}, metrics); err != nil {
			return err
		}
		// Both sides count, ours first.
		all := spreadOf(size[:len(size)/2]).median
		b.table.note("%s", sizing(all, w.steps))
	}
	return nil
}

// day is the period of a million runs, and busiest the maximum processor load.
const (
	day     = 24 * 60 * 60
	busiest = 0.6
)

// sizing returns how many processors a million runs a day need, given the processor time per step
// in nanoseconds.
func sizing(perStep float64, steps int) string {
	seconds := perStep / float64(time.Second)
	rate := 1e6 * float64(steps) / day
	return fmt.Sprintf("a million such runs a day: 1,000,000 x %d steps / 86,400 s = %.0f steps/s; x %s CPU per step = %.1f processors busy; at %.0f %% load %.1f",
		steps, rate, nanos(perStep), rate*seconds, busiest*100, rate*seconds/busiest)
}

// clusterCPU returns the total processor time of a cluster: its server nodes, and PostgreSQL with
// all its processes.
func clusterCPU(dir string) (func() time.Duration, error) {
	pids, err := pidsIn(dir)
	if err != nil {
		return nil, err
	}
	database := pids[len(pids)-1]
	return func() time.Duration {
		var all time.Duration
		for _, pid := range append(childrenOf(database), pids...) {
			all += cpuOf(pid)
		}
		return all
	}, nil
}

// pidsIn returns the pids of a cluster's server nodes, followed by that of its database.
func pidsIn(dir string) ([]int, error) {
	files, err := filepath.Glob(filepath.Join(dir, "temporal-*.pid"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New(dir + " has no temporal-1.pid: make bench-cluster starts a cluster and runs this")
	}
	var out []int
	for _, file := range append(files, filepath.Join(dir, "pg", "postmaster.pid")) {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
		pid, err := strconv.Atoi(line)
		if err != nil || pid < 2 {
			return nil, fmt.Errorf("%s begins with %q, want a pid", file, line)
		}
		out = append(out, pid)
	}
	return out, nil
}

// childrenOf returns the live child processes of a process.
func childrenOf(pid int) []int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil // it has exited, or this system has no /proc
	}
	var out []int
	for _, f := range strings.Fields(string(raw)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}
