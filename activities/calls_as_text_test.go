package activities

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestCallsOfOtherTools checks that calls of tools that a node does not offer become text, and that the others keep their results
// next to them.
func TestCallsOfOtherTools(t *testing.T) {
	call := func(id, name, args string) contract.ToolCall {
		return contract.ToolCall{ID: id, Name: name, Arguments: args}
	}
	messages := []contract.Message{
		{Role: contract.RoleUser, Text: "begin"},
		{Role: contract.RoleAssistant, Text: "I look.", Provider: []byte(`{}`), Calls: []contract.ToolCall{call("1", "own", `{"a": 1}`), call("2", "other", `{"q": "<ö>", "n": 1.0}`), call("3", "odd", "not JSON")}},
		{Role: contract.RoleTool, CallID: "1", Name: "own", Text: "one"},
		{Role: contract.RoleTool, CallID: "2", Name: "other", Text: "say \"two\""},
		{Role: contract.RoleTool, CallID: "3", Name: "odd", Text: "three"},
		{Role: contract.RoleAssistant, Calls: []contract.ToolCall{call("4", "end", `{}`)}},
		{Role: contract.RoleTool, CallID: "4", Name: "end", Text: "{}"},
	}
	p := &contract.Profile{Tools: []contract.ProfileTool{{Name: "x.own", As: "own"}}, Finish: &plan.Finish{Name: "end"}}
	want := []contract.Message{
		messages[0],
		{Role: contract.RoleAssistant, Text: "I look.\n" + `{"tool_name":"other","tool_args":{"q":"<ö>","n":1.0}}` + "\n" + `{"tool_name":"odd","tool_args":"not JSON"}`},
		{Role: contract.RoleAssistant, Calls: messages[1].Calls[:1]},
		messages[2],
		{Role: contract.RoleUser, Name: "other", Text: `{"tool_name":"other","tool_result":"say \"two\""}`},
		{Role: contract.RoleUser, Name: "odd", Text: `{"tool_name":"odd","tool_result":"three"}`},
		messages[5], messages[6],
	}
	if diff := cmp.Diff(want, callsAsText(messages, offeredTools(p, false))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	none := callsAsText(messages[5:], offeredTools(p, true))
	want = []contract.Message{{Role: contract.RoleAssistant, Text: `{"tool_name":"end","tool_args":{}}`}, {Role: contract.RoleUser, Name: "end", Text: `{"tool_name":"end","tool_result":"{}"}`}}
	if diff := cmp.Diff(want, none); diff != "" {
		t.Errorf("no tools (-want +got):\n%s", diff)
	}
}
