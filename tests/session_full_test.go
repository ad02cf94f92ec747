package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
)

// A session below that has as many prompts in line as it takes refuses the next one, and the call
// that gave it says so, whether it waits for the turn or not.
func TestSessionBelowIsFull(t *testing.T) {
	on := func(tool, more string) string {
		return `{tool: ` + tool + `, arguments: {session_id: "` + childID(1) + `"` + more + `}}`
	}
	more := func(mode string) string {
		return on("resume_agent_session", ", mode: "+mode+", parameters: {prompt: more}")
	}
	p := sessionRun(t, orchestrator(), `rules:
- {node: helper, fail: {class: quota, text: "no credit"}}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_poll, parameters: {prompt: help}}}]}
- {node: boss, turn: 2, call: [`+strings.Repeat(more("async_poll")+", ", 100)+`]}
- {node: boss, turn: 3, call: [`+more("sync")+`]}
- {node: boss, turn: 4, call: [`+on("get_agent_session_status", "")+`, `+more("async_callback")+`]}
- {node: boss, turn: 5, call: [`+more("async_poll")+`]}
- {node: boss, turn: 6, call: [`+on("get_agent_session_status", "")+`, `+on("get_agent_session_result", "")+`]}
- {node: boss, say: "asked"}`, func(in *contract.RunInput) { in.Flow.Plan.Nodes[0].Agent.MaxCalls = 200 }, stop(t))
	if p.err != nil {
		t.Fatal(p.err)
	}
	const full = `{"error":"too_large: 100 prompts are queued already"}`
	running := `{"session_id":"` + childID(1) + `","status":"running"}`
	want := []string{full, running, full, full, running, `{"error":"Session not finished or idle"}`}
	got := toolAnswers(t, p)
	if diff := cmp.Diff(want, got[min(101, len(got)):]); diff != "" {
		t.Errorf("behind the first 101 answers (-want +got):\n%s", diff)
	}
	if p.result.Turns[0].Status != contract.TurnCompleted || len(p.result.Turns) != 1 {
		t.Errorf("the turns are %+v", p.result.Turns)
	}
}

// TestEndToEndSessionResultsTogether has sessions below give long results, which meet in the history of
// the one that started them: it gets no more of each than a turn can be given.
func TestEndToEndSessionResultsTogether(t *testing.T) {
	const n, long = 5, 1_800_000
	h := newHand(t, 0)
	start := `{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: help}}}`
	run := h.session(t, orchestrator(), fmt.Sprintf(`rules:
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
	waitFor(t, "all results", func() bool {
		turns = h.turns(t, run.GetID(), 1)
		return told() == n && turns[len(turns)-1].Done()
	})
	for _, turn := range turns[1:] {
		if turn.Status != contract.TurnCompleted || *turn.ResultText != "heard" {
			t.Errorf("a turn is %.500v", turn)
		}
	}
	// Its own script has the text once.
	if size := historyBytes(t, h.client, run.GetID(), ""); size > 2*long {
		t.Errorf("the history has %d bytes for %d results", size, n)
	}
	h.halt(t, run)
}
