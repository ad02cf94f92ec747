package main

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities"
)

// The task queues of the workers in this process.
const (
	warmQueue = "bench-warm"
	coldQueue = "bench-cold"
)

// turnLimit is the maximum history of a turn of 6 KiB.
const turnLimit = 8 << 10

// agentLoops is workload W2, and its number of queries to the run.
func agentLoops(ctx context.Context, b *bench) error {
	b.table.plainHead("W2: an agent loop, %s of new conversation per turn", bytes(turnBytes))
	fmt.Fprintf(b.table.out, "  %-32s %9s %12s %12s %12s %12s   %s\n", "", "turns", "wall", "per turn", "history", "per turn", "query-backs per model call")
	ours := func(turns int) (start, error) {
		w, err := agentLoop(turns)
		return w.ours, err
	}
	twin := func(turns int) (start, error) {
		w, err := agentLoop(turns)
		return w.twin, err
	}
	for _, set := range []loops{
		{"ours, model calls alone", warmQueue, 0, b.scale.loops, monologue, false},
		{"ours, with a pure tool", warmQueue, 0, b.scale.loops, pureLoop, false},
		{"ours, with tool calls", warmQueue, 0, b.scale.toolLoops, ours, false},
		{"ours, cache of 1 byte", coldQueue, 1, b.scale.coldLoops, ours, false},
		{"twin, by value, with tool calls", warmQueue, 0, b.scale.byValue, twin, true},
	} {
		if err := b.loopsOf(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// pureLimit is the maximum cost of a turn with a pure tool relative to one without tools.
const pureLimit = 1.15

// pureTool compares W2 with a pure tool to W2 without tools.
func pureTool(ctx context.Context, b *bench) error {
	turns := b.scale.loops[0]
	pure, err := pureLoop(turns)
	if err != nil {
		return err
	}
	alone, err := monologue(turns)
	if err != nil {
		return err
	}
	b.table.columns("pure", "none", "W2: %d turns with a pure tool beside model calls alone (%d runs each by turns)", turns, b.scale.rounds)
	return b.compare(ctx, workload{steps: turns, ours: pure, twin: alone}, b.scale.rounds, burst{queue: benchQueue, runs: 1, inFlight: 1}, []metric{
		{"wall time per turn", perStep(medianFlow), nanos, pureLimit},
		{"CPU of both per turn", perStep(bothOf), nanos, pureLimit},
		{"history events per turn", perStep(eventsOf), count, 0},
	})
}

// loops are agent loops of several lengths on one worker.
type loops struct {
	name, queue string
	// cacheBytes bounds the worker's transcript cache; 0 is the default.
	cacheBytes int
	turns      []int
	make       func(turns int) (start, error)
	twin       bool
}

// loopsOf runs agent loops on a separate worker in this process, whose queries to runs
// can be counted.
func (b *bench) loopsOf(ctx context.Context, set loops) error {
	source := &counting{Source: activities.NewClientSource(b.client)}
	w, err := newWorker(b.client, crew{queue: set.queue, toolsURL: b.tools.url, cacheBytes: set.cacheBytes, source: source})
	if err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	defer w.Stop()
	for _, turns := range set.turns {
		before := source.queries.Load()
		if err := b.oneLoop(ctx, &set, turns, func() float64 {
			return float64(source.queries.Load()-before) / float64(turns)
		}); err != nil {
			return err
		}
	}
	return nil
}

// oneLoop runs one loop and prints its row. A run terminated by the server gets a row too.
func (b *bench) oneLoop(ctx context.Context, set *loops, turns int, asked func() float64) error {
	s, err := set.make(turns)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b.runs++
	began := time.Now()
	run, err := b.begin(ctx, b.id(b.runs), set.queue, s)
	if err != nil {
		return err
	}
	first := run.GetRunID()
	failure := run.Get(ctx, nil)
	took := float64(time.Since(began))
	size, runs, err := b.chainBytes(ctx, run.GetID(), first)
	if err != nil {
		return err
	}
	each := float64(size) / float64(turns)
	limit := fmt.Sprintf("<= %s per turn %s", bytes(turnLimit), verdict(each, turnLimit))
	if runs > 1 {
		limit += fmt.Sprintf(", in %d runs", runs)
	}
	done := turns
	if failure != nil {
		if !set.twin || !b.ended(ctx, run) {
			return fmt.Errorf("%s, %d turns: %w", set.name, turns, failure)
		}
		if done, err = b.callsIn(ctx, run.GetID(), first); err != nil {
			return err
		}
		each = float64(size) / float64(done)
		limit = fmt.Sprintf("ended by the server after call %d", done)
	} else if set.twin {
		limit = ""
	}
	if !set.twin {
		row := fmt.Sprintf("%s, %d turns", set.name, turns)
		b.table.count(row+", history per turn", each)
		b.table.count(row+", query-backs per model call", asked())
	}
	fmt.Fprintf(b.table.out, "  %-32s %9d %12s %12s %12s %12s   %.2f   %s\n", set.name, turns, nanos(took), nanos(took/float64(done)), bytes(float64(size)), bytes(each), asked(), limit)
	return nil
}

// ended reports whether the server itself terminated a run.
func (b *bench) ended(ctx context.Context, run client.WorkflowRun) bool {
	d, err := b.client.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
	if err != nil {
		return false
	}
	s := d.GetWorkflowExecutionInfo().GetStatus()
	return s == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED || s == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
}

// callsIn counts the model calls in a run's history.
func (b *bench) callsIn(ctx context.Context, id, run string) (int, error) {
	r, err := b.read(ctx, id, run, burst{})
	return len(r.steps), err
}

// chainBytes returns the total history size of a run and the runs that continue it, and the number
// of runs.
func (b *bench) chainBytes(ctx context.Context, id, run string) (size, runs int, err error) {
	for run != "" {
		n, err := b.historyBytes(ctx, id, run)
		if err != nil {
			return 0, 0, err
		}
		size, runs = size+n, runs+1
		last, err := b.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).Next()
		if err != nil {
			return 0, 0, fmt.Errorf("read the end of %q: %w", id, err)
		}
		run = last.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return size, runs, nil
}
