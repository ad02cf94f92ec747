package dialects

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/tests/programs"
)

// TestTasks has an agent call a tool that answers with a task, and waits for it.
func TestTasks(t *testing.T) {
	t.Parallel()
	hours := slices.Repeat([]string{"working"}, 48)
	for name, tc := range map[string]struct {
		states []string
		at     map[time.Duration]func(*testsuite.TestWorkflowEnvironment)
		// text is what the model reads, or the class of what the run fails with.
		text string
		// last is the last request to the server; no more than looks may ask for the task.
		last  string
		looks int
		hours int
		// asks is what it asks, if not a person; answer is in what it is given.
		asks, answer string
	}{
		"two days": {states: append(hours, "completed"), text: "printed", looks: 50, hours: 48},
		"lost":     {states: []string{"working", "lost"}, text: "outcome unknown", looks: 2},
		"failed":   {states: []string{"failed"}, text: "out of paper", looks: 1},
		"cancelled": {states: []string{"working"}, last: "tasks/cancel", text: contract.ClassCancelled, looks: 3, hours: 3,
			at: map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
				2*time.Hour + time.Minute: func(env *testsuite.TestWorkflowEnvironment) {
					var s contract.Status
					if harness.Query(t, env, contract.QueryStatus, &s); !slices.Equal(s.Tasks, []string{"a#1 search"}) {
						t.Errorf("the status names the tasks %q", s.Tasks)
					}
				},
				3*time.Hour + time.Minute: func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() },
			}},
		"the model answers": {states: []string{"input_required", "working", "completed"}, text: "printed", looks: 4, hours: 0,
			asks:   `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Which size?"}}],"maxTokens":9}}`,
			answer: `"content":{"type":"text","text":"A4"}`},
		"a person answers": {answer: `{"size":{"action":"accept","content":{"size":"A4"}}}`, states: []string{"input_required", "working", "completed"}, text: "printed", looks: 4, hours: 30,
			at: map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
				30 * time.Hour: func(env *testsuite.TestWorkflowEnvironment) {
					env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openRequest(t, env).ID, "result": map[string]string{"size": "A4"}})
				},
			}},
	} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			modern := version == "2026-07-28"
			t.Run(name+"/"+version, func(t *testing.T) {
				srv := &programs.TaskServer{Modern: modern, Support: "optional", States: tc.states, PollMillis: 3_600_000, Asks: tc.asks}
				web := httptest.NewServer(srv)
				defer web.Close()
				var began, ended time.Time
				r := harness.TestRun{
					Document: harness.OneNode(harness.SearchTool), Input: "Print it.", Script: `rules: [{contains: "Which size?", say: A4}, {turn: 1, call: [{tool: search}]}, {say: "{last}"}]`,
					ToolSettings: tool.Settings{Connections: map[string]tool.Connection{"web": {URL: web.URL, SamplingTokens: 9}}}, Wrap: atTimes(tc.at),
					Started: func(p harness.Outcome) { began = p.Env.Now() },
				}
				p := r.Execute(t)
				ended = p.Env.Now()
				asked := srv.Requests()
				if looks := strings.Count(strings.Join(asked, " "), "tasks/get"); looks > tc.looks || tc.last != "" && asked[len(asked)-1] != tc.last {
					t.Errorf("the server was asked %q", asked)
				}
				if lasted := ended.Sub(began); lasted < time.Duration(tc.hours)*time.Hour || lasted > time.Duration(tc.hours+4)*time.Hour {
					t.Errorf("the run lasted %s", lasted)
				}
				if p.Err != nil {
					if p.Err.Class != tc.text {
						t.Errorf("the run fails with %v", p.Err)
					}
					return
				}
				if said := fmt.Sprint(toolAnswersOf(t, p)); !strings.Contains(said, tc.text) || strings.Contains(said, "continues the call") {
					t.Errorf("the model reads %q", said)
				}
				if !strings.Contains(srv.Answers(), tc.answer) {
					t.Errorf("the task was given %s", srv.Answers())
				}
			})
		}
	}
}

// toolAnswersOf are what tools answered the run's one agent.
func toolAnswersOf(t *testing.T, p harness.Outcome) []string {
	t.Helper()
	var out []string
	for _, m := range p.Messages(t, "a#1") {
		if m.Role == contract.RoleTool {
			out = append(out, harness.MessageText(m))
		}
	}
	return out
}
