package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
)

// patience bounds one burst of runs.
const patience = 10 * time.Minute

// sample is the measurement of one burst of runs of one side. Times are in nanoseconds, taken from
// the server's events, so that a delayed response to the waiting client is not counted.
type sample struct {
	steps int
	// span is the time from the first start to the last end.
	span float64
	// flow and step are the durations of single runs, and from one model call to the next.
	flow, step []float64
	// server and worker are processor time; written is the number of bytes that the server wrote to disk.
	server, worker, written float64
	// tasks is the number of events about workflow tasks, which depends on how many results
	// happen to arrive together.
	events, tasks, bytes int
}

// burst is how to start runs: their number and concurrency.
type burst struct {
	queue       string
	runs        int
	inFlight    int
	countsBytes bool
	// rootOnly skips the histories of children: there are too many.
	rootOnly bool
	// cold also counts the first round, which is long enough.
	cold bool
	// patience overrides the default bound.
	patience time.Duration
}

// measure runs one side of a workload and reads the histories of its runs.
func (b *bench) measure(ctx context.Context, s start, steps int, how burst) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, max(patience, how.patience))
	defer cancel()
	server, worker, written := b.serverCPU(), cpuOf(b.worker.cmd.Process.Pid), b.written()
	runs, err := b.play(ctx, s, how)
	if err != nil {
		return sample{}, err
	}
	out := sample{steps: how.runs * steps, written: float64(b.written() - written),
		server: float64(b.serverCPU() - server), worker: float64(cpuOf(b.worker.cmd.Process.Pid) - worker)}
	var first, last time.Time
	for _, run := range runs {
		r, err := b.read(ctx, run.GetID(), run.GetRunID(), how)
		if err != nil {
			return sample{}, err
		}
		out.events, out.tasks, out.bytes = out.events+r.events, out.tasks+r.tasks, out.bytes+r.bytes
		out.flow = append(out.flow, float64(r.ended.Sub(r.began)))
		out.step = append(out.step, r.steps...)
		if first.IsZero() || r.began.Before(first) {
			first = r.began
		}
		if r.ended.After(last) {
			last = r.ended
		}
	}
	out.span = float64(last.Sub(first))
	return out, nil
}

// play starts all runs and waits for them.
func (b *bench) play(ctx context.Context, s start, how burst) ([]client.WorkflowRun, error) {
	runs := make([]client.WorkflowRun, how.runs)
	errs := make([]error, how.runs)
	slots := make(chan struct{}, how.inFlight)
	var wg sync.WaitGroup
	for i := range runs {
		slots <- struct{}{}
		b.runs++
		id := b.id(b.runs)
		wg.Go(func() {
			defer func() { <-slots }()
			runs[i], errs[i] = b.one(ctx, id, how.queue, s)
		})
	}
	wg.Wait()
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		return nil, fmt.Errorf("%d of %d runs failed, the first with %w", len(failed), how.runs, failed[0])
	}
	return runs, nil
}

// one starts a run and waits for its end. It returns a handle to the first run of the chain, which
// waiting does not keep.
func (b *bench) one(ctx context.Context, id, queue string, s start) (client.WorkflowRun, error) {
	run, err := b.begin(ctx, id, queue, s)
	if err != nil {
		return nil, err
	}
	first := b.client.GetWorkflow(ctx, id, run.GetRunID())
	return first, insist(ctx, func() error { return run.Get(ctx, nil) })
}

// begin starts a run. It is idempotent for the same id.
func (b *bench) begin(ctx context.Context, id, queue string, s start) (run client.WorkflowRun, err error) {
	o := client.StartWorkflowOptions{ID: id, TaskQueue: queue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}
	err = insist(ctx, func() error {
		run, err = b.client.ExecuteWorkflow(ctx, o, s.kind, s.input)
		return err
	})
	return run, err
}

// insist retries while the overloaded server does not respond in time.
func insist(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil || ctx.Err() != nil || !isLate(err) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// isLate reports whether the server did not respond in time, which is not a failure of the run.
func isLate(err error) bool {
	var late *serviceerror.DeadlineExceeded
	var away *serviceerror.Unavailable
	var busy *serviceerror.ResourceExhausted
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) || errors.As(err, &away) || errors.As(err, &busy)
}

// record is the content of the histories of a run and its children.
type record struct {
	events, tasks, bytes int
	began, ended         time.Time
	// steps are the times from one model call of the root run to the next, or to its end.
	steps []float64
}

