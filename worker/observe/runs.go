package observe

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows"
)

// sizes are bounds of histories in bytes, up to where Temporal ends a run; counts are those of
// their events. waits are bounds of what people take, in seconds: up to a week.
var (
	sizes  = []float64{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 50 << 20}
	counts = []float64{16, 64, 256, 1024, 4096, 10_240, 25_600, 51_200}
	waits  = []float64{1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
	// ages are those that open requests are counted by, in seconds.
	ages = []int{0, 60, 600, 3600, 24 * 3600}
)

// Ends of executions of nodes.
const (
	outcomeCompleted = "completed"
	outcomeFailed    = "failed"
	outcomeCancelled = "cancelled"
)

// runs measures what runs do: their nodes, their requests, their histories. The ends of nodes
// and of runs are counted by the worker that sees them first, never again in a replay.
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
			Help: "Executions of nodes that have ended."}, []string{"kind", "outcome"}),
		durations: histogram("weft_node_duration_seconds", "How long executions of nodes took, with what they waited for.", buckets, "kind"),
		waited:    histogram("weft_request_wait_seconds", "How long requests were open that wait no more.", waits, "kind", "answered"),
		bytes:     histogram("weft_run_history_bytes", "Size of the histories of runs that have ended.", sizes, "workflow_type"),
		events:    histogram("weft_run_history_events", "Events in the histories of runs that have ended.", counts, "workflow_type"),
		waiting:   &waiting{now: time.Now, open: map[asked]request{}},
	}
	r.MustRegister(m.nodes, m.durations, m.waited, m.bytes, m.events, m.waiting)
	return m
}

// InterceptWorkflow is called for each run that a worker takes up.
func (m *runs) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &measuredRun{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, runs: m}
}

// measuredRun measures one run.
type measuredRun struct {
	interceptor.WorkflowInboundInterceptorBase
	runs *runs
	id   string
}

// ExecuteWorkflow is the run.
func (m *measuredRun) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	info := workflow.GetInfo(ctx)
	m.id = info.WorkflowExecution.RunID
	// The worker also leaves here when it puts the run out of its memory.
	defer m.runs.waiting.forget(m.id)
	out, err := m.Next.ExecuteWorkflow(workflows.Watch(ctx, m), in)
	if !workflow.IsReplaying(ctx) {
		m.runs.bytes.WithLabelValues(info.WorkflowType.Name).Observe(float64(info.GetCurrentHistorySize()))
		m.runs.events.WithLabelValues(info.WorkflowType.Name).Observe(float64(info.GetCurrentHistoryLength()))
	}
	return out, err
}

// Enter counts an execution of a node when it ends.
func (m *measuredRun) Enter(ctx workflow.Context, at workflows.Visit) (workflow.Context, func(workflow.Context, bool, error)) {
	began := workflow.Now(ctx)
	return ctx, func(ctx workflow.Context, yielded bool, err error) {
		if yielded || workflow.IsReplaying(ctx) {
			return
		}
		outcome := outcomeCompleted
		switch {
		case contract.Cancelled(err):
			outcome = outcomeCancelled
		case err != nil:
			outcome = outcomeFailed
		}
		m.runs.nodes.WithLabelValues(string(at.Kind), outcome).Inc()
		m.runs.durations.WithLabelValues(string(at.Kind)).Observe(workflow.Now(ctx).Sub(began).Seconds())
	}
}

// Open counts a request as waiting, in a replay too: the worker knows of it from then on.
func (m *measuredRun) Open(_ workflow.Context, req *contract.Request) {
	m.runs.waiting.add(asked{m.id, req.ID}, request{kind: req.Kind, since: req.OpenedAt})
}

// Close counts how long it waited.
func (m *measuredRun) Close(ctx workflow.Context, req *contract.Request, answered bool) {
	m.runs.waiting.remove(asked{m.id, req.ID})
	if !workflow.IsReplaying(ctx) {
		m.runs.waited.WithLabelValues(req.Kind, strconv.FormatBool(answered)).Observe(workflow.Now(ctx).Sub(req.OpenedAt).Seconds())
	}
}

// asked names a request in a run.
type asked struct{ run, id string }

// request is one that waits.
type request struct {
	kind  string
	since time.Time
}

// waiting are the open requests of the runs that this worker has in memory.
type waiting struct {
	now  func() time.Time
	mu   sync.Mutex
	open map[asked]request
}

var describeWaiting = prometheus.NewDesc("weft_requests_waiting",
	"Open requests of the runs that this worker has in memory, by how many seconds they have been open at least.", []string{"kind", "older_than"}, nil)

func (w *waiting) add(id asked, r request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[id] = r
}

func (w *waiting) remove(id asked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, id)
}

// forget takes out all that a run asked.
func (w *waiting) forget(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.open {
		if id.run == run {
			delete(w.open, id)
		}
	}
}

// Describe is for Prometheus.
func (w *waiting) Describe(out chan<- *prometheus.Desc) { out <- describeWaiting }

// Collect counts the requests by their age now.
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
			if of := n[r.kind]; of != nil && max(now.Sub(r.since), 0) >= time.Duration(age)*time.Second {
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
