package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"weft/specadapter"
)

// eventLimit is the maximum number of events, and stepLimit the maximum time and CPU, per step of the
// interpreter relative to the twin.
const (
	eventLimit = 1.05
	stepLimit  = 1.05
	// widthLimit is the maximum cost per branch of many branches relative to a hundred.
	widthLimit = 1.2
)

func perStep(of func(sample) float64) func(sample) float64 {
	return func(s sample) float64 { return of(s) / float64(s.steps) }
}

func stepsPerSecond(s sample) float64 { return float64(s.steps) / s.span * float64(time.Second) }

func eventsOf(s sample) float64  { return float64(s.events) }
func bytesOf(s sample) float64   { return float64(s.bytes) }
func serverOf(s sample) float64  { return s.server }
func workerOf(s sample) float64  { return s.worker }
func writtenOf(s sample) float64 { return s.written }
func bothOf(s sample) float64    { return s.server + s.worker }

// medianFlow returns the median wall time of a run.
func medianFlow(s sample) float64 { return quantile(s.flow, 0.5) }

// stepQuantile returns a quantile of the time from one model call of a run to the next.
func stepQuantile(q float64) func(sample) float64 {
	return func(s sample) float64 { return quantile(s.step, q) }
}

// load measures compiling a document to a plan.
func load(_ context.Context, b *bench) error {
	const limit = 50 * time.Millisecond
	b.table.plainHead("Parse, validate and plan a document of 1,000 nodes (specadapter.Load, %d times)", b.scale.loads)
	for _, d := range documents {
		doc, edges := d.make(1000)
		var took []float64
		used := cpuOf(os.Getpid())
		for range b.scale.loads {
			began := time.Now()
			out, diags := specadapter.Load("bench.json", doc, specadapter.Options{})
			took = append(took, float64(time.Since(began)))
			if out == nil {
				return fmt.Errorf("the generated document %q does not load: %v", d.name, diags[0])
			}
		}
		used = (cpuOf(os.Getpid()) - used) / time.Duration(b.scale.loads)
		s := spreadOf(took)
		b.table.note("%-30s %5d edges %9s   min %s / median %s / max %s, CPU %s   <= %s %s", d.name, edges, bytes(float64(len(doc))),
			nanos(s.min), nanos(s.median), nanos(s.max), nanos(float64(used)), limit, verdict(s.median, float64(limit)))
	}
	return nil
}

// sequential is workload W1.
func sequential(ctx context.Context, b *bench) error {
	w := tenCalls()
	metrics := []metric{
		{"wall time per step", perStep(func(s sample) float64 { return s.span }), nanos, stepLimit},
		{"step p50", stepQuantile(0.5), nanos, stepLimit},
		{"step p99", stepQuantile(0.99), nanos, 0},
		{"steps per second", stepsPerSecond, whole, 0},
		{"CPU of the worker per step", perStep(workerOf), nanos, 0},
		{"CPU of the server per step", perStep(serverOf), nanos, 0},
		{"CPU of both per step", perStep(bothOf), nanos, stepLimit},
		{"history events per step", perStep(eventsOf), count, eventLimit},
		{"history bytes per step", perStep(bytesOf), bytes, 0},
	}
	b.table.head("W1: ten model calls one behind the other, 1 flow in flight (%d flows, %d rounds)", b.scale.alone, b.scale.rounds)
	if err := b.compare(ctx, w, b.scale.rounds, burst{queue: benchQueue, runs: b.scale.alone, inFlight: 1, countsBytes: true}, metrics); err != nil {
		return err
	}
	b.table.head("W1: the same, 50 flows in flight (%d flows, %d rounds)", b.scale.inFlight, b.scale.rounds)
	return b.compare(ctx, w, b.scale.rounds, burst{queue: benchQueue, runs: b.scale.inFlight, inFlight: 50, countsBytes: true}, metrics)
}

