package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/starter/transcript"
	"weft/worker/config"
)

func TestRun(t *testing.T) {
	b := newBench(t)
	b.runs.add("run_1").Session = "ses_mine"
	b.call("GET", "/runs/nobody", "").expect(404, "unknown-run")
	b.call("GET", "/runs/run_1", "").expect(200, `"status":"running","created_at":"2026-01-18T10:29:00Z","completed_at":null,"result":null,"error":null`)
	b.call("GET", "/runs/run_1/result", "").expect(409, "has not ended")
	start := time.Now()
	b.call("GET", "/runs/run_1?wait=50ms", "").expect(200, `"running"`)
	if took := time.Since(start); took < 50*time.Millisecond || took > time.Minute {
		t.Errorf("the request took %v, want at least 50ms", took)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		b.runs.end("run_1", &contract.RunResult{Status: "completed", ResultData: json.RawMessage(`{"n": 1}`), Usage: contract.Usage{Calls: 2}, FlowHash: "f"}, nil)
	}()
	got := b.call("GET", "/runs/run_1?wait=30s", "").expect(200, `"completed"`)
	if got.field("usage.calls") != json.Number("2") {
		t.Errorf("run = %s, want 2 calls", got.Body)
	}
	const event = `{"event_type":"result","session_id":"ses_mine","timestamp":"2026-01-18T10:30:00Z","result_text":null,"result_data":{"n":1}}`
	got.expect(200, `"result":`+event)
	if diff := cmp.Diff(event+"\n", b.call("GET", "/runs/run_1/result", "").expect(200, "").Body.String()); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	text := "hello"
	b.runs.add("run_2")
	b.runs.end("run_2", &contract.RunResult{ResultText: &text}, nil)
	b.call("GET", "/runs/run_2/result", "").expect(200, `"session_id":"ses_2","timestamp":"2026-01-18T10:30:00Z","result_text":"hello","result_data":null}`)
}

func TestFailedRuns(t *testing.T) {
	b := newBench(t)
	b.runs.add("a")
	b.runs.end("a", nil, &contract.Failure{Class: contract.ClassOutputSchema, Text: "Output validation failed after 1 retry: $: x; $.b: y", Node: "n", Remedy: "make it easier",
		Errors: []contract.FieldError{{Path: "$", Message: "x", SchemaPath: "required"}, {Path: "$.b", Message: "y"}}})
	b.call("GET", "/runs/a", "").expect(200, `"status":"failed"`).expect(200, `"result":null,"error":{"error":"OutputSchemaValidationError","message":"Output validation failed after 1 retry",`+
		`"errors":[{"path":"$","message":"x"},{"path":"$.b","message":"y"}]}}`)
	b.call("GET", "/runs/a/result", "").expect(409, "OutputSchemaValidationError: Output validation failed")
	b.runs.add("b")
	b.runs.end("b", nil, &contract.Failure{Class: "denied", Text: "no key", Node: "n", Step: 2, At: "x.json:3", Remedy: "set it"})
	b.call("GET", "/runs/b", "").expect(200, `"error":{"error":"denied","message":"no key","remedy":"set it","node":"n","step":2,"at":"x.json:3"}`)
}

