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

// webhookReceiver is a receiver that rejects all events until accepting is set.
type webhookReceiver struct {
	mu        sync.Mutex
	accepting bool
	// rejected and accepted count attempts by event id; lines are readable forms of the accepted events.
	rejected, accepted map[string]int
	lines              map[string]string
	problems           []string
}

func (b *webhookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id := r.Header.Get("webhook-id")
	key := hmac.New(sha256.New, make([]byte, 32))
	key.Write([]byte(id + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := "v1," + base64.StdEncoding.EncodeToString(key.Sum(nil)); r.Header.Get("webhook-signature") != want {
		b.problems = append(b.problems, fmt.Sprintf("%s has signature %q, want %q", id, r.Header.Get("webhook-signature"), want))
	}
	if !b.accepting {
		b.rejected[id]++
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	b.accepted[id]++
	var event contract.WebhookEvent
	var data contract.WebhookData
	if err := json.Unmarshal(body, &event); err != nil || json.Unmarshal(event.Data, &data) != nil {
		b.problems = append(b.problems, string(body))
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

func (b *webhookReceiver) count(attempts func(*webhookReceiver) map[string]int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(attempts(b))
}

// TestEndToEndSessionWebhooks has a receiver that is unavailable while a session has turns, a child requests a message
// and the worker is killed. It checks that every event is then delivered once, with the id of its earlier attempts.
func TestEndToEndSessionWebhooks(t *testing.T) {
	t.Parallel()
	receiver := &webhookReceiver{rejected: map[string]int{}, accepted: map[string]int{}, lines: map[string]string{}}
	web := httptest.NewServer(receiver)
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
		t.Errorf("turn = %+v", turn)
	}
	// A request, its answer and three turns.
	harness.WaitFor(t, "five rejected events", func() bool { return receiver.count(func(b *webhookReceiver) map[string]int { return b.rejected }) == 5 })
	_ = worker.Process.Kill()
	_ = worker.Wait()
	receiver.mu.Lock()
	seen := []string{}
	for id := range receiver.rejected {
		seen = append(seen, id)
	}
	receiver.accepting = true
	receiver.mu.Unlock()
	harness.StartWorker(t, harness.ServerAddress(t), env...)
	f.CloseSession(t, f.run)
	harness.WaitFor(t, "six accepted events", func() bool { return receiver.count(func(b *webhookReceiver) map[string]int { return b.accepted }) == 6 })
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	var lines []string
	for id, line := range receiver.lines {
		lines = append(lines, line)
		if !slices.Contains(seen, id) && !strings.HasPrefix(line, contract.EventRunFinished) {
			t.Errorf("event %s has the new id %s, want one of %q", line, id, seen)
		}
		if n := receiver.accepted[id]; n != 1 {
			t.Errorf("event %s was accepted %d times", line, n)
		}
	}
	slices.Sort(lines)
	want := []string{"request.answered message", "request.opened message", "run.finished completed", "turn.finished completed 1 waiting", "turn.finished completed 2 heard", "turn.finished failed 3mine"}
	if !slices.Equal(lines, want) || len(receiver.problems) > 0 {
		t.Errorf("events = %q, want %q; problems: %q", lines, want, receiver.problems)
	}
	if d, err := h.Client.DescribeWorkflowExecution(context.Background(), f.run.GetID(), ""); err != nil || d.WorkflowExecutionInfo.CloseTime == nil {
		t.Errorf("session is still open: %v", err)
	}
}
