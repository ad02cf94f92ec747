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

// TestTasks checks that a run waits for the task that a tool call returns.
func TestTasks(t *testing.T) {
	t.Parallel()
	hours := slices.Repeat([]string{"working"}, 48)
	for name, tc := range map[string]struct {
		states []string
		at     map[time.Duration]func(*testsuite.TestWorkflowEnvironment)
		// text is part of the tool result, or the class of the run's failure.
		text string
		// last is the last request to the server; at most polls requests get the task.
		last  string
		polls int
		hours int
		// asks is what the task requests, if not input from the user; answer is part of what it is sent.
		asks, answer string
	}{
		"two days": {states: append(hours, "completed"), text: "printed", polls: 50, hours: 48},
		"lost":     {states: []string{"working", "lost"}, text: "outcome unknown", polls: 2},
		"failed":   {states: []string{"failed"}, text: "out of paper", polls: 1},
		"cancelled": {states: []string{"working"}, last: "tasks/cancel", text: contract.ClassCancelled, polls: 3, hours: 3,
			at: map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
				2*time.Hour + time.Minute: func(env *testsuite.TestWorkflowEnvironment) {
					var s contract.Status
					if harness.Query(t, env, contract.QueryStatus, &s); !slices.Equal(s.Tasks, []string{"a#1 search"}) {
						t.Errorf("tasks in the status = %q", s.Tasks)
					}
				},
				3*time.Hour + time.Minute: func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() },
			}},
		"the model answers": {states: []string{"input_required", "working", "completed"}, text: "printed", polls: 4, hours: 0,
			asks:   `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Which size?"}}],"maxTokens":9}}`,
			answer: `"content":{"type":"text","text":"A4"}`},
		"the user answers": {answer: `{"size":{"action":"accept","content":{"size":"A4"}}}`, states: []string{"input_required", "working", "completed"}, text: "printed", polls: 4, hours: 30,
			at: map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
				30 * time.Hour: func(env *testsuite.TestWorkflowEnvironment) {
					env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openRequest(t, env).ID, "result": map[string]string{"size": "A4"}})
				},
			}},
	} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			modern := version == "2026-07-28"
			t.Run(name+"/"+version, func(t *testing.T) {
				srv := &programs.TaskServer{Modern: modern, Support: "optional", States: tc.states, PollMillis: 3_600_000, InputRequest: tc.asks}
				web := httptest.NewServer(srv)
				defer web.Close()
				var started, ended time.Time
				r := harness.TestRun{
					Document: harness.OneNode(harness.SearchTool), Input: "Print it.", Script: `rules: [{contains: "Which size?", say: A4}, {turn: 1, call: [{tool: search}]}, {say: "{last}"}]`,
					ToolSettings: tool.Settings{Connections: map[string]tool.Connection{"web": {URL: web.URL, SamplingTokens: 9}}}, Wrap: atTimes(tc.at),
					BeforeStart: func(p harness.Outcome) { started = p.Env.Now() },
				}
				p := r.Execute(t)
				ended = p.Env.Now()
				requests := srv.Requests()
				if polls := strings.Count(strings.Join(requests, " "), "tasks/get"); polls > tc.polls || tc.last != "" && requests[len(requests)-1] != tc.last {
					t.Errorf("requests to the server = %q", requests)
				}
				if lasted := ended.Sub(started); lasted < time.Duration(tc.hours)*time.Hour || lasted > time.Duration(tc.hours+4)*time.Hour {
					t.Errorf("run took %s", lasted)
				}
				if p.Err != nil {
					if p.Err.Class != tc.text {
						t.Errorf("run failed with %v", p.Err)
					}
					return
				}
				if got := fmt.Sprint(taskReplies(t, p)); !strings.Contains(got, tc.text) || strings.Contains(got, "continues the call") {
					t.Errorf("tool replies = %q", got)
				}
				if !strings.Contains(srv.Answers(), tc.answer) {
					t.Errorf("answers to the task = %s", srv.Answers())
				}
			})
		}
	}
}

// taskReplies returns the texts of the tool messages of the run's only agent, including the notes that replace other content.
func taskReplies(t *testing.T, p harness.Outcome) []string {
	t.Helper()
	var out []string
	for _, m := range p.Messages(t, "a#1") {
		if m.Role == contract.RoleTool {
			out = append(out, harness.MessageText(m))
		}
	}
	return out
}
