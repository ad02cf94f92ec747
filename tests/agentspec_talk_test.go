package tests

import (
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
)

// agentspecTalk is one conversation of agents in a flow, in a subflow in its place and in runs
// below it.
const agentspecTalk = `{"component_type":"Flow","agentspec_version":"25.4.2","name":"talk","start_node":{"$component_ref":"start"},
"nodes":[{"$component_ref":"start"},{"$component_ref":"greet"},{"$component_ref":"each"},{"$component_ref":"last"},{"$component_ref":"end"}],
"control_flow_connections":[
{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"start"},"to_node":{"$component_ref":"greet"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"greet"},"to_node":{"$component_ref":"each"}},
{"component_type":"ControlFlowEdge","name":"3","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"last"}},
{"component_type":"ControlFlowEdge","name":"4","from_node":{"$component_ref":"last"},"to_node":{"$component_ref":"end"}}],
"data_flow_connections":[
{"component_type":"DataFlowEdge","name":"1","source_node":{"$component_ref":"start"},"source_output":"names","destination_node":{"$component_ref":"each"},"destination_input":"iterated_name"},
{"component_type":"DataFlowEdge","name":"2","source_node":{"$component_ref":"each"},"source_output":"collected_word","destination_node":{"$component_ref":"end"},"destination_input":"words"},
{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"last"},"source_output":"word","destination_node":{"$component_ref":"end"},"destination_input":"word"}],
"$referenced_components":{
"model":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"start":{"component_type":"StartNode","name":"start","inputs":[{"title":"names","type":"array","items":{"type":"string"},"default":["Ann","Bob"]}]},
"greet":{"component_type":"OutputMessageNode","name":"greet","message":"Good morning."},
"each":{"component_type":"MapNode","name":"each","subflow":{"$component_ref":"one"}},
"one":{"component_type":"Flow","name":"one","start_node":{"$component_ref":"o1"},"nodes":[{"$component_ref":"o1"},{"$component_ref":"o2"},{"$component_ref":"o3"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"o1","from_node":{"$component_ref":"o1"},"to_node":{"$component_ref":"o2"}},{"component_type":"ControlFlowEdge","name":"o2","from_node":{"$component_ref":"o2"},"to_node":{"$component_ref":"o3"}}]},
"o1":{"component_type":"StartNode","name":"o1","inputs":[{"title":"name","type":"string"}]},
"o2":{"component_type":"AgentNode","name":"asked","agent":{"component_type":"Agent","name":"a","llm_config":{"$component_ref":"model"},"system_prompt":"You are {{name}}.","inputs":[{"title":"name","type":"string"}],"outputs":[{"title":"word","type":"string"}],"human_in_the_loop":false}},
"o3":{"component_type":"EndNode","name":"o3","outputs":[{"title":"word","type":"string"}]},
"last":{"component_type":"AgentNode","name":"last","agent":{"component_type":"Agent","name":"b","llm_config":{"$component_ref":"model"},"system_prompt":"Close.","outputs":[{"title":"word","type":"string"}],"human_in_the_loop":false}},
"end":{"component_type":"EndNode","name":"end","outputs":[{"title":"words","type":"array","items":{"type":"string"}},{"title":"word","type":"string"}]}}}`

// An agent's turn counts the assistant's messages of the whole conversation.
const agentspecTalkScript = `rules:
- {turn: 2, match: ^Ann$, call: [{tool: submit_result, arguments: {word: "yes, Ann"}}]}
- {turn: 3, match: ^Bob$, say: let me think}
- {turn: 4, match: calling submit_result, call: [{tool: submit_result, arguments: {word: "no, Bob"}}]}
- {turn: 5, match: ^Begin, call: [{tool: submit_result, arguments: {word: bye}}]}`

func TestAgentSpecTalk(t *testing.T) {
	p := rehearsal{doc: agentspecTalk, script: agentspecTalkScript}.play(t)
	if p.err != nil {
		t.Fatal(p.err)
	}
	if want := `{"words":["yes, Ann","no, Bob"],"word":"bye"}`; string(p.result.ResultData) != want {
		t.Errorf("outputs %s, want %s", p.result.ResultData, want)
	}
	var page contract.TranscriptPage
	query(t, p.env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: "conversation"})
	var said []string
	for _, raw := range page.Messages {
		m, err := contract.DecodeMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, fmt.Sprintf("%s %.10s%d", m.Role, m.Text, len(m.Calls)))
	}
	want := "assistant Good morni0, user 0, assistant 1, tool {\"word\":\"y0, user 0, assistant let me thi0, user Nobody is 0, assistant 1, tool {\"word\":\"n0, user 0, assistant 1, tool {\"word\":\"b0"
	if got := strings.Join(said, ", "); got != want {
		t.Errorf("said was\n%s, want\n%s", got, want)
	}
}

// People are asked in a run that continues as new whenever it can: each question once.
func TestEndToEndAgentSpecAsks(t *testing.T) {
	h := newHand(t, 0)
	for _, events := range []int{0, 1} {
		run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: read(t, "examples/agentspec/guess.yaml"), Name: "guess.yaml"}, MaxEvents: events})
		for _, step := range []struct{ asked, answer string }{
			{"What is the capital of Norway? You said nothing.", "Bergen"}, {"What is the capital of Norway? You said Bergen.", "Oslo"},
		} {
			var text string
			waitFor(t, "the question "+step.asked, func() bool {
				text = h.open(t, run.GetID(), 1)[0].Text
				return text == step.asked
			})
			if _, err := h.update(t, run.GetID(), contract.RequestMessage, contract.MessageAnswer{Text: step.answer}); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := resultOf(t, run); err != nil || string(out.ResultData) != `{"answer":"Oslo"}` {
			t.Errorf("with %d events: %+v, %v", events, out, err)
		}
		const agent = `{"component_type":"Agent","agentspec_version":"25.4.1","name":"clerk","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"system_prompt":"Be {{how}}.","inputs":[{"title":"how","type":"string","default":"kind"}],"outputs":[{"title":"name","type":"string"}]}`
		run = h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: agent, Name: "clerk.json"}, MaxEvents: events, Script: script(t, `rules:
- {turn: 1, match: ^Hello$, say: "Your name?"}
- {turn: 2, match: ^Ann$, call: [{tool: submit_result, arguments: {name: Ann}}]}`)})
		for _, step := range []struct{ asked, answer string }{{"clerk waits for a message", "Hello"}, {"Your name?", "Ann"}} {
			waitFor(t, "the question "+step.asked, func() bool { return h.open(t, run.GetID(), 1)[0].Text == step.asked })
			if _, err := h.update(t, run.GetID(), contract.RequestMessage, contract.MessageAnswer{Text: step.answer}); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := resultOf(t, run); err != nil || string(out.ResultData) != `{"name":"Ann"}` {
			t.Errorf("with %d events: %+v, %v", events, out, err)
		}
	}
}
