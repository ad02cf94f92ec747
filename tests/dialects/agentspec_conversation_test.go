package dialects

import (
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

func TestAgentSpecConversation(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{Document: harness.AgentspecConversation, Script: harness.AgentspecConversationScript}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if want := `{"words":["yes, Ann","no, Bob"],"word":"bye"}`; string(p.Result.ResultData) != want {
		t.Errorf("outputs = %s, want %s", p.Result.ResultData, want)
	}
	var page contract.TranscriptPage
	harness.Query(t, p.Env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: "conversation"})
	var got []string
	for _, raw := range page.Messages {
		m, err := contract.DecodeMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %.10s%d", m.Role, m.Text, len(m.Calls)))
	}
	want := "assistant Good morni0, user 0, assistant 1, tool {\"word\":\"y0, user 0, assistant let me thi0, user Nobody rea0, assistant 1, tool {\"word\":\"n0, user 0, assistant 1, tool {\"word\":\"b0"
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("conversation:\n%s\nwant\n%s", got, want)
	}
}

// TestEndToEndAgentSpecRequests checks that a run opens each request once, even if it continues as new whenever possible.
func TestEndToEndAgentSpecRequests(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	for _, events := range []int{0, 1} {
		run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.ReadFile(t, "../examples/agentspec/guess.yaml"), Name: "guess.yaml"}, MaxEvents: events})
		for _, step := range []struct{ question, answer string }{
			{"What is the capital of Norway? You said nothing.", "Bergen"}, {"What is the capital of Norway? You said Bergen.", "Oslo"},
		} {
			var text string
			harness.WaitFor(t, "the question "+step.question, func() bool {
				text = h.WaitForRequests(t, run.GetID(), 1)[0].Text
				return text == step.question
			})
			if _, err := h.Update(t, run.GetID(), contract.RequestMessage, contract.MessageAnswer{Text: step.answer}); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := harness.Result(t, run); err != nil || string(out.ResultData) != `{"answer":"Oslo"}` {
			t.Errorf("max events %d: %+v, %v", events, out, err)
		}
		const agent = `{"component_type":"Agent","agentspec_version":"25.4.1","name":"clerk","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"system_prompt":"Be {{how}}.","inputs":[{"title":"how","type":"string","default":"kind"}],"outputs":[{"title":"name","type":"string"}]}`
		run = h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: agent, Name: "clerk.json"}, MaxEvents: events, Script: harness.Script(t, `rules:
- {turn: 1, match: ^Hello$, say: "Your name?"}
- {turn: 2, match: ^Ann$, call: [{tool: submit_result, arguments: {name: Ann}}]}`)})
		for _, step := range []struct{ question, answer string }{{"clerk waits for a message", "Hello"}, {"Your name?", "Ann"}} {
			harness.WaitFor(t, "the question "+step.question, func() bool { return h.WaitForRequests(t, run.GetID(), 1)[0].Text == step.question })
			if _, err := h.Update(t, run.GetID(), contract.RequestMessage, contract.MessageAnswer{Text: step.answer}); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := harness.Result(t, run); err != nil || string(out.ResultData) != `{"name":"Ann"}` {
			t.Errorf("max events %d: %+v, %v", events, out, err)
		}
	}
}

// TestAgentSpecSubmissionsAreChecked checks that submitted values are cast, then validated against the agent's outputs, and can be corrected.
func TestAgentSpecSubmissionsAreChecked(t *testing.T) {
	t.Parallel()
	const doc = `{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"data_flow_connections":[{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"n"},"source_output":"m","destination_node":{"$component_ref":"e"},"destination_input":"m"}],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"m","type":"integer"}]},
"n":{"component_type":"AgentNode","name":"n","agent":{"component_type":"Agent","name":"a","system_prompt":"x","human_in_the_loop":false,"llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},"outputs":[{"title":"m","type":"integer","minimum":3,"maximum":5}]}}}}`
	p := harness.TestRun{Document: doc, Script: `rules:
- {turn: 1, call: [{tool: submit_result, arguments: {m: 9}}]}
- {turn: 2, contains: "9 is greater than the maximum of 5", call: [{tool: submit_result, arguments: {m: "4"}}]}`}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != `{"m":4}` {
		t.Errorf("outputs = %s, %v", p.Result.ResultData, p.Err)
	}
}
