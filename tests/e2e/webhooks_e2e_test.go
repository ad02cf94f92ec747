package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/tests/harness"
)

// inbox is a receiver that first refuses everything, and then takes it.
type inbox struct {
	mu    sync.Mutex
	takes bool
	// refused and taken count attempts by the event's id; lines are what was taken, for people.
	refused, taken map[string]int
	lines          map[string]string
	wrong          []string
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id := r.Header.Get("webhook-id")
	key := hmac.New(sha256.New, make([]byte, 32))
	key.Write([]byte(id + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := "v1," + base64.StdEncoding.EncodeToString(key.Sum(nil)); r.Header.Get("webhook-signature") != want {
		b.wrong = append(b.wrong, fmt.Sprintf("%s is signed %q, want %q", id, r.Header.Get("webhook-signature"), want))
	}
	if !b.takes {
		b.refused[id]++
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	b.taken[id]++
	var event contract.WebhookEvent
	var data contract.WebhookData
	if err := json.Unmarshal(body, &event); err != nil || json.Unmarshal(event.Data, &data) != nil {
		b.wrong = append(b.wrong, string(body))
	}
	line := event.Type + " " + data.Status
	switch {
	case data.Request != nil:
		line += data.Request.Kind
	case data.Answered != nil:
		line += data.Answered.Kind
	case data.Turn != nil:
		line += fmt.Sprintf(" %d%s", data.Turn.N, data.Turn.ID)
	}
	if data.ResultText != nil {
		line += " " + *data.ResultText
	}
	b.lines[id] = line
}

func (b *inbox) count(of func(*inbox) map[string]int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(of(b))
}

// TestEndToEndWebhooksOfSessions has a receiver that is away while a session has turns, a child asks
// a person and the worker is killed: it is told of everything once, under the ids it has seen.
func TestEndToEndWebhooksOfSessions(t *testing.T) {
	t.Parallel()
	box := &inbox{refused: map[string]int{}, taken: map[string]int{}, lines: map[string]string{}}
	web := httptest.NewServer(box)
	t.Cleanup(web.Close)
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("told-%d", time.Now().UnixNano())}
	env := []string{"WEFT_TASK_QUEUE=" + h.Queue, "WEFT_MODEL=script", "WEFT_WEBHOOKS_OPS_URL=" + web.URL, "WEFT_WEBHOOKS_OPS_SECRET_ENV=OPS_SECRET", "OPS_SECRET=" + harness.WebhookSecrets[0], "WEFT_WEBHOOKS_OPS_ALLOW_PRIVATE=true"}
	worker := harness.StartWorker(t, harness.ServerAddress(t), env...)
	f := startFamilyOn(t, h, familyFlow(), modelRule("boss", 1, startCall("gate", modeCallback)), modelRule("boss", 2, "waiting"), modelRule("boss", 3, "heard"),
		"{node: boss, match: next, fail: {class: refused, text: no}}", "{node: boss, say: fine}")
	f.waitTurns(1)
	f.answerGate(1, "yes")
	f.waitTurns(2)
	if turn := f.Prompt(t, f.run.GetID(), "mine", "next"); turn.Status != contract.TurnFailed {
		t.Errorf("the turn is %+v", turn)
	}
	// A request, its answer and three turns.
	harness.WaitFor(t, "five events that are refused", func() bool { return box.count(func(b *inbox) map[string]int { return b.refused }) == 5 })
	_ = worker.Process.Kill()
	_ = worker.Wait()
	box.mu.Lock()
	seen := []string{}
	for id := range box.refused {
		seen = append(seen, id)
	}
	box.takes = true
	box.mu.Unlock()
	harness.StartWorker(t, harness.ServerAddress(t), env...)
	f.CloseSession(t, f.run)
	harness.WaitFor(t, "six events that are taken", func() bool { return box.count(func(b *inbox) map[string]int { return b.taken }) == 6 })
	box.mu.Lock()
	defer box.mu.Unlock()
	var lines []string
	for id, line := range box.lines {
		lines = append(lines, line)
		if !slices.Contains(seen, id) && !strings.HasPrefix(line, contract.EventRunFinished) {
			t.Errorf("the event %s has the new id %s; it was refused under one of %q", line, id, seen)
		}
		if n := box.taken[id]; n != 1 {
			t.Errorf("the event %s was taken %d times", line, n)
		}
	}
	slices.Sort(lines)
	want := []string{"request.answered message", "request.opened message", "run.finished completed", "turn.finished completed 1 waiting", "turn.finished completed 2 heard", "turn.finished failed 3mine"}
	if !slices.Equal(lines, want) || len(box.wrong) > 0 {
		t.Errorf("the receiver was told %q, want %q; wrong: %q", lines, want, box.wrong)
	}
	if d, err := h.Client.DescribeWorkflowExecution(context.Background(), f.run.GetID(), ""); err != nil || d.WorkflowExecutionInfo.CloseTime == nil {
		t.Errorf("the session is still open: %v", err)
	}
}
