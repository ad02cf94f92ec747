package main

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities"
)

// The queues of the workers in this process.
const (
	warmQueue = "bench-warm"
	coldQueue = "bench-cold"
)

// turnLimit is the most history that a turn of 6 KiB may leave.
const turnLimit = 8 << 10

// agentLoops is workload W2, and what it asks its run for.
func agentLoops(ctx context.Context, b *bench) error {
	b.table.plainHead("W2: an agent loop, a model call and a tool call per turn, %s of new conversation per turn", bytes(turnBytes))
	fmt.Fprintf(b.table.out, "  %-30s %9s %12s %12s %12s %12s   %s\n", "", "turns", "wall", "per turn", "history", "per turn", "query-backs per model call")
	for _, set := range []struct {
		name, queue string
		cache       int
		turns       []int
		twin        bool
	}{
		{"ours, warm", warmQueue, 0, b.scale.loops, false},
		{"ours, cache of 1 byte", coldQueue, 1, b.scale.coldLoops, false},
		{"twin, transcript by value", warmQueue, 0, b.scale.byValue, true},
	} {
		if err := b.loopsOf(ctx, set.name, set.queue, set.cache, set.turns, set.twin); err != nil {
			return err
		}
	}
	return nil
}

// loopsOf runs agent loops of several lengths on a worker of their own in this process,
// whose questions to runs can be counted.
func (b *bench) loopsOf(ctx context.Context, name, queue string, cache int, lengths []int, twin bool) error {
	source := &counting{Source: activities.NewClientSource(b.client)}
	w, err := newWorker(b.client, queue, b.tools.url, cache, source)
	if err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	defer w.Stop()
	for _, turns := range lengths {
		work, err := agentLoop(turns)
		if err != nil {
			return err
		}
		s := work.ours
		if twin {
			s = work.twin
		}
		before := source.queries.Load()
		if err := b.oneLoop(ctx, name, queue, turns, s, twin, func() float64 {
			return float64(source.queries.Load()-before) / float64(turns)
		}); err != nil {
			return err
		}
	}
	return nil
}

// oneLoop runs one loop and prints its row. A run that the server ends is a row too.
func (b *bench) oneLoop(ctx context.Context, name, queue string, turns int, s start, twin bool, asked func() float64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b.runs++
	began := time.Now()
	run, err := b.begin(ctx, fmt.Sprintf("bench-loop-%d", b.runs), queue, s)
	if err != nil {
		return err
	}
	failure := run.Get(ctx, nil)
	took := float64(time.Since(began))
	size, err := b.historyBytes(ctx, run.GetID(), run.GetRunID())
	if err != nil {
		return err
	}
	each := float64(size) / float64(turns)
	limit := fmt.Sprintf("<= %s per turn %s", bytes(turnLimit), verdict(each, turnLimit))
	done := turns
	if failure != nil {
		if !twin || !b.ended(ctx, run) {
			return fmt.Errorf("%s, %d turns: %w", name, turns, failure)
		}
		if done, err = b.callsIn(ctx, run); err != nil {
			return err
		}
		each = float64(size) / float64(done)
		limit = fmt.Sprintf("ended by the server after call %d", done)
	} else if twin {
		limit = ""
	}
	fmt.Fprintf(b.table.out, "  %-30s %9d %12s %12s %12s %12s   %.2f   %s\n", name, turns, nanos(took), nanos(took/float64(done)), bytes(float64(size)), bytes(each), asked(), limit)
	return nil
}

// ended says whether the server itself ended a run.
func (b *bench) ended(ctx context.Context, run client.WorkflowRun) bool {
	d, err := b.client.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
	if err != nil {
		return false
	}
	s := d.GetWorkflowExecutionInfo().GetStatus()
	return s == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED || s == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
}

// callsIn counts the model calls in a run's history.
func (b *bench) callsIn(ctx context.Context, run client.WorkflowRun) (int, error) {
	r, err := b.read(ctx, run.GetID(), run.GetRunID(), false)
	return len(r.steps), err
}