// chains is workload W3.
func chains(ctx context.Context, b *bench) error {
	w, err := threeChains()
	if err != nil {
		return err
	}
	for _, children := range []bool{false, true} {
		b.table.head("W3: three chains of 500/100/100, 100/500/100, 100/100/500 ms and a join, %s (%d runs each by turns)", formName(children), b.scale.rounds)
		b.table.note("(target: at most 60 ms over the critical path of 700 ms, where a hand-written workflow keeps that, too)")
		if err := b.compare(ctx, w.form(children), b.scale.rounds, burst{queue: benchQueue, runs: 1, inFlight: 1, countsBytes: true}, []metric{
			{"wall time", medianFlow, nanos, 0},
			{"wall time over the critical path's 700 ms", func(s sample) float64 { return medianFlow(s) - float64(criticalPath) }, nanos, 1.1},
			{"CPU of both", bothOf, nanos, 0},
			{"history events, children included", eventsOf, whole, 0},
			{"  those not about workflow tasks", func(s sample) float64 { return float64(s.events - s.tasks) }, whole, eventLimit},
			{"history bytes, children included", bytesOf, bytes, 0},
		}); err != nil {
			return err
		}
	}
	return nil
}

// fanOut is workload W5, as a fork and as a map.
func fanOut(ctx context.Context, b *bench) error {
	fork, err := manyBranches(b.scale.branches)
	if err != nil {
		return err
	}
	elements, err := mapOver(b.scale.branches)
	if err != nil {
		return err
	}
	for i, w := range []workload{fork, fork, elements, elements} {
		children := i%2 == 1
		target := func(limit float64) float64 { // children have no target
			if children {
				return 0
			}
			return limit
		}
		rounds := b.scale.rounds
		if children {
			rounds = b.scale.fewRounds
		}
		what := "fork of %d branches and a join of all"
		if i > 1 {
			what = "map over %d elements"
		}
		b.table.head("W5: a "+what+", %s (%d runs each by turns)", b.scale.branches, formName(children), rounds)
		if err := b.compare(ctx, w.form(children), rounds, burst{queue: benchQueue, runs: 1, inFlight: 1, countsBytes: true}, []metric{
			{"wall time", medianFlow, nanos, target(1.3)},
			{"CPU of the worker per branch", perStep(workerOf), nanos, 0},
			{"CPU of the server per branch", perStep(serverOf), nanos, 0},
			{"history events, children included", eventsOf, whole, 0},
			{"  those not about workflow tasks", func(s sample) float64 { return float64(s.events - s.tasks) }, whole, target(eventLimit)},
			{"history bytes, children included", bytesOf, bytes, target(2)},
			{"written to disk by the server", writtenOf, bytes, target(2)},
		}); err != nil {
			return err
		}
	}
	return nil
}

// widths compares W5's fork with wider ones: the cost of a branch must not depend on the number of branches.
func widths(ctx context.Context, b *bench) error {
	few, err := manyBranches(b.scale.branches)
	if err != nil {
		return err
	}
	for _, children := range []bool{false, true} {
		for _, n := range b.scale.widths {
			many, err := manyBranches(n)
			if err != nil {
				return err
			}
			b.table.columns(strconv.Itoa(n), strconv.Itoa(b.scale.branches), "W5: a fork of %d branches beside one of %d, %s (%d runs each by turns)",
				n, b.scale.branches, formName(children), b.scale.fewRounds)
			w := workload{steps: many.steps, twinSteps: few.steps, ours: many.form(children).ours, twin: few.form(children).ours}
			if err := b.compare(ctx, w, b.scale.fewRounds, burst{queue: benchQueue, runs: 1, inFlight: 1}, []metric{
				{"wall time", medianFlow, nanos, 0},
				{"wall time per branch", perStep(medianFlow), nanos, widthLimit},
				{"CPU of the worker per branch", perStep(workerOf), nanos, 0},
				{"CPU of the server per branch", perStep(serverOf), nanos, 0},
				{"CPU of both per branch", perStep(bothOf), nanos, widthLimit},
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
