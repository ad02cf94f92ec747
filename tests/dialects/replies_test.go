package dialects

import (
	"testing"
	"weft/activities/contract"
	"weft/tests/harness"
)

// toolReplies returns the texts of a thread's tool messages, with ! before errors.
func toolReplies(t *testing.T, p harness.Outcome, thread string) []string {
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
