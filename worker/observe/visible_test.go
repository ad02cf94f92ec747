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
		t.Error("runs are counted before there is anybody to ask")
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m.visible.now, m.visible.wait = func() time.Time { return now }, time.Minute
	var asked []string
	var away error
	m.Connected(func(_ context.Context, query string) (int64, error) {
		asked = append(asked, query)
		return int64(10 - len(asked)), away
	}, `a "queue"`)
	for range 2 {
		page := scrape(t, m)
		for _, want := range []string{`weft_runs_waiting{older_than="0"} 9`, `weft_runs_waiting{older_than="3600"} 8`, `weft_runs_waiting{older_than="86400"} 7`} {
			if !strings.Contains(page, want+"\n") {
				t.Errorf("no %q in:\n%s", want, page)
			}
		}
	}
	const runs = `WorkflowType = "Flow" AND TaskQueue = "a \"queue\"" AND ExecutionStatus = "Running" AND WeftStatus = "waiting"`
	if len(asked) != 3 || asked[0] != runs || asked[1] != runs+` AND StartTime <= "2026-01-02T02:04:05Z"` || asked[2] != runs+` AND StartTime <= "2026-01-01T03:04:05Z"` {
		t.Errorf("asked %q", asked)
	}
	// What cannot be counted is not shown, and asked for again later.
	now, away = now.Add(visibleFor), errors.New("away")
	for range 2 {
		if page := scrape(t, m); strings.Contains(page, "weft_runs_waiting{") {
			t.Errorf("what nobody knows is shown:\n%s", page)
		}
	}
	if len(asked) != 4 {
		t.Errorf("asked %d times", len(asked))
	}
	now, away = now.Add(visibleFor), nil
	if page := scrape(t, m); !strings.Contains(page, `weft_runs_waiting{older_than="0"} 5`) {
		t.Errorf("it is not asked for again:\n%s", page)
	}
}

// A count that does not come holds up no page: it is on a later one.
func TestASlowCountIsNotWaitedFor(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	m.visible.wait = time.Millisecond
	answer, asked := make(chan struct{}), make(chan string, 100)
	m.Connected(func(_ context.Context, query string) (int64, error) {
		asked <- query
		<-answer
		return 3, nil
	}, "weft")
	for range 3 {
		if page := scrape(t, m); strings.Contains(page, "weft_runs_waiting{") || !strings.Contains(page, "weft_build_info{") {
			t.Errorf("the page is\n%s", page)
		}
	}
	<-asked
	if len(asked) != 0 {
		t.Errorf("%d more counts are under way", len(asked))
	}
	close(answer)
	for end := time.Now().Add(time.Minute); !strings.Contains(scrape(t, m), `weft_runs_waiting{older_than="86400"} 3`); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the count is on no page")
		}
	}
}
