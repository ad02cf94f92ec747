package observe

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/activities/contract"
)

const (
	// visibleFor is how long a count of runs is shown before it is asked for again; visibleWait is
	// how long Temporal may take for it, and pageWait how long a page waits: Prometheus gives up a
	// page that takes long, and with it all that is on it.
	visibleFor  = 30 * time.Second
	visibleWait = 5 * time.Second
	pageWait    = time.Second
)

// visibleAges are those that waiting runs are counted by, in seconds since their start.
var visibleAges = []int{0, 3600, 24 * 3600}

var describeVisible = prometheus.NewDesc("weft_runs_waiting",
	"Runs of the worker's task queue that wait for somebody, in the memory of a worker or not, by how many seconds ago they were started at least. Every worker of the queue tells the same number.",
	[]string{"older_than"}, nil)

// Count says how many workflows a query of Temporal's visibility finds.
type Count func(ctx context.Context, query string) (int64, error)

// visible are the waiting runs that Temporal knows of. Where it cannot count them there is no metric:
// without the search attribute FlowStatus, and while Temporal is away.
type visible struct {
	now      func() time.Time
	patience time.Duration

	mu    sync.Mutex
	count Count
	queue string
	asked time.Time
	known []int64
	// asking is closed when the count that is under way has come to an end; nil where none is.
	asking chan struct{}
}

func newVisible() *visible { return &visible{now: time.Now, patience: pageWait} }

// Connected lets the metrics count the waiting runs of a task queue.
func (m *Metrics) Connected(count Count, queue string) {
	m.visible.mu.Lock()
	defer m.visible.mu.Unlock()
	m.visible.count, m.visible.queue = count, queue
}

// Describe is for Prometheus.
func (v *visible) Describe(out chan<- *prometheus.Desc) { out <- describeVisible }

// Collect shows what Temporal said last. A count that takes longer than a page may wait is on the
// next one.
func (v *visible) Collect(out chan<- prometheus.Metric) {
	if done := v.refresh(); done != nil {
		late := time.NewTimer(v.patience)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, n := range v.known {
		out <- prometheus.MustNewConstMetric(describeVisible, prometheus.GaugeValue, float64(n), strconv.Itoa(visibleAges[i]))
	}
}

// refresh has the runs counted, unless that was done a moment ago or is under way. It gives what is
// closed when a count is done, or nil where there is none to wait for.
func (v *visible) refresh() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	switch {
	case v.asking != nil:
		return v.asking
	case v.count == nil || !v.asked.IsZero() && now.Sub(v.asked) < visibleFor:
		return nil
	}
	done := make(chan struct{})
	v.asking, v.asked = done, now
	go func() {
		got := v.ask(now)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.known, v.asking = got, nil
		close(done)
	}()
	return done
}

// ask counts the runs of each age, or gives nil.
func (v *visible) ask(now time.Time) []int64 {
	ctx, cancel := context.WithTimeout(context.Background(), visibleWait)
	defer cancel()
	var out []int64
	for _, age := range visibleAges {
		query := fmt.Sprintf(`WorkflowType = %q AND TaskQueue = %q AND ExecutionStatus = "Running" AND %s = %q`,
			contract.WorkflowFlow, v.queue, contract.AttributeStatus, contract.StatusWaiting)
		if age > 0 {
			query += fmt.Sprintf(` AND StartTime <= %q`, now.Add(-time.Duration(age)*time.Second).UTC().Format(time.RFC3339))
		}
		n, err := v.count(ctx, query)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}
