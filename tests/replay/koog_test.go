package replay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
)

// executeRecording executes a recording in the test environment.
func executeRecording(t *testing.T, name string) harness.Outcome {
	r := recordings[name]
	return harness.TestRun{Document: r.doc, Script: r.script, Input: r.input, Profile: r.profile}.Execute(t)
}

func TestKoogRecordings(t *testing.T) {
	t.Parallel()
	p := executeRecording(t, "koog-parallel")
	if p.Err != nil || string(p.Result.ResultData) != "2.0" || len(p.Status.Conflicts) != 0 {
		t.Errorf("parallel: %v, %v, conflicts %v", p.Err, p.Result, p.Status.Conflicts)
	}
	p = executeRecording(t, "koog-conversation")
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if want := `{"success":false,"feedback":"f","input":"right"}`; string(p.Result.ResultData) != want {
		t.Errorf("shared: result = %s, want %s", p.Result.ResultData, want)
	}
	// There is one conversation. Of the forks, it has only the selected one.
	var got []string
	for _, m := range p.Messages(t, "conversation") {
		text := m.Text
		for _, part := range m.Parts {
			text += part.Text
		}
		for _, c := range m.Calls {
			text += c.Name
		}
		got = append(got, m.Role+": "+text)
	}
	want := []string{"user: begin", "assistant: hello",
		"user: # DO NOT CHAT WITH ME DIRECTLY! CALL TOOLS, INSTEAD.\n## IF YOU HAVE FINISHED, CALL `finalize_task_result` TOOL!",
		"assistant: finalize_task_result", `tool: {"__wrapped_value__":"7"}`,
		"user: right", "user: Please give your thoughts about the task and plan the next steps.", "assistant: a thought", "assistant: right",
		"user: end", "assistant: finalize_task_result", `tool: {"isCorrect":false,"feedback":"f"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

// TestNoRouteFails checks that a run without a matching condition fails with the node, the value and the results of all conditions.
func TestNoRouteFails(t *testing.T) {
	t.Parallel()
	p := executeRecording(t, "koog-no-route")
	if harness.FailureClass(p.Err) != contract.ClassNoRoute || p.Err.Node != "check" || len(p.Err.Answers) != 2 || !strings.Contains(p.Err.Text, `"feedback":"","input":"x"`) {
		t.Errorf("failure = %+v", p.Err)
	}
}
