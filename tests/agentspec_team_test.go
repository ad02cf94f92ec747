package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
)

// agentspecWorkers is a manager whose workers have outputs, workers of their own, or fail.
const agentspecWorkers = `{"component_type":"ManagerWorkers","agentspec_version":"25.4.2","name":"team","outputs":[{"title":"answer","type":"string"}],
"group_manager":{"component_type":"Agent","name":"boss","llm_config":{"$component_ref":"m"},"system_prompt":"Find out about {{what}}.","inputs":[{"title":"what","type":"string","default":"tea"}],"human_in_the_loop":false},
"workers":[
{"component_type":"Agent","name":"counter","description":"counts","llm_config":{"$component_ref":"m"},"system_prompt":"Count {{what}}.","inputs":[{"title":"what","type":"string","default":"nothing"}],"outputs":[{"title":"n","type":"integer"},{"title":"unit","type":"string","default":"cups"}]},
{"component_type":"Swarm","name":"library","description":"reads","handoff":"always","first_agent":{"$component_ref":"porter"},"relationships":[[{"$component_ref":"porter"},{"$component_ref":"reader"}]]},
{"component_type":"Agent","name":"mute","description":"says nothing","llm_config":{"$component_ref":"m"},"system_prompt":"Be silent.","outputs":[{"title":"n","type":"integer"}]}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"porter":{"component_type":"Agent","name":"porter","description":"opens","llm_config":{"$component_ref":"m"},"system_prompt":"Open."},
"reader":{"component_type":"Agent","name":"reader","description":"reads","llm_config":{"$component_ref":"m"},"system_prompt":"Read."}}}`

const agentspecWorkersScript = `rules:
- {node: team, turn: 1, call: [{tool: send_message, arguments: {recipient: counter, message: "How many?"}}, {tool: send_message, arguments: {recipient: library, message: "What is tea?"}},
    {tool: send_message, arguments: {recipient: counter, message: "Once more?"}}, {tool: send_message, arguments: {recipient: mute, message: "And you?"}}, {tool: send_message, arguments: {recipient: nobody, message: "You?"}}, {tool: send_message, arguments: {recipient: mute}}]}
- {node: team/counter, turn: 1, match: "^How many", say: let me count}
- {node: team/counter, turn: 2, call: [{tool: submit_result, arguments: {n: "3"}}]}
- {node: team/counter, turn: 3, match: "^Once more", delay: 200ms, call: [{tool: submit_result, arguments: {n: 4, unit: pots}}]}
- {node: team/library, call: [{tool: handoff_conversation, arguments: {recipient: reader}}]}
- {node: team/reader, turn: 2, say: "A leaf."}
- {node: team/reader, turn: 3, match: "^Sure", say: "Yes."}
- {node: team/mute, say: "..."}
- {node: team, turn: 2, call: [{tool: send_message, arguments: {recipient: library, message: "Sure?"}}]}
- {node: team, turn: 3, call: [{tool: submit_result, arguments: {answer: 3 cups of a leaf}}]}`

// Workers are asked beside each other, one question at a time each, in conversations that go on.
// What is wrong with a question, or with a worker, is the manager's to know.
func TestAgentSpecWorkers(t *testing.T) {
	p := rehearsal{doc: agentspecWorkers, script: agentspecWorkersScript}.play(t)
	if p.err != nil {
		t.Fatal(p.err)
	}
	if want := `{"answer":"3 cups of a leaf"}`; string(p.result.ResultData) != want {
		t.Errorf("outputs %s, want %s", p.result.ResultData, want)
	}
	got := threadOf(t, p, "conversation")
	for _, want := range []string{
		"tool : {\"n\":3,\"unit\":\"cups\"}\ntool : A leaf.\ntool : {\"n\":4,\"unit\":\"pots\"}\ntool : the agent failed: node \"team/mute\" at step 1 (flow.json:6): the agent never submitted its result",
		"tool : there is no recipient \"nobody\"; there are: counter, library, mute\ntool : send_message wants {\"recipient\": \"name\", \"message\": \"text\"}\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the conversation was\n%s, want %q", got, want)
		}
	}
	if got, want := threadOf(t, p, "team#1:boss>library~1"), `user team>team/library: What is tea?
assistant team/library: 
tool : the conversation is handed to reader
assistant team/reader: A leaf.
user team>team/reader: Sure?
assistant team/reader: Yes.
`; got != want {
		t.Errorf("the library's conversation was\n%s, want\n%s", got, want)
	}
}

