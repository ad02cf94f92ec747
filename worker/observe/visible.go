package observe

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"weft/activities/contract"
)

const (
	// visibleFor is how long a count of runs is cached, visibleWait is the timeout of a count, and
	// pageWait is how long a scrape waits for it: Prometheus discards scrapes that take too long.
	visibleFor  = 30 * time.Second
	visibleWait = 5 * time.Second
	pageWait    = time.Second
)

// visibleAges are the values of the label older_than, in seconds since the start.
var visibleAges = []int{0, 3600, 24 * 3600}

var describeVisible = prometheus.NewDesc("weft_runs_waiting",
	"Runs of the worker's task queue that wait for a user and were started more than a number of seconds ago. Every worker of the task queue reports the same number.",
	[]string{"older_than"}, nil)

// Count returns the number of workflows that match a visibility query.
type Count func(ctx context.Context, query string) (int64, error)

// visible counts the waiting runs with visibility queries. The metric is absent if the search attribute
// is missing or Temporal is unavailable.
type visible struct {
	now  func() time.Time
	wait time.Duration

	mu      sync.Mutex
	count   Count
	queue   string
	counted time.Time
	counts  []int64
	// counting is the count in flight, at most one.
	counting singleflight.Group
}

func newVisible() *visible { return &visible{now: time.Now, wait: pageWait} }

// Connected sets how to count the waiting runs of a task queue, once there is a client.
func (m *Metrics) Connected(count Count, queue string) {
	m.visible.mu.Lock()
	defer m.visible.mu.Unlock()
	m.visible.count, m.visible.queue = count, queue
}

func (v *visible) Describe(out chan<- *prometheus.Desc) { out <- describeVisible }

// Collect reports the last count. A count that takes longer than pageWait is reported by a later scrape.
func (v *visible) Collect(out chan<- prometheus.Metric) {
	select {
	case <-v.counting.DoChan("", v.refresh):
	case <-time.After(v.wait):
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, n := range v.counts {
		out <- prometheus.MustNewConstMetric(describeVisible, prometheus.GaugeValue, float64(n), strconv.Itoa(visibleAges[i]))
	}
}

// refresh updates the counts, unless they are recent. It always returns nil; the signature is singleflight's.
func (v *visible) refresh() (any, error) {
	now := v.now()
	v.mu.Lock()
	due := v.count != nil && (v.counted.IsZero() || now.Sub(v.counted) >= visibleFor)
	v.mu.Unlock()
	if !due {
		return nil, nil
	}
	counts := v.countRuns(now)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counts, v.counted = counts, now
	return nil, nil
}

// countRuns counts the runs of each age; it returns nil on an error.
func (v *visible) countRuns(now time.Time) []int64 {
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
