package dialects

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
)

// A session below that has as many prompts in line as it takes refuses the next one, and the call
// that gave it says so, whether it waits for the turn or not.
func TestChildSessionIsFull(t *testing.T) {
	t.Parallel()
	on := func(tool, more string) string {
		return `{tool: ` + tool + `, arguments: {session_id: "` + childID(1) + `"` + more + `}}`
	}
	more := func(mode string) string {
		return on("resume_agent_session", ", mode: "+mode+", parameters: {prompt: more}")
	}
	p := sessionRun(t, harness.Orchestrator(), `rules:
- {node: helper, fail: {class: quota_exceeded, text: "no credit"}}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_poll, parameters: {prompt: help}}}]}
- {node: boss, turn: 2, call: [`+strings.Repeat(more("async_poll")+", ", 100)+`]}
- {node: boss, turn: 3, call: [`+more("sync")+`]}
- {node: boss, turn: 4, call: [`+on("get_agent_session_status", "")+`, `+more("async_callback")+`]}
- {node: boss, turn: 5, call: [`+more("async_poll")+`]}
- {node: boss, turn: 6, call: [`+on("get_agent_session_status", "")+`, `+on("get_agent_session_result", "")+`]}
- {node: boss, say: "asked"}`, func(in *contract.RunInput) { in.Flow.Plan.Nodes[0].Agent.MaxCalls = 200 }, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	const full = `{"error":"too_large: 100 prompts are already queued"}`
	running := `{"session_id":"` + childID(1) + `","status":"running"}`
	want := []string{full, running, full, full, running, `{"error":"Session not finished or idle"}`}
	got := toolAnswers(t, p)
	if diff := cmp.Diff(want, got[min(101, len(got)):]); diff != "" {
		t.Errorf("behind the first 101 answers (-want +got):\n%s", diff)
	}
	if p.Result.Turns[0].Status != contract.TurnCompleted || len(p.Result.Turns) != 1 {
		t.Errorf("the turns are %+v", p.Result.Turns)
	}
}
