package dialects

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestChildSessionQueueFull checks that a child session with a full prompt queue rejects the next prompt, and
// that the tool call returns the error in every mode.
func TestChildSessionQueueFull(t *testing.T) {
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
	got := sessionToolReplies(t, p)
	if diff := cmp.Diff(want, got[min(101, len(got)):]); diff != "" {
		t.Errorf("results after the first 101 (-want +got):\n%s", diff)
	}
	if p.Result.Turns[0].Status != contract.TurnCompleted || len(p.Result.Turns) != 1 {
		t.Errorf("turns = %+v", p.Result.Turns)
	}
}