func TestLists(t *testing.T) {
	b := newBench(t)
	first := b.call("GET", "/runs?limit=2", "").expect(200, `"run_id":"1"`)
	second := b.call("GET", "/runs?limit=2&page_token="+first.field("next_page_token").(string), "").expect(200, `"run_id":"2"`)
	if second.field("next_page_token") != nil {
		t.Errorf("last page = %s, want no next_page_token", second.Body)
	}
	b.runs.add("r")
	b.runs.lines = []transcript.Line{{Thread: "a#1", Message: &contract.Message{Role: "user", Text: "x"}}, {Thread: "a#1", N: 1}, {Thread: "b#2", Message: &contract.Message{Role: "tool", Text: "y"}}}
	b.runs.status.Requests = []contract.Request{{ID: "q1", Kind: "confirm", Text: "?", OpenedAt: noon}, {ID: "q2", Kind: "message", Text: "?", OpenedAt: noon}}
	b.call("GET", "/runs/r/transcript", "").expect(200, `"message":null`).expect(200, `"gone":["run/lost#1"]`)
	page := b.call("GET", "/runs/r/transcript?limit=2", "").expect(200, `"n":1`)
	b.call("GET", "/runs/r/transcript?page_token="+page.field("next_page_token").(string), "").expect(200, `{"messages":[{"thread":"b#2"`)
	b.call("GET", "/runs/r/transcript?thread=b%232", "").expect(200, `{"messages":[{"thread":"b#2"`)
	b.call("GET", "/runs/r/transcript?thread=c", "").expect(404, "unknown-thread")
	page = b.call("GET", "/runs/r/requests?limit=1", "").expect(200, `"id":"q1"`)
	b.call("GET", "/runs/r/requests?limit=1&page_token="+page.field("next_page_token").(string), "").expect(200, `"id":"q2"`)
	b.call("GET", "/runs/r/status", "").expect(200, `"kind":"confirm"`)
	b.call("GET", "/runs/r/state", "").expect(200, `{"month":"May"}`)
	b.runs.end("r", &contract.RunResult{}, nil)
	b.call("GET", "/runs/r/requests", "").expect(200, `{"requests":[]}`)
}

func TestAnswers(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes}}}
	})
	b.runs.add("r").Owner.Name = "kim"
	b.runs.add("r/a#1")
	kim, at := "Authorization: Bearer kimkimkimkimkimkim", "/runs/r%2Fa%231/"
	yes := true
	for _, tc := range []struct {
		kind, body string
		headers    []string
		want       any
	}{
		{"message", `{"text": "May"}`, []string{"Idempotency-Key: k"}, &contract.MessageAnswer{Text: "May", Key: "k", Author: contract.Author{By: "kim"}}},
		{"message", `{"text": "May", "id": "q", "by": "ann"}`, nil, &contract.MessageAnswer{Text: "May", ID: "q", Author: contract.Author{By: "kim", OnBehalfOf: "ann"}}},
		{"confirm", `{"id": "q", "approve": true, "arguments": {"to": "bob"}}`, nil, &contract.ConfirmAnswer{ID: "q", Approve: &yes, Arguments: json.RawMessage(`{"to":"bob"}`), Author: contract.Author{By: "kim"}}},
		{"tool_result", `{"id": "q", "result": {"n": 1}}`, nil, &contract.ToolResultAnswer{ID: "q", Result: json.RawMessage(`{"n":1}`), Author: contract.Author{By: "kim"}}},
		{"retry", `{"id": "q", "give_up": true}`, nil, &contract.RetryAnswer{ID: "q", GiveUp: true, Author: contract.Author{By: "kim"}}},
	} {
		b.runs.answers = nil
		b.call("POST", at+tc.kind, tc.body, append(tc.headers, kim)...).expect(200, `"status":"accepted"`)
		if diff := cmp.Diff([]any{tc.want}, b.runs.answers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.body, diff)
		}
	}
	b.runs.answers = nil
	for _, tc := range []struct{ kind, body, part string }{
		{"message", `{}`, "no text"}, {"message", `{"text": 7}`, "body:1:10: text is a number"}, {"confirm", `{"id": "q"}`, "the body has no approve"},
		{"confirm", `{"approve": true}`, "the body has no id"}, {"tool_result", `{"id": "q"}`, "exactly one"}, {"tool_result", `{"id": "q", "result": 1, "error": "x"}`, "exactly one"},
		{"confirm", `{"id": "q", "approve": false, "arguments": {"to": "bob"}}`, "body:1:44: arguments require approve: true"},
		{"retry", `{"id": "q", "giveup": true}`, `did you mean \"give_up\"?`},
	} {
		b.call("POST", at+tc.kind, tc.body, kim).expect(422, tc.part)
	}
	b.runs.err = NewProblem(AlreadyAnswered, "", "it has another")
	b.call("POST", at+"retry", `{"id": "q"}`, kim).expect(409, "already-answered")
	b.call("POST", "/runs/nobody/retry", `{"id": "q"}`, kim).expect(404, "unknown-run")
	b.runs.err = nil
	b.call("POST", at+"cancel", "", kim).expect(202, `"status":"running"`)
	b.runs.end("r/a#1", &contract.RunResult{}, nil)
	b.call("POST", at+"retry", `{"id": "q"}`, kim).expect(409, "is already closed: completed")
	b.call("POST", at+"cancel", "", kim).expect(409, "is already closed")
	if len(b.runs.cancelled) != 1 || len(b.runs.answers) != 1 {
		t.Errorf("cancelled runs = %v, answers = %v, want one each", b.runs.cancelled, b.runs.answers)
	}
}

