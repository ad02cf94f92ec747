package serve

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/mask"
	"weft/starter/transcript"
)

// TestResponsesMasked checks that no response contains a secret, wherever it comes from, and that responses remain valid JSON.
func TestResponsesMasked(t *testing.T) {
	const key, pin = "canary-51c0ffee22", "84129973"
	b := newBench(t, func(o *Options) { o.Mask = mask.New(key, pin) })
	b.runs.add("run_r").Session = "ses_r"
	b.runs.lines = []transcript.Line{{Thread: "a#1", Message: &contract.Message{Role: "tool", Text: "the key is " + key}}}
	b.runs.events = []Event{{Type: "tool", Text: "it said " + key, Node: "a#1"}}
	b.runs.end("run_r", &contract.RunResult{Status: "completed", ResultData: json.RawMessage(`{"pin": ` + pin + `, "text": "` + key + `"}`), FlowHash: "f"}, nil)
	for path, want := range map[string]string{
		"/runs/run_r":            `{"pin":"[secret]","text":"[secret]"}`,
		"/runs/run_r/result":     `{"pin":"[secret]","text":"[secret]"}`,
		"/runs/run_r/transcript": `the key is [secret]`,
		"/runs/" + key:           `run \"[secret]\" not found`,
		"/no/" + key:             `[secret]\" not found`,
		"/runs/run_r/events":     `it said [secret]`,
	} {
		got := b.call("GET", path, "")
		if body := got.Body.String(); strings.Contains(body, key) || strings.Contains(body, pin) || !strings.Contains(body, want) {
			t.Errorf("GET %s = %s, want %s in it", path, body, want)
		}
	}
	events := b.call("GET", "/runs/run_r/events", "").Body.String()
	for event := range strings.SplitSeq(strings.TrimSpace(events), "\n\n") {
		if _, data, ok := strings.Cut(event, "\ndata: "); ok && !json.Valid([]byte(data)) {
			t.Errorf("the data of event %q is not valid JSON", event)
		}
	}
	if !strings.Contains(events, `"pin":"[secret]"`) || !strings.HasSuffix(events, "}\n\n") {
		t.Errorf("events = %s", events)
	}
}

// TestIDsNotMasked checks that ids that clients send back, such as those of events, are not masked even if they contain a secret.
func TestIDsNotMasked(t *testing.T) {
	const word, eventID = "postgres", "bWFyay1wb3N0Z3Jlcw"
	b := newBench(t, func(o *Options) { o.Mask = mask.New(word, eventID) })
	b.runs.add("run_postgres").Session = "ses_postgres"
	b.runs.end("run_postgres", &contract.RunResult{Status: "completed", ResultText: new(word), FlowHash: "postgres0"}, nil)
	if body := b.call("GET", "/runs/run_postgres", "").Body.String(); !strings.Contains(body, `"run_id":"run_postgres"`) || !strings.Contains(body, `"session_id":"ses_postgres"`) ||
		!strings.Contains(body, `"flow_hash":"postgres0"`) || !strings.Contains(body, `"[secret]"`) {
		t.Errorf("GET /runs/run_postgres = %s", body)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", eventStream)
	out := &stream{w: &masker{w, mask.New(word, eventID)}}
	if err := out.send("tool", eventID, Event{Session: "ses_postgres", Text: "it is " + word}); err != nil {
		t.Fatal(err)
	}
	if got := w.Body.String(); !strings.HasPrefix(got, "event: tool\nid: "+eventID+"\ndata: {") || !strings.Contains(got, `"session_id":"ses_postgres"`) ||
		!strings.Contains(got, "it is [secret]") || !strings.HasSuffix(got, "}\n\n") {
		t.Errorf("event = %s", got)
	}
}

// TestMaskKeepsOtherBodies checks that a mask does not change a single byte of a response without secrets.
func TestMaskKeepsOtherBodies(t *testing.T) {
	var got []string
	for _, m := range []*mask.Mask{nil, mask.New("canary-51c0ffee22")} {
		b := newBench(t, func(o *Options) { o.Mask = m })
		b.runs.add("run_r").Session = "ses_r"
		b.runs.events = []Event{{ID: "m1", Type: "tool", Text: "less < and é\n\ndata: more", Node: "a#1"}}
		b.runs.end("run_r", &contract.RunResult{Status: "completed", ResultData: json.RawMessage(`{"z":1.0,"a":12345678901234567890}`)}, nil)
		all := ""
		for _, path := range []string{"/runs/run_r", "/runs/run_r/result", "/runs/run_r/events", "/no", "/openapi.json"} {
			all += b.call("GET", path, "").Body.String()
		}
		got = append(got, all)
	}
	if got[0] != got[1] {
		t.Errorf("responses with a mask:\n%s\nwithout:\n%s", got[1], got[0])
	}
}