// threadOf is a conversation with the agents that spoke in it.
func threadOf(t *testing.T, p played, thread string) string {
	t.Helper()
	var page contract.TranscriptPage
	query(t, p.env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: thread})
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

// agentspecSwarm is a flow with a swarm whose agents ask each other and hand over.
const agentspecSwarm = `{"component_type":"Flow","agentspec_version":"26.1.0","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"team"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"team"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"team"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"s":{"component_type":"StartNode","name":"s","inputs":[{"title":"topic","type":"string","default":"tea"}]},
"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"word","type":"string"}]},
"team":{"component_type":"AgentNode","name":"team","agent":{"component_type":"Swarm","name":"swarm","handoff":"optional","outputs":[{"title":"word","type":"string"}],
"first_agent":{"$component_ref":"a"},"relationships":[[{"$component_ref":"a"},{"$component_ref":"b"}],[{"$component_ref":"b"},{"$component_ref":"a"}],[{"$component_ref":"b"},{"$component_ref":"c"}],[{"$component_ref":"c"},{"$component_ref":"b"}]]}},
"a":{"component_type":"Agent","name":"a","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"You are a, for {{topic}}.","human_in_the_loop":false},
"b":{"component_type":"Agent","name":"b","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"You are b.","human_in_the_loop":false},
"c":{"component_type":"Agent","name":"c","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"You are c.","human_in_the_loop":false}}}`

const agentspecSwarmScript = `rules:
- {node: team, turn: 1, say: I would rather talk}
- {node: team, turn: 2, call: [{tool: send_message, arguments: {recipient: b, message: hello b}}, {tool: send_message, arguments: {recipient: c, message: hello c}}]}
- {node: team/b/asked, match: ^who asks, say: b asks}
- {node: team/b/asked, turn: 1, call: [{tool: send_message, arguments: {recipient: c, message: who is c}}, {tool: handoff_conversation, arguments: {recipient: c}}]}
- {node: team/c/asked, turn: 1, call: [{tool: send_message, arguments: {recipient: b, message: who asks}}]}
- {node: team/c/asked, turn: 2, say: I am c}
- {node: team/b/asked, turn: 2, say: that is c}
- {node: team, turn: 3, call: [{tool: handoff_conversation, arguments: {recipient: b}}]}
- {node: team/b, turn: 4, call: [{tool: send_message, arguments: {recipient: c, message: once more}}, {tool: handoff_conversation, arguments: {recipient: c}}]}
- {node: team/c/asked, turn: 3, say: still c}
- {node: team/c, turn: 5, call: [{tool: submit_result, arguments: {word: done}}]}`

// Agents of a swarm ask those that they may, each pair in a conversation of its own whatever else
// the asking agent does, and only who has the node's conversation hands it over.
func TestAgentSpecSwarm(t *testing.T) {
	p := rehearsal{doc: agentspecSwarm, script: agentspecSwarmScript}.play(t)
	if p.err != nil {
		t.Fatal(p.err)
	}
	if want := `{"word":"done"}`; string(p.result.ResultData) != want {
		t.Errorf("outputs %s, want %s", p.result.ResultData, want)
	}
	got := threadOf(t, p, "conversation")
	for _, want := range []string{"tool : that is c\n", `tool : there is no recipient "c"; there are: b`, "assistant team/b: \ntool : still c\ntool : the conversation is handed to c\nassistant team/c: \n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the conversation was\n%s, want %q", got, want)
		}
	}
	if got, want := threadOf(t, p, "team#2:b>c~1"), `user team/b/asked>team/c/asked: who is c
assistant team/c/asked: 
tool : b asks
assistant team/c/asked: I am c
user team/b>team/c/asked: once more
assistant team/c/asked: still c
`; got != want {
		t.Errorf("b's conversation with c was\n%s, want\n%s", got, want)
	}
	if got := threadOf(t, p, "team#2:a>b~1"); !strings.Contains(got, `tool : there is no tool "handoff_conversation"; there are: send_message`) {
		t.Errorf("a's conversation with b was\n%s", got)
	}
}

