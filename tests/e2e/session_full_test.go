package e2e

import (
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndLargeSessionResults has sessions below give long results, which meet in the history of
// the one that started them: it gets no more of each than a turn can be given.
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
	told := func() (n int) {
		for i := range turns {
			n += len(turns[i].Callbacks)
		}
		return n
	}
	harness.WaitFor(t, "all results", func() bool {
		turns = h.Turns(t, run.GetID(), 1)
		return told() == n && turns[len(turns)-1].Done()
	})
	for _, turn := range turns[1:] {
		if turn.Status != contract.TurnCompleted || *turn.ResultText != "heard" {
			t.Errorf("a turn is %.500v", turn)
		}
	}
	// Its own script has the text once.
	if size := historyBytes(t, h.Client, run.GetID(), ""); size > 2*long {
		t.Errorf("the history has %d bytes for %d results", size, n)
	}
	h.CloseSession(t, run)
}
