package e2e

import (
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndLargeSessionResults checks that large results of child sessions are truncated to what a prompt may
// contain, so that the history of their parent does not grow by their full size.
func TestEndToEndLargeSessionResults(t *testing.T) {
	t.Parallel()
	const n, long = 5, 1_800_000
	h := harness.NewWorker(t, 0)
	start := `{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: help}}}`
	run := h.StartSession(t, harness.Orchestrator(), fmt.Sprintf(`rules:
- {node: helper, say: "%s"}
- {node: boss, turn: 1, call: [%s]}
- {node: boss, contains: "Result truncated at", say: heard}
- {node: boss, say: asked}`, strings.Repeat("w", long), strings.Repeat(start+", ", n)), 0)
	var turns []contract.Turn
	callbacks := func() (n int) {
		for i := range turns {
			n += len(turns[i].Callbacks)
		}
		return n
	}
	harness.WaitFor(t, "all callbacks", func() bool {
		turns = h.WaitForTurns(t, run.GetID(), 1)
		return callbacks() == n && turns[len(turns)-1].Done()
	})
	for _, turn := range turns[1:] {
		if turn.Status != contract.TurnCompleted || *turn.ResultText != "heard" {
			t.Errorf("turn = %.500v", turn)
		}
	}
	// The script in its input contains the text once.
	if size := historyBytes(t, h.Client, run.GetID(), ""); size > 2*long {
		t.Errorf("history has %d bytes with %d results", size, n)
	}
	h.CloseSession(t, run)
}
