package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/worker/config"
	"weft/worker/host"
	"weft/worker/store"
	"weft/workflows"
)

// workerRole is the first argument that makes this program a worker.
const workerRole = "worker"

// benchQueue is the task queue of the separate worker process.
const benchQueue = "bench"

// workAlone runs a worker for both sides until standard input is closed, as when the benchmark
// dies. The line "heap" requests the size of the heap after collection.
func workAlone(args []string) error {
	fs := flag.NewFlagSet(workerRole, flag.ContinueOnError)
	address := fs.String("address", "", "host:port of the server")
	queue := fs.String("queue", "", "task queue")
	toolsURL := fs.String("tools", "", "URL of the tool server")
	dir := fs.String("store", "", "folder for large payloads")
	if err := fs.Parse(args); err != nil {
		return err
	}
	options := client.Options{HostPort: *address, Logger: quiet, ConnectionOptions: client.ConnectionOptions{GrpcCompression: config.Compression(*address)}}
	keeps := store.Settings{Dir: *dir, Threshold: store.DefaultThreshold, MaxPayload: store.DefaultMaxPayload}
	kept, err := store.Open(keeps)
	if err != nil {
		return err
	}
	kept.Apply(&options)
	c, err := client.Dial(options)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", *address, err)
	}
	defer c.Close()
	w, err := newWorker(c, crew{queue: *queue, toolsURL: *toolsURL, source: activities.NewClientSource(c), maxPayload: keeps.PayloadLimit()})
	if err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() != "heap" {
			continue
		}
		raw, err := json.Marshal(measureHeap())
		if err != nil {
			return err
		}
		fmt.Printf("heap %s\n", raw)
	}
	return nil
}

func measureHeap() heap {
	runtime.GC()
	runtime.GC() // frees what finalizers and pools released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap{Bytes: int(m.HeapAlloc), Goroutines: runtime.NumGoroutine()}
}

// crew is the configuration of a worker.
type crew struct {
	queue, toolsURL string
	// cacheBytes and maxPayload are those of [activities.Deps].
	cacheBytes, maxPayload int
	source                 activities.Source
}

// newWorker creates a worker for both sides with the options of the worker program
// (worker/host).
func newWorker(c client.Client, of crew) (worker.Worker, error) {
	models, err := llm.Open(llm.Settings{Default: llm.ScriptModel})
	if err != nil {
		return nil, err
	}
	pure := tool.Func(pureName, "keeps a note", func(context.Context, struct {
		Text string `json:"text"`
	}) (string, error) {
		return strings.Repeat("y", turnBytes/2), nil
	}, tool.Pure())
	tools, err := tool.Open(tool.Settings{Functions: []tool.Function{pure}, Connections: map[string]tool.Connection{toolConnection: {URL: of.toolsURL}}})
	if err != nil {
		return nil, err
	}
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: 8, MinimumNumberOfPollers: 4, MaximumNumberOfPollers: 32,
	})
	host.NameBuild()
	seen := &host.Audience{}
	w := worker.New(c, of.queue, worker.Options{
		MaxConcurrentActivityExecutionSize:     200,
		MaxConcurrentWorkflowTaskExecutionSize: 100,
		WorkflowTaskPollerBehavior:             pollers,
		ActivityTaskPollerBehavior:             pollers,
		StickyScheduleToStartTimeout:           2 * time.Second,
		DeadlockDetectionTimeout:               10 * time.Second,
		DefaultHeartbeatThrottleInterval:       300 * time.Millisecond,
		MaxHeartbeatThrottleInterval:           300 * time.Millisecond,
		Interceptors:                           []interceptor.WorkerInterceptor{seen},
	})
	workflows.Settings{MaxPayload: of.maxPayload, Keys: sealKeys, Scripts: true}.Register(w)
	registerTwins(w)
	activities.New(activities.Deps{Models: models, Tools: tools, Source: of.source, CacheBytes: of.cacheBytes,
		MaxPayload: of.maxPayload, Begin: host.Begin, Watched: seen.Watched}).Register(w)
	return w, nil
}

// sealKeys seal what runs may access, as on any worker. The activities do not verify it, because twins have no seal.
var sealKeys = []contract.SealKey{{ID: "bench", Secret: []byte("a key of thirty-two bytes, bench")}}

// counting is a source that counts its requests.
type counting struct {
	activities.Source
	queries atomic.Int64
}

// Origin returns where a run comes from; see [activities.Runs].
func (s *counting) Origin(ctx context.Context, run contract.Run) (string, *contract.Run, error) {
	runs, _ := s.Source.(activities.Runs)
	return runs.Origin(ctx, run)
}

// Transcript returns messages; see [activities.Source].
func (s *counting) Transcript(ctx context.Context, id, run string, q contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	s.queries.Add(1)
	return s.Source.Transcript(ctx, id, run, q)
}

// Content returns stored bytes; see [activities.Source].
func (s *counting) Content(ctx context.Context, id, run string, q contract.ContentQuery) (*contract.ContentPage, error) {
	s.queries.Add(1)
	return s.Source.Content(ctx, id, run, q)
}

// quiet discards Temporal's log.
var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
