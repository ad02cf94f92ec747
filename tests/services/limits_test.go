package services

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/tests/harness"
	"weft/worker/limits"
	"weft/workflows"
	"weft/workflows/limiter"
	"weft/workflows/plan"
)

// limitedModel accepts up to limit requests in any window, and rejects the others.
type limitedModel struct {
	limit    int
	window   time.Duration
	mu       sync.Mutex
	first    time.Time
	accepted []time.Time
	rejected []time.Duration // after the first request
}

func (m *limitedModel) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.first.IsZero() {
		m.first = now
	}
	for len(m.accepted) > 0 && now.Sub(m.accepted[0]) >= m.window {
		m.accepted = m.accepted[1:]
	}
	if len(m.accepted) >= m.limit {
		m.rejected = append(m.rejected, now.Sub(m.first))
		http.Error(w, `{"error":{"message":"too many requests"}}`, http.StatusTooManyRequests)
		return
	}
	m.accepted = append(m.accepted, now)
	fmt.Fprint(w, `{"id":"1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
}

// limitedWorkers are workers that share a rate limit, counted per window; configured is the configured limit, 0 for none.
type limitedWorkers struct {
	client client.Client
	queue  string
	model  *limitedModel
	url    string
	window time.Duration
}

func newLimitedWorkers(t *testing.T, workers int, model *limitedModel, window time.Duration, configured int) *limitedWorkers {
	t.Helper()
	srv := httptest.NewServer(model)
	t.Cleanup(srv.Close)
	l := &limitedWorkers{client: harness.Dial(t, harness.ServerAddress(t)), queue: fmt.Sprintf("limits-%d", time.Now().UnixNano()), model: model, url: srv.URL + "/v1", window: window}
	for range workers {
		models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{"fake": {Kind: "compatible", BaseURL: l.url, RequestsPerMinute: configured}}})
		if err != nil {
			t.Fatal(err)
		}
		server := worker.New(l.client, contract.LimiterQueue, worker.Options{LocalActivityWorkerOnly: true})
		limiter.Register(server)
		shared := limits.New(l.client, server, window, harness.NoLog)
		t.Cleanup(shared.Stop)
		models.Share(shared)
		w := harness.RunWorkerWith(t, l.client, l.queue, workflows.Settings{}, activities.Deps{Models: models})
		t.Cleanup(w.Stop)
	}
	return l
}

// start starts a run of a single agent whose flow was modified by change.
func (l *limitedWorkers) start(t *testing.T, n int, change func(*plan.Flow)) client.WorkflowRun {
	t.Helper()
	flow := harness.AgentFlow("a")
	change(flow)
	run, err := l.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: fmt.Sprintf("%s-%d", l.queue, n), TaskQueue: l.queue}, contract.WorkflowFlow,
		contract.RunInput{V: contract.Version, Input: "go", Model: "fake/m", OnError: contract.OnErrorFail, Flow: contract.FlowRef{Plan: flow}})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestEndToEndSharedLimits starts runs on three workers whose provider accepts 30 requests in 15 seconds. It checks that no request
// is rejected if the limit is configured, even if every second run has a retry policy, and otherwise none after the first window.
func TestEndToEndSharedLimits(t *testing.T) {
	t.Parallel()
	const window, runs, limit = 15 * time.Second, 50, 30
	for name, configured := range map[string]int{"configured": limit, "learned": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := &limitedModel{limit: limit, window: window}
			l := newLimitedWorkers(t, 3, model, window, configured)
			var all []client.WorkflowRun
			for i := range runs {
				all = append(all, l.start(t, i, func(f *plan.Flow) {
					if i%2 > 0 && configured > 0 {
						f.Nodes[0].Agent.Retry = &plan.Retry{Attempts: 1, FirstMillis: 1000, MostMillis: 1000, Factor: 2}
					}
				}))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			for _, run := range all {
				if err := run.Get(ctx, nil); err != nil {
					t.Fatal(err)
				}
			}
			model.mu.Lock()
			defer model.mu.Unlock()
			t.Logf("%d runs took %s; %d requests were rejected: %v", runs, time.Since(model.first), len(model.rejected), model.rejected)
			for _, at := range model.rejected {
				if configured > 0 || at > window {
					t.Errorf("a request was rejected after %s", at)
				}
			}
		})
	}
}

// TestEndToEndProviderRefusesForGood checks that calls to a provider that accepts only twelve requests fail with the provider's
// error after the retry timeout, both those that were rejected and those that wait for their turn.
func TestEndToEndProviderRefusesForGood(t *testing.T) {
	t.Parallel()
	const runs, limit = 20, 12
	l := newLimitedWorkers(t, 1, &limitedModel{limit: limit, window: time.Hour}, 15*time.Second, 0)
	var all []client.WorkflowRun
	for i := range runs {
		all = append(all, l.start(t, i, func(f *plan.Flow) {
			f.Policy.ModelSeconds, f.Policy.RetrySeconds, f.Policy.HeartbeatSeconds = 10, 10, 30
		}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	failed := 0
	for _, run := range all {
		err := run.Get(ctx, nil)
		if err == nil {
			continue
		}
		failed++
		if f := contract.FailureOf(err); f.Class != contract.ClassRateLimited || !strings.Contains(f.Text, "too many requests") || f.Remedy == "" {
			t.Errorf("got error %v, want a rate limit error", err)
		}
	}
	if failed != runs-limit {
		t.Errorf("%d runs failed, want %d", failed, runs-limit)
	}
}

// TestEndToEndRecordLimiter records a limiter that grants calls, makes calls wait, is notified of a rejection, and ends when idle.
func TestEndToEndRecordLimiter(t *testing.T) {
	t.Parallel()
	const window = 3 * time.Second
	l := newLimitedWorkers(t, 1, &limitedModel{limit: 12, window: window}, window, 15) // more than the provider accepts
	var all []client.WorkflowRun
	for i := range 20 {
		all = append(all, l.start(t, i, func(*plan.Flow) {}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, run := range all {
		if err := run.Get(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	id := contract.LimiterID(llm.LimitFingerprint(l.url, "fake"))
	var last string
	harness.WaitFor(t, "the limiter to end", func() bool {
		d, err := l.client.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			t.Fatal(err)
		}
		last = d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		return d.GetWorkflowExecutionInfo().GetCloseTime() != nil
	})
	harness.Record(t, l.client, "limiter", id, last)
}
