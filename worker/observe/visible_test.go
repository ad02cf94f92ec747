package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestWaitingRunsAreCounted(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(scrape(t, m), "weft_runs_waiting") {
		t.Error("runs are counted before the client is connected")
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m.visible.now, m.visible.wait = func() time.Time { return now }, time.Minute
	var queries []string
	var countErr error
	m.Connected(func(_ context.Context, query string) (int64, error) {
		queries = append(queries, query)
		return int64(10 - len(queries)), countErr
	}, `a "queue"`)
	for range 2 {
		page := scrape(t, m)
		for _, want := range []string{`weft_runs_waiting{older_than="0"} 9`, `weft_runs_waiting{older_than="3600"} 8`, `weft_runs_waiting{older_than="86400"} 7`} {
			if !strings.Contains(page, want+"\n") {
				t.Errorf("page does not contain %q:\n%s", want, page)
			}
		}
	}
	const runs = `WorkflowType = "Flow" AND TaskQueue = "a \"queue\"" AND ExecutionStatus = "Running" AND WeftStatus = "waiting"`
	if len(queries) != 3 || queries[0] != runs || queries[1] != runs+` AND StartTime <= "2026-01-02T02:04:05Z"` || queries[2] != runs+` AND StartTime <= "2026-01-01T03:04:05Z"` {
		t.Errorf("queries = %q", queries)
	}
	// A count that failed is omitted, and repeated later.
	now, countErr = now.Add(visibleFor), errors.New("away")
	for range 2 {
		if page := scrape(t, m); strings.Contains(page, "weft_runs_waiting{") {
			t.Errorf("a failed count is shown:\n%s", page)
		}
	}
	if len(queries) != 4 {
		t.Errorf("%d queries, want 4", len(queries))
	}
	now, countErr = now.Add(visibleFor), nil
	if page := scrape(t, m); !strings.Contains(page, `weft_runs_waiting{older_than="0"} 5`) {
		t.Errorf("the count was not repeated:\n%s", page)
	}
}

// TestSlowCount checks that a slow count does not delay the metrics page, and appears on a later one.
func TestSlowCount(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	m.visible.wait = time.Millisecond
	answer, queries := make(chan struct{}), make(chan string, 100)
	m.Connected(func(_ context.Context, query string) (int64, error) {
		queries <- query
		<-answer
		return 3, nil
	}, "weft")
	for range 3 {
		if page := scrape(t, m); strings.Contains(page, "weft_runs_waiting{") || !strings.Contains(page, "weft_build_info{") {
			t.Errorf("page:\n%s", page)
		}
	}
	<-queries
	if len(queries) != 0 {
		t.Errorf("%d more counts in progress", len(queries))
	}
	close(answer)
	for end := time.Now().Add(time.Minute); !strings.Contains(scrape(t, m), `weft_runs_waiting{older_than="86400"} 3`); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the count never appeared on the page")
		}
	}
}
