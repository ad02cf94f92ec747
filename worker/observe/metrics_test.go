package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// scrape returns the metrics page.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	mux := http.NewServeMux()
	m.Handle(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", PathMetrics, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetricsAreInBaseUnits(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	h := m.Handler().WithTags(map[string]string{"model": "a/b"})
	h.Timer("weft_model_latency").Record(1500 * time.Millisecond)
	h.Counter("weft_model_tokens").Inc(40)
	h.Counter("weft_model_tokens").Inc(2)
	h.Gauge("temporal_worker_task_slots_available").Update(7)
	page := scrape(t, m)
	for _, want := range []string{
		"# TYPE weft_model_tokens_total counter\nweft_model_tokens_total{model=\"a/b\"} 42\n",
		"# TYPE weft_model_latency_seconds histogram\n", `weft_model_latency_seconds_bucket{model="a/b",le="1"} 0`,
		`weft_model_latency_seconds_bucket{model="a/b",le="2.5"} 1`, "weft_model_latency_seconds_sum{model=\"a/b\"} 1.5\n",
		"temporal_worker_task_slots_available{model=\"a/b\"} 7\n", `weft_build_info{revision="",version="devel"} 1`, "go_goroutines ", "process_start_time_seconds ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page does not contain %q:\n%s", want, page)
		}
	}
}

// TestSeriesAreBounded checks that names of models, which come from flows, cannot fill the worker's memory.
func TestSeriesAreBounded(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxSeries {
		m.Handler().WithTags(map[string]string{"model": fmt.Sprint(i)}).Counter("weft_model_tokens").Inc(1)
	}
	page := scrape(t, m)
	if n := strings.Count(page, "\nweft_model_tokens_total{"); n != maxSeries {
		t.Errorf("%d series, want %d", n, maxSeries)
	}
	if !strings.Contains(page, `weft_model_tokens_total{otel_metric_overflow="true"} 4001`) {
		t.Error("values beyond the limit are not counted")
	}
}
