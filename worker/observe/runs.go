package observe

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/watch"
)

// sizes are the buckets of history sizes in bytes, up to Temporal's limit; counts are the buckets of
// history events; waits are the buckets of users' response times in seconds, up to a week.
var (
	sizes  = []float64{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 50 << 20}
	counts = []float64{16, 64, 256, 1024, 4096, 10_240, 25_600, 51_200}
	waits  = []float64{1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
	// ages are the values of the label older_than, in seconds.
	ages = []int{0, 60, 600, 3600, 24 * 3600}
)

// runs measures the nodes, requests and histories of runs. Completed nodes and runs are counted once, not
// again during replay.
type runs struct {
	interceptor.InterceptorBase
	nodes                            *prometheus.CounterVec
	durations, waited, bytes, events *prometheus.HistogramVec
	waiting                          *waiting
}

func newRuns(r prometheus.Registerer) *runs {
	histogram := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, labels)
	}
	m := &runs{
		nodes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_nodes_total",
			Help: "Completed executions of nodes."}, []string{"kind", "outcome"}),
		durations: histogram("weft_node_duration_seconds", "Duration of executions of nodes, including waits.", buckets, "kind"),
		waited:    histogram("weft_request_wait_seconds", "How long closed requests were open.", waits, "kind", "answered"),
		bytes:     histogram("weft_run_history_bytes", "History size of closed runs.", sizes, "workflow_type"),
		events:    histogram("weft_run_history_events", "History events of closed runs.", counts, "workflow_type"),
		waiting:   &waiting{now: time.Now, open: map[requestID]contract.Request{}},
	}
	r.MustRegister(m.nodes, m.durations, m.waited, m.bytes, m.events, m.waiting)
	return m
}

func (m *runs) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &measuredRun{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, runs: m}
}

type measuredRun struct {
	interceptor.WorkflowInboundInterceptorBase
	runs *runs
	id   string
}

func (m *measuredRun) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	info := workflow.GetInfo(ctx)
	m.id = info.WorkflowExecution.RunID
	// This also runs when the worker evicts the run from its cache.
	defer m.runs.waiting.forget(m.id)
	out, err := m.Next.ExecuteWorkflow(watch.With(ctx, m), in)
	if !workflow.IsReplaying(ctx) {
		m.runs.bytes.WithLabelValues(info.WorkflowType.Name).Observe(float64(info.GetCurrentHistorySize()))
		m.runs.events.WithLabelValues(info.WorkflowType.Name).Observe(float64(info.GetCurrentHistoryLength()))
	}
	return out, err
}

// Enter counts an execution of a node when it completes.
func (m *measuredRun) Enter(ctx workflow.Context, at watch.Visit) (workflow.Context, func(workflow.Context, bool, error)) {
	start := workflow.Now(ctx)
	return ctx, func(ctx workflow.Context, yielded bool, err error) {
		if yielded || workflow.IsReplaying(ctx) {
			return
		}
		outcome := "completed"
		switch {
		case contract.Cancelled(err):
			outcome = "cancelled"
		case err != nil:
			outcome = "failed"
		}
		m.runs.nodes.WithLabelValues(string(at.Kind), outcome).Inc()
		m.runs.durations.WithLabelValues(string(at.Kind)).Observe(workflow.Now(ctx).Sub(start).Seconds())
	}
}

// Open counts a request as open, also during replay: the worker then has the run in its cache.
func (m *measuredRun) Open(_ workflow.Context, req *contract.Request) {
	m.runs.waiting.add(requestID{m.id, req.ID}, *req)
}

// Close records how long a request was open.
func (m *measuredRun) Close(ctx workflow.Context, req *contract.Request, answered bool) {
	m.runs.waiting.remove(requestID{m.id, req.ID})
	if !workflow.IsReplaying(ctx) {
		m.runs.waited.WithLabelValues(req.Kind, strconv.FormatBool(answered)).Observe(workflow.Now(ctx).Sub(req.OpenedAt).Seconds())
	}
}

type requestID struct{ run, id string }

// waiting holds the open requests of the runs in this worker's cache.
type waiting struct {
	now  func() time.Time
	mu   sync.Mutex
	open map[requestID]contract.Request
}

var describeWaiting = prometheus.NewDesc("weft_requests_waiting",
	"Open requests of the runs in this worker's cache that are older than a number of seconds.", []string{"kind", "older_than"}, nil)

func (w *waiting) add(id requestID, r contract.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[id] = r
}

func (w *waiting) remove(id requestID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, id)
}

func (w *waiting) forget(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.open {
		if id.run == run {
			delete(w.open, id)
		}
	}
}

func (w *waiting) Describe(out chan<- *prometheus.Desc) { out <- describeWaiting }

// Collect counts the requests by their age.
func (w *waiting) Collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string][]int{}
	for _, kind := range contract.Requests {
		n[kind] = make([]int, len(ages))
	}
	now := w.now()
	for _, r := range w.open {
		for i, age := range ages {
			if of := n[r.Kind]; of != nil && max(now.Sub(r.OpenedAt), 0) >= time.Duration(age)*time.Second {
				of[i]++
			}
		}
	}
	for kind, of := range n {
		for i, age := range ages {
			out <- prometheus.MustNewConstMetric(describeWaiting, prometheus.GaugeValue, float64(of[i]), kind, strconv.Itoa(age))
		}
	}
}