// A worker's client tool waits for a yes and then for a client, in a run that continues as new
// whenever it can; the other worker's answer is not lost meanwhile.
func TestEndToEndAgentSpecTeamAsks(t *testing.T) {
	const doc = `{"component_type":"ManagerWorkers","agentspec_version":"25.4.2","name":"team","outputs":[{"title":"answer","type":"string"}],
"group_manager":{"component_type":"Agent","name":"boss","llm_config":{"$component_ref":"m"},"system_prompt":"Ask."},
"workers":[
{"component_type":"Agent","name":"stock","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x","tools":[{"component_type":"ClientTool","name":"count","requires_confirmation":true,"description":"counts","inputs":[{"title":"what","type":"string"}],"outputs":[{"title":"n","type":"integer"}]}]},
{"component_type":"Agent","name":"poet","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x"}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"}}}`
	h := newHand(t, 0)
	for _, events := range []int{0, 1} {
		run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "team.json"}, MaxEvents: events, Script: script(t, `rules:
- {node: team, match: ^Hello, call: [{tool: send_message, arguments: {recipient: stock, message: how many}}, {tool: send_message, arguments: {recipient: poet, message: a verse}}]}
- {node: team/stock, match: ^how many, call: [{tool: count, arguments: {what: cups}}]}
- {node: team/stock, say: we have 7}
- {node: team/poet, say: a rhyme}
- {node: team, match: a rhyme, say: "Is it enough?"}
- {node: team, match: ^Yes, call: [{tool: submit_result, arguments: {answer: "7"}}]}`)})
		for _, step := range []struct {
			asked, kind string
			answer      any
		}{
			{"team waits for a message", contract.RequestMessage, contract.MessageAnswer{Text: "Hello"}},
			{`team/stock wants to call count with {"what":"cups"}`, contract.RequestConfirm, nil},
			{`run count with {"what":"cups"}`, contract.RequestToolResult, nil},
			{"Is it enough?", contract.RequestMessage, contract.MessageAnswer{Text: "Yes"}},
		} {
			var id string
			waitFor(t, "the request "+step.asked, func() bool {
				open := h.open(t, run.GetID(), 1)[0]
				id = open.ID
				return strings.EqualFold(open.Text, step.asked)
			})
			switch yes := true; step.kind {
			case contract.RequestConfirm:
				step.answer = contract.ConfirmAnswer{ID: id, Approve: &yes}
			case contract.RequestToolResult:
				step.answer = contract.ToolResultAnswer{ID: id, Result: json.RawMessage("7")}
			}
			if _, err := h.update(t, run.GetID(), step.kind, step.answer); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := resultOf(t, run); err != nil || string(out.ResultData) != `{"answer":"7"}` {
			t.Errorf("with %d events: %+v, %v", events, out, err)
		}
	}
}

// What flows of a team answer is what whoever asked is told, in the order of the questions.
func TestAgentSpecAskedFlows(t *testing.T) {
	p := rehearsal{set: func(in *contract.RunInput) { *in = specCases["asked"].input(t, "asked") }}.play(t)
	if p.err != nil || string(p.result.ResultData) != `{"text":"done"}` {
		t.Fatalf("%v, %+v", p.err, p.result)
	}
	got := threadOf(t, p, "conversation")
	at := 0
	for _, answer := range []string{`{"n":1}`, `{"n":2}`, "Good day", "the count is 7"} {
		i := strings.Index(strings.ReplaceAll(got[at:], `\"`, `"`), answer)
		if i < 0 {
			t.Fatalf("%s is not told, behind the answers before it:\n%s", answer, got)
		}
		at += i
	}
	if strings.Contains(got, "for help") {
		t.Errorf("it hears what another agent asked:\n%s", got)
	}
}