// read reads the histories of a run, its children and the runs that continue it.
func (b *bench) read(ctx context.Context, id, run string, how burst) (record, error) {
	var r record
	h, err := b.history(ctx, id, run)
	if err != nil {
		return r, err
	}
	r.events = len(h.Events)
	r.began, r.ended = h.Events[0].EventTime.AsTime(), h.Events[len(h.Events)-1].EventTime.AsTime()
	var previous time.Time
	for _, e := range h.Events {
		if isTask(e) {
			r.tasks++
		}
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == contract.ActivityCallModel {
			if !previous.IsZero() {
				r.steps = append(r.steps, float64(e.EventTime.AsTime().Sub(previous)))
			}
			previous = e.EventTime.AsTime()
		}
		if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil && !how.rootOnly {
			child, err := b.read(ctx, a.WorkflowExecution.WorkflowId, a.WorkflowExecution.RunId, how)
			if err != nil {
				return r, err
			}
			r.add(child)
		}
	}
	if !previous.IsZero() {
		r.steps = append(r.steps, float64(r.ended.Sub(previous)))
	}
	if how.countsBytes {
		n, err := b.historyBytes(ctx, id, run)
		if err != nil {
			return r, err
		}
		r.bytes += n
	}
	if a := h.Events[len(h.Events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes(); a != nil {
		rest, err := b.read(ctx, id, a.NewExecutionRunId, how)
		if err != nil {
			return r, err
		}
		r.add(rest)
		r.ended, r.steps = rest.ended, append(r.steps, rest.steps...)
	}
	return r, nil
}

// isTask reports whether an event belongs to a successful workflow task.
func isTask(e *historypb.HistoryEvent) bool {
	return e.GetWorkflowTaskScheduledEventAttributes() != nil || e.GetWorkflowTaskStartedEventAttributes() != nil || e.GetWorkflowTaskCompletedEventAttributes() != nil
}

// add adds another history's record.
func (r *record) add(other record) {
	r.events, r.tasks, r.bytes = r.events+other.events, r.tasks+other.tasks, r.bytes+other.bytes
}

func (b *bench) history(ctx context.Context, id, run string) (*historypb.History, error) {
	h := &historypb.History{}
	it := b.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, fmt.Errorf("read the history of %q: %w", id, err)
		}
		h.Events = append(h.Events, e)
	}
	return h, nil
}

// historyBytes returns the size of a run's history as Temporal counts it.
func (b *bench) historyBytes(ctx context.Context, id, run string) (int, error) {
	d, err := b.client.DescribeWorkflowExecution(ctx, id, run)
	if err != nil {
		return 0, fmt.Errorf("describe %q: %w", id, err)
	}
	return int(d.GetWorkflowExecutionInfo().GetHistorySizeBytes()), nil
}

// metric is a row of a comparison.
type metric struct {
	name  string
	of    func(sample) float64
	show  func(float64) string
	limit float64
}

// compare measures both sides alternately, after a warm-up round unless the burst is cold, and
// prints the metrics. On a busy machine it runs only two rounds, so that each side is first
// once.
func (b *bench) compare(ctx context.Context, w workload, rounds int, how burst, metrics []metric) error {
	var ours, twin []sample
	began := time.Now()
	first, enough := 0, 2
	if how.cold {
		first = 1
	}
	for i := first; i <= rounds; i++ {
		if i > enough && time.Since(began) > b.scale.budget {
			b.table.note("(the machine is busy: %d of %d rounds)", i-1, rounds)
			break
		}
		sides := []struct {
			start start
			steps int
			to    *[]sample
		}{{w.ours, w.steps, &ours}, {w.twin, cmp.Or(w.twinSteps, w.steps), &twin}}
		if i%2 == 1 {
			sides[0], sides[1] = sides[1], sides[0]
		}
		for _, side := range sides {
			s, err := b.measure(ctx, side.start, side.steps, how)
			if err != nil {
				return err
			}
			if i > 0 {
				*side.to = append(*side.to, s)
			}
		}
	}
	for _, m := range metrics {
		b.table.row(m.name, each(ours, m.of), each(twin, m.of), m.show, m.limit)
	}
	return nil
}

func each(samples []sample, of func(sample) float64) []float64 {
	var out []float64
	for _, s := range samples {
		out = append(out, of(s))
	}
	return out
}