// readEvents reads a stream of server-sent events to its end, and returns type, id and data of each.
func readEvents(t *testing.T, address, after string) (events []string, status int) {
	t.Helper()
	r, err := http.NewRequest("GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var kind, id string
	lines := bufio.NewScanner(got.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			events = append(events, fmt.Sprintf("%s %s %s", kind, id, value))
			schema := "RunEvent"
			switch kind {
			case "result":
				schema = "ResultEvent"
			case "run_failed":
				schema = "ErrorEvent"
			}
			checkSchema(t, schema, value)
		}
	}
	return events, got.StatusCode
}

func TestEvents(t *testing.T) {
	b := newBench(t)
	b.runs.add("run_r")
	b.runs.events = []Event{{Type: "node_started", Timestamp: noon, Node: "a#1", Text: "started"},
		{Type: "request_opened", Timestamp: noon, Request: &contract.Request{ID: "q", Kind: "message", Text: "Which\nmonth?", OpenedAt: noon}, Text: "Which\nmonth?"}}
	text := "a\nb"
	b.runs.end("run_r", &contract.RunResult{ResultText: &text}, nil)
	address, _ := b.listen()
	address = "http://" + address + "/runs/run_r/events"
	got, _ := readEvents(t, address, "")
	want := []string{
		`node_started 1 {"event_type":"node_started","session_id":"ses_r","timestamp":"2026-01-18T10:30:00Z","node":"a#1","text":"started"}`,
		`request_opened 2 {"event_type":"request_opened","session_id":"ses_r","timestamp":"2026-01-18T10:30:00Z","request":{"id":"q","kind":"message","text":"Which\nmonth?","hash":"","run":{"workflow_id":"","run_id":""},"opened_at":"2026-01-18T10:30:00Z"},"text":"Which\nmonth?"}`,
		`result end {"event_type":"result","session_id":"ses_r","timestamp":"2026-01-18T10:30:00Z","result_text":"a\nb","result_data":null}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got, _ := readEvents(t, address, "1"); !cmp.Equal(want[1:], got) {
		t.Errorf("events after the first = %q", got)
	}
	if got, status := readEvents(t, address, "end"); status != 204 || len(got) > 0 {
		t.Errorf("events after the last: status %d, %q", status, got)
	}
	if _, status := readEvents(t, address, "zzz"); status != 400 {
		t.Errorf("events after an invalid id: status %d, want 400", status)
	}
	b.call("GET", "/runs/nobody/events", "").expect(404, "unknown-run")
	b.call("HEAD", "/runs/run_r/events", "").expect(200, "")
	for range maxStreams {
		b.streams <- struct{}{}
	}
	if full := b.call("GET", "/runs/run_r/events", "").expect(503, "500 event streams are open"); full.Header().Get("Retry-After") != "5" {
		t.Errorf("Retry-After = %q, want 5", full.Header().Get("Retry-After"))
	}
	for range maxStreams {
		<-b.streams
	}
	b.runs.add("run_f")
	b.runs.events = nil
	b.runs.end("run_f", nil, &contract.Failure{Class: "denied", Text: "no key"})
	failed, _ := readEvents(t, strings.Replace(address, "run_r", "run_f", 1), "")
	if want := `run_failed end {"event_type":"error","session_id":"ses_f","timestamp":"2026-01-18T10:30:00Z","status":"failed","error":{"error":"denied","message":"no key"}}`; len(failed) != 1 || failed[0] != want {
		t.Errorf("events of a failed run = %q", failed)
	}
}
