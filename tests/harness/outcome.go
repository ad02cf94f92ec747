package harness

import (
	"encoding/json"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
)

// Outcome is how a TestRun ended.
type Outcome struct {
	Result *contract.RunResult
	Err    *contract.Failure
	Status contract.Status
	Env    *testsuite.TestWorkflowEnvironment
	State  map[string]json.RawMessage
}

// Messages reads a thread of the root run.
func (p Outcome) Messages(t *testing.T, thread string) []contract.Message {
	t.Helper()
	var out []contract.Message
	for page := (contract.TranscriptPage{Total: 1}); len(out) < page.Total; {
		Query(t, p.Env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: thread, From: len(out)})
		for _, raw := range page.Messages {
			m, err := contract.DecodeMessage(raw)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, *m)
		}
	}
	return out
}

// ToolReplies lists the texts of a thread's tool messages, with ! before errors.
func (p Outcome) ToolReplies(t *testing.T, thread string) []string {
	var out []string
	for _, m := range p.Messages(t, thread) {
		if m.Role == contract.RoleTool {
			text := m.Text
			if m.Error {
				text = "!" + text
			}
			out = append(out, text)
		}
	}
	return out
}
