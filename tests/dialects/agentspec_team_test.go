package dialects

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestAgentSpecWorkers checks that a manager messages its workers concurrently, each with one message at a time, in conversations
// that persist, and that invalid messages and failures of workers are reported to the manager.
func TestAgentSpecWorkers(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{Document: harness.AgentspecWorkers, Script: harness.AgentspecWorkersScript}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if want := `{"answer":"3 cups of a leaf"}`; string(p.Result.ResultData) != want {
		t.Errorf("outputs = %s, want %s", p.Result.ResultData, want)
	}
	got := threadOf(t, p, "conversation")
	for _, want := range []string{
		"tool : {\"n\":3,\"unit\":\"cups\"}\ntool : A leaf.\ntool : {\"n\":4,\"unit\":\"pots\"}\ntool : the agent failed: node \"team/mute\" at step 1 (flow.json:6): the agent never submitted its result",
		"tool : unknown recipient \"nobody\"; available recipients: counter, library, mute\ntool : send_message expects {\"recipient\": \"name\", \"message\": \"text\"}\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("conversation:\n%s\nwant %q", got, want)
		}
	}
	if got, want := threadOf(t, p, "team#1:boss>library~1"), `user team>team/library: What is tea?
assistant team/library: 
tool : the conversation is handed over to reader
assistant team/reader: A leaf.
user team>team/reader: Sure?
assistant team/reader: Yes.
`; got != want {
		t.Errorf("conversation of the library:\n%s\nwant\n%s", got, want)
	}
}

// threadOf returns the messages of a conversation, one per line, with their senders and recipients.
func threadOf(t *testing.T, p harness.Outcome, thread string) string {
	t.Helper()
	var page contract.TranscriptPage
	harness.Query(t, p.Env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: thread})
	var b strings.Builder
	for _, raw := range page.Messages {
		m, err := contract.DecodeMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		who := m.From
		if m.To != "" {
			who += ">" + m.To
		}
		fmt.Fprintf(&b, "%s %s: %s\n", m.Role, who, m.Text)
	}
	return b.String()
}

// TestAgentSpecSwarm checks that agents of a swarm can message only related agents, that each pair has its own conversation, and that
// only the agent that has the node's conversation can hand it over.
func TestAgentSpecSwarm(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{Document: harness.AgentspecSwarm, Script: harness.AgentspecSwarmScript}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if want := `{"word":"done"}`; string(p.Result.ResultData) != want {
		t.Errorf("outputs = %s, want %s", p.Result.ResultData, want)
	}
	got := threadOf(t, p, "conversation")
	for _, want := range []string{"tool : that is c\n", `tool : unknown recipient "c"; available recipients: b`, "assistant team/b: \ntool : still c\ntool : the conversation is handed over to c\nassistant team/c: \n"} {
		if !strings.Contains(got, want) {
			t.Errorf("conversation:\n%s\nwant %q", got, want)
		}
	}
	if got, want := threadOf(t, p, "team#2:b>c~1"), `user team/b/asked>team/c/asked: who is c
assistant team/c/asked: 
tool : b asks
assistant team/c/asked: I am c
user team/b>team/c/asked: once more
assistant team/c/asked: still c
`; got != want {
		t.Errorf("conversation of b and c:\n%s\nwant\n%s", got, want)
	}
	if got := threadOf(t, p, "team#2:a>b~1"); !strings.Contains(got, `tool : unknown tool "handoff_conversation"; available tools: send_message`) {
		t.Errorf("conversation of a and b:\n%s", got)
	}
}

// TestEndToEndAgentSpecTeamRequests checks that a worker's client-side tool waits for its confirmation and then for a client, even if
// the run continues as new whenever possible, and that the reply of the other worker is not lost.
func TestEndToEndAgentSpecTeamRequests(t *testing.T) {
	t.Parallel()
	const doc = `{"component_type":"ManagerWorkers","agentspec_version":"25.4.2","name":"team","outputs":[{"title":"answer","type":"string"}],
"group_manager":{"component_type":"Agent","name":"boss","llm_config":{"$component_ref":"m"},"system_prompt":"Ask."},
"workers":[
{"component_type":"Agent","name":"stock","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x","tools":[{"component_type":"ClientTool","name":"count","requires_confirmation":true,"description":"counts","inputs":[{"title":"what","type":"string"}],"outputs":[{"title":"n","type":"integer"}]}]},
{"component_type":"Agent","name":"poet","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x"}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"}}}`
	h := harness.NewWorker(t, 0)
	for _, events := range []int{0, 1} {
		run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "team.json"}, MaxEvents: events, Script: harness.Script(t, `rules:
- {node: team, match: ^Hello, call: [{tool: send_message, arguments: {recipient: stock, message: how many}}, {tool: send_message, arguments: {recipient: poet, message: a verse}}]}
- {node: team/stock, match: ^how many, call: [{tool: count, arguments: {what: cups}}]}
- {node: team/stock, say: we have 7}
- {node: team/poet, say: a rhyme}
- {node: team, match: a rhyme, say: "Is it enough?"}
- {node: team, match: ^Yes, call: [{tool: submit_result, arguments: {answer: "7"}}]}`)})
		for _, step := range []struct {
			text, kind string
			answer     any
		}{
			{"team waits for a message", contract.RequestMessage, contract.MessageAnswer{Text: "Hello"}},
			{`team/stock wants to call count with {"what":"cups"}`, contract.RequestConfirm, nil},
			{`run count with {"what":"cups"}`, contract.RequestToolResult, nil},
			{"Is it enough?", contract.RequestMessage, contract.MessageAnswer{Text: "Yes"}},
		} {
			var id string
			harness.WaitFor(t, "the request "+step.text, func() bool {
				open := h.WaitForRequests(t, run.GetID(), 1)[0]
				id = open.ID
				return strings.EqualFold(open.Text, step.text)
			})
			switch yes := true; step.kind {
			case contract.RequestConfirm:
				step.answer = contract.ConfirmAnswer{ID: id, Approve: &yes}
			case contract.RequestToolResult:
				step.answer = contract.ToolResultAnswer{ID: id, Result: json.RawMessage("7")}
			}
			if _, err := h.Update(t, run.GetID(), step.kind, step.answer); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := harness.Result(t, run); err != nil || string(out.ResultData) != `{"answer":"7"}` {
			t.Errorf("max events %d: %+v, %v", events, out, err)
		}
	}
}

// TestAgentSpecTeamFlows checks that the outputs of a team's flows are returned to the agent that called them, in the order of the calls.
func TestAgentSpecTeamFlows(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{SetInput: func(in *contract.RunInput) { *in = specCases["asked"].input(t, "asked") }}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != `{"text":"done"}` {
		t.Fatalf("result = %+v, %v", p.Result, p.Err)
	}
	got := threadOf(t, p, "conversation")
	offset := 0
	for _, answer := range []string{`{"n":1}`, `{"n":2}`, "Good day", "the count is 7"} {
		i := strings.Index(strings.ReplaceAll(got[offset:], `\"`, `"`), answer)
		if i < 0 {
			t.Fatalf("%s is missing or out of order:\n%s", answer, got)
		}
		offset += i
	}
	if strings.Contains(got, "for help") {
		t.Errorf("the conversation has a message of another agent:\n%s", got)
	}
}
