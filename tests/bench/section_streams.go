package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
	"weft/activities/llm"
)

// What is streamed, and the polling interval of a watcher, which is that of starter.
const (
	streams     = 50
	streamWords = 400
	looks       = 500 * time.Millisecond
)

// watching measures the cost of watchers: the same runs of a model that streams word by word,
// each with a watcher and without.
func watching(ctx context.Context, b *bench) error {
	script, err := scriptOf(fmt.Sprintf(`{"delay":%q,"say":%q}`, b.scale.stream.String(), strings.TrimSpace(strings.Repeat("word ", streamWords))))
	if err != nil {
		return err
	}
	s := onlyNode(node("talk"), "Talk.", llm.ScriptModel, script)
	how := burst{queue: benchQueue, runs: streams, inFlight: streams, countsBytes: true}
	b.table.columns("watched", "unwatched", "%d streamed answers of %s at the same time, each watched every %s, and the same unwatched", streams, b.scale.stream, looks)
	var watched, alone []sample
	var seen atomic.Int64
	for range b.scale.fewRounds {
		for _, into := range []*[]sample{&watched, &alone} {
			watch, end := context.WithCancel(ctx)
			var watchers sync.WaitGroup
			for i := range streams {
				if into == &watched {
					id := b.id(b.runs + i + 1)
					watchers.Go(func() { b.watch(watch, id, &seen) })
				}
			}
			one, err := b.measure(ctx, s, 1, how)
			end()
			watchers.Wait()
			if err != nil {
				return err
			}
			*into = append(*into, one)
		}
	}
	per := func(of func(sample) float64) func(sample) float64 {
		return func(s sample) float64 { return of(s) / streams / b.scale.stream.Seconds() }
	}
	for _, m := range []metric{
		{"wall time of a run", medianFlow, nanos, 0},
		{"CPU of the server per stream and second", per(func(s sample) float64 { return s.server }), nanos, 0},
		{"CPU of the worker per stream and second", per(func(s sample) float64 { return s.worker }), nanos, 0},
		{"history bytes", func(s sample) float64 { return float64(s.bytes) }, bytes, 1.05},
	} {
		b.table.row(m.name, each(watched, m.of), each(alone, m.of), m.show, m.limit)
	}
	b.table.note("each watcher saw %.0f different texts of its run", float64(seen.Load())/float64(streams*b.scale.fewRounds))
	return nil
}

// watch polls a run as a watcher does: it announces itself and reads the details of the calls'
// last heartbeats. It counts the new texts.
func (b *bench) watch(ctx context.Context, id string, seen *atomic.Int64) {
	t := time.NewTicker(looks)
	defer t.Stop()
	last := ""
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if time.Since(said) > contract.WatchedFor*time.Second/2 {
			if _, err := b.client.QueryWorkflow(ctx, id, "", contract.QueryWatching); err != nil {
				continue // it has not started
			}
			said = time.Now()
		}
		d, err := b.client.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			continue // it has not started
		}
		for _, p := range d.GetPendingActivities() {
			var beat contract.Heartbeat
			if converter.GetDefaultDataConverter().FromPayloads(p.GetHeartbeatDetails(), &beat) == nil && beat.Text != "" && beat.Text != last {
				last = beat.Text
				seen.Add(1)
			}
		}
	}
}
