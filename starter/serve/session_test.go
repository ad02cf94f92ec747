package serve

import (
	"strings"
	"testing"

	"weft/activities/contract"
)

func TestSessions(t *testing.T) {
	b := newBench(t)
	made := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`).is(201, "pending")
	id, session := made.field("run_id").(string), made.field("session_id").(string)
	if in := b.runs.inputs[id]; !in.Session {
		t.Error("the run is no session")
	}
	resume := `{"type": "resume_session", "session_id": "` + session + `", "parameters": `
	b.call("POST", "/runs", resume+`{"prompt": "two"}}`).is(400, "not-resumable")
	b.runs.byID[id].Kept = true
	b.call("GET", "/sessions/"+session+"/result", "").is(400, "Session not finished or idle")
	text, begun := "first", noon
	b.runs.turns = []contract.Turn{{N: 1, Status: contract.TurnCompleted, ResultText: &text, Begun: &begun, Ended: &begun}}
	b.call("GET", "/sessions/"+session+"/status", "").is(200, `"status":"idle"`)
	b.call("GET", "/sessions/"+session+"/result", "").is(200, `"result_text":"first","result_data":null`)

	next := b.call("POST", "/runs", resume+`{"prompt": "two"}}`).is(201, session)
	if workflow, turn := SplitTurn(next.field("run_id").(string)); workflow != id || turn != b.runs.answers[0].(contract.ResumeInput).ID {
		t.Errorf("the turn is %s of %s", turn, workflow)
	}
	for body, part := range map[string]string{
		`{}`:                             `'prompt' is a required property`,
		`{"prompt": ""}`:                 `"path":"$.prompt"`,
		`{"prompt": 1}`:                  `1 is not of type 'string'`,
		`{"prompt": "x", "topic": "AI"}`: `('topic' was unexpected)`,
	} {
		b.call("POST", "/runs", resume+body+"}").is(400, "parameter_validation_failed").is(400, part)
	}
	again := []string{resume + `{"prompt": "x"}}`, "Idempotency-Key: k"}
	if one, two := b.call("POST", "/runs", again[0], again[1]), b.call("POST", "/runs", again[0], again[1]); one.field("run_id") != two.field("run_id") {
		t.Error("the key makes two turns")
	}
	b.runs.turns = append(b.runs.turns, contract.Turn{N: 2, Status: contract.TurnRunning, Begun: &begun})
	b.call("GET", "/sessions/"+session+"/status", "").is(200, `"status":"running"`)
	b.call("GET", "/sessions/"+session+"/result", "").is(400, "Session not finished or idle")
	b.call("POST", "/sessions/"+session+"/stop", "").is(202, "stopping")
	if strings.Join(b.runs.cancelled, " ") != id {
		t.Errorf("stopped: %v", b.runs.cancelled)
	}
	for _, call := range [][2]string{{"GET", "/sessions/ses_none/status"}, {"GET", "/sessions/none/result"}, {"POST", "/sessions/none/stop"}} {
		b.call(call[0], call[1], "").is(404, "not found")
	}
}
