package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// held is the memory that one open run uses in its worker.
type held struct{ resident, heap, goroutines float64 }

// memory measures the worker's memory per run that waits for a slow model, for each side on a
// fresh worker process.
func memory(ctx context.Context, b *bench) error {
	w, err := waiting()
	if err != nil {
		return err
	}
	b.table.head("Memory of the worker per open run, %d runs waiting for a model", b.scale.open)
	ours, err := b.holding(ctx, "bench-memory-ours", w.ours)
	if err != nil {
		return err
	}
	twin, err := b.holding(ctx, "bench-memory-twin", w.twin)
	if err != nil {
		return err
	}
	b.table.row("growth of resident memory", []float64{ours.resident}, []float64{twin.resident}, bytes, 0)
	b.table.row("growth of the collected heap", []float64{ours.heap}, []float64{twin.heap}, bytes, 0)
	b.table.row("goroutines", []float64{ours.goroutines}, []float64{twin.goroutines}, count, 0)
	return nil
}

// holding opens runs on a fresh worker and divides the growth in memory by their number.
func (b *bench) holding(ctx context.Context, queue string, s start) (held, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := b.startWorker(queue)
	if err != nil {
		return held{}, err
	}
	defer w.kill()
	var open []client.WorkflowRun
	defer func() {
		for _, run := range open {
			_ = b.client.TerminateWorkflow(context.WithoutCancel(ctx), run.GetID(), run.GetRunID(), "benchmark is over")
		}
	}()
	begin := func(n int) error {
		for range n {
			b.runs++
			run, err := b.begin(ctx, b.id(b.runs), queue, s)
			if err != nil {
				return err
			}
			open = append(open, run)
		}
		return b.allWait(ctx, open)
	}
	// The first runs allocate what all runs share.
	if err := begin(10); err != nil {
		return held{}, err
	}
	before, resident, err := w.weigh()
	if err != nil {
		return held{}, err
	}
	if err := begin(b.scale.open); err != nil {
		return held{}, err
	}
	after, grown, err := w.weigh()
	n := float64(b.scale.open)
	return held{float64(grown-resident) / n, float64(after.Bytes-before.Bytes) / n, float64(after.Goroutines-before.Goroutines) / n}, err
}

// weigh returns a worker's heap after collection and its resident memory, or 0 if that is
// unknown.
func (w *workerProcess) weigh() (heap, int, error) {
	h, err := w.heap()
	if err != nil {
		return h, 0, err
	}
	resident, err := residentOf(w.cmd.Process.Pid)
	if errors.Is(err, errNoProc) {
		err = nil
	}
	return h, resident, err
}

// allWait waits until the model call of every run is running.
func (b *bench) allWait(ctx context.Context, runs []client.WorkflowRun) error {
	for _, run := range runs {
		for {
			var d *workflowservice.DescribeWorkflowExecutionResponse
			err := insist(ctx, func() (err error) {
				d, err = b.client.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
				return err
			})
			if err != nil {
				return fmt.Errorf("wait for the call of %q: %w", run.GetID(), err)
			}
			if p := d.GetPendingActivities(); len(p) == 1 && p[0].GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}
