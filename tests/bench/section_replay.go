package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"weft/workflows"
)

// replays measures the interpreter alone: recorded histories are replayed by the workflow code
// without server or activities.
func replays(ctx context.Context, b *bench) error {
	many, err := manyBranches(b.scale.branches)
	if err != nil {
		return err
	}
	loop, err := agentLoop(b.scale.loopsToReplay)
	if err != nil {
		return err
	}
	b.table.head("Workflow code alone: CPU per history event, by replay (%d rounds of %s each side)", b.scale.rounds, b.scale.replay)
	for _, w := range []struct {
		name string
		workload
	}{
		{"W1, ten calls", tenCalls()},
		{fmt.Sprintf("W5, %d branches in place", b.scale.branches), many.form(false)},
		{fmt.Sprintf("W5, parent of %d children", b.scale.branches), many.form(true)},
		{fmt.Sprintf("W2, %d turns", b.scale.loopsToReplay), loop},
	} {
		if err := b.replay(ctx, w.name, w.workload); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) replay(ctx context.Context, name string, w workload) error {
	ours, err := b.recordOf(ctx, w.ours)
	if err != nil {
		return err
	}
	twin, err := b.recordOf(ctx, w.twin)
	if err != nil {
		return err
	}
	if err := errors.Join(b.keep(name+", ours", ours), b.keep(name+", twin", twin)); err != nil {
		return err
	}
	var a, t, mallocs, twins []float64
	for range b.scale.rounds {
		x, n, err := replayFor(ours, b.scale.replay)
		if err != nil {
			return fmt.Errorf("replay ours: %w", err)
		}
		y, m, err := replayFor(twin, b.scale.replay)
		if err != nil {
			return fmt.Errorf("replay the twin: %w", err)
		}
		a, t, mallocs, twins = append(a, x), append(t, y), append(mallocs, n), append(twins, m)
	}
	b.table.row(name+", per event", a, t, nanos, 0)
	b.table.row(name+", per run", times(a, len(ours.Events)), times(t, len(twin.Events)), nanos, 0)
	b.table.row("allocations per event, "+name, mallocs, twins, count, 0)
	return nil
}

func times(v []float64, n int) []float64 {
	var out []float64
	for _, x := range v {
		out = append(out, x*float64(n))
	}
	return out
}

// recordOf runs one side once and returns its history.
func (b *bench) recordOf(ctx context.Context, s start) (*historypb.History, error) {
	runs, err := b.play(ctx, s, burst{queue: benchQueue, runs: 1, inFlight: 1})
	if err != nil {
		return nil, err
	}
	return b.history(ctx, runs[0].GetID(), runs[0].GetRunID())
}

// keep stores a history for BenchmarkReplay, if a folder is set.
func (b *bench) keep(name string, h *historypb.History) error {
	if b.histories == "" {
		return nil
	}
	raw, err := proto.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.histories, name+historySuffix), raw, 0o644)
}

// historySuffix is the suffix of history files.
const historySuffix = ".history"

// replayOf returns a function that replays a history once.
func replayOf(h *historypb.History) func() error {
	replayer := worker.NewWorkflowReplayer()
	workflows.Register(replayer)
	registerTwins(replayer)
	first := h.Events[0].GetWorkflowExecutionStartedEventAttributes()
	o := worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: first.GetWorkflowId(), RunID: first.GetOriginalExecutionRunId()}}
	return func() error { return replayer.ReplayWorkflowHistoryWithOptions(quiet, h, o) }
}

// replayFor replays a history repeatedly and returns the processor time and allocations per event, except those of the
// first replay in a process, which fills caches.
func replayFor(h *historypb.History, atLeast time.Duration) (spent, mallocs float64, err error) {
	replay := replayOf(h)
	if err := replay(); err != nil {
		return 0, 0, err
	}
	before := allocations()
	began, used := time.Now(), cpuOf(os.Getpid())
	n := 0
	for time.Since(began) < atLeast {
		if err := replay(); err != nil {
			return 0, 0, err
		}
		n += len(h.Events)
	}
	cpu := cpuOf(os.Getpid()) - used
	if cpu == 0 { // no /proc: replay keeps one thread busy, so wall time is close
		cpu = time.Since(began)
	}
	return float64(cpu) / float64(n), (allocations() - before) / float64(n), nil
}

// allocations returns the number of allocations of this process.
func allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}
