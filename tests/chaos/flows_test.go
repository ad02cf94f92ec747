package chaos

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// chaosFlow is a sample flow with its models. Their answers depend only on the messages that
// they receive, so that the result of a run shows whether those were correct.
type chaosFlow struct {
	name, doc, input string
	// plan is the flow if no document can express it; its input is the parameter prompt.
	plan *plan.Flow
	// maxEvents, if set, makes the run continue as new at every opportunity.
	maxEvents int
	// models has the model by the mark in a node's prompt; "judge" evaluates conditions.
	models map[string]func(conversation) modelReply
	// answer returns the user's answer to a request. It is sent repeatedly, by signal and by
	// Update, and also after the request was answered.
	answer func(contract.Request) any
	// prompts are sent to a session after its input, each of them repeatedly. callbacks is the number of additional turns.
	prompts   []string
	callbacks int
	// long flows run only if CHAOS is set.
	long bool
	// unknown is the result after a call that must not be repeated was interrupted.
	unknown string
	// check, if set, lists what is wrong with a run, instead of a comparison with the baseline run.
	check func(p *flowRun) []string
}

// conversation is the conversation that a model receives.
type conversation struct {
	// turn is 1 for the first call of a node's execution.
	turn int
	// users and replies are the contents of user and tool messages.
	users, replies []string
	// last is the content of the last message.
	last string
}

// modelReply is a model's response: text or tool calls.
type modelReply struct {
	text  string
	calls []toolCall
}

// toolCall is one tool call; arguments are JSON.
type toolCall struct{ tool, arguments string }

func text(format string, args ...any) modelReply {
	return modelReply{text: fmt.Sprintf(format, args...)}
}

func calls(c ...toolCall) modelReply { return modelReply{calls: c} }

// digest answers with all messages, so that the result depends on their order and wording.
func digest(t conversation) modelReply {
	return text("%d messages, seen: %s", len(t.users)+len(t.replies), strings.Join(append(t.users, t.replies...), " | "))
}

// writeState sets the state key k to its own name and then reports that.
func writeState(name string) func(conversation) modelReply {
	return func(t conversation) modelReply {
		if t.turn == 1 {
			return calls(toolCall{"set_state", `{"key":"k","value":"` + name + `"}`}, toolCall{"list_state_keys", "{}"})
		}
		return text("%s wrote, replies %v", name, t.replies)
	}
}

// readState gets the state key k and then answers with all messages.
func readState(t conversation) modelReply {
	if t.turn == 1 {
		return calls(toolCall{"get_state", `{"keys":["k"]}`})
	}
	return digest(t)
}

const (
	plainAnswer = `"generation_prompt":"","response_format":{"type":1},"execution_plan":""`
	oneExit     = `"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"END"}]`
)

// forkFlow has a branch of one node, a branch of two nodes, and a deferred join.
const forkFlow = `{"name":"chaos fork",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]"},{"id":"b","name":"B","prompt":"[b]"},{"id":"c","name":"C","prompt":"[c]"},
{"id":"j","name":"J","prompt":"[j]","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},{"id":"e3","source":"b","target":"c"},
{"id":"e4","source":"a","target":"j"},{"id":"e5","source":"c","target":"j"},{"id":"e6","source":"j","target":"END"}]}`

var forkModels = map[string]func(conversation) modelReply{"[a]": writeState("a"), "[b]": writeState("b"), "[c]": digest, "[j]": readState}

var chaosFlows = []chaosFlow{
	{name: "fork, deferred join", doc: forkFlow, input: "go", models: forkModels},
	{
		name: "fork, continued as new", doc: forkFlow, input: "go on", maxEvents: 1, models: forkModels,
	},
	{
		name: "plain join", input: "go",
		doc: `{"name":"chaos join",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]"},{"id":"b","name":"B","prompt":"[b]"},{"id":"j","name":"J","prompt":"[j]","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"b","target":"j"},{"id":"e5","source":"j","target":"END"}]}`,
		models: map[string]func(conversation) modelReply{"[a]": writeState("a"), "[b]": digest, "[j]": readState},
	},
	{
		name: "judged loop", input: "go round",
		doc: `{"name":"chaos loop",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]"},{"id":"x","name":"X","prompt":"[x]","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"again","source":"a","target":"a","condition_prompt":"again?"},
{"id":"out","source":"a","target":"x","condition_prompt":"done?"},{"id":"e4","source":"x","target":"END"}]}`,
		models: map[string]func(conversation) modelReply{
			"[a]": func(t conversation) modelReply { return text("lap %d", lap(t.last)+1) },
			"[x]": digest,
			"judge": func(t conversation) modelReply {
				if strings.Contains(t.last, "again?") == (lap(t.last) < 3) {
					return text(`{"answer":"yes","reason":"lap %d"}`, lap(t.last))
				}
				return text(`{"answer":"no"}`)
			},
		},
	},
	{
		name: "agent with MCP tools", input: "find all",
		doc: `{"name":"chaos tools",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"search","data_connection_id":"web"}]}],` + oneExit + `}`,
		models: map[string]func(conversation) modelReply{"[a]": func(t conversation) modelReply {
			switch t.turn {
			case 1:
				return calls(toolCall{"search", `{"n":1}`}, toolCall{"search", `{"n":2}`})
			case 2:
				return calls(toolCall{"list_state_keys", "{}"}, toolCall{"search", `{"n":3}`})
			}
			return digest(t)
		}},
	},
	{
		name: "sub-agents", input: "ask",
		doc: `{"data_connections":[{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}}],
"agents":[{"id":"main","name":"Main",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]}],` + oneExit + `},
{"id":"sub","name":"Sub",` + plainAnswer + `,"nodes":[
{"id":"a","name":"S","prompt":"[s]","is_exit_node":true,"tools":[{"name":"search","data_connection_id":"web"}]}],` + oneExit + `}]}`,
		models: map[string]func(conversation) modelReply{
			"[a]": func(t conversation) modelReply {
				if t.turn == 1 {
					return calls(toolCall{"call_sub_agent", `{"user_question":"one"}`}, toolCall{"call_sub_agent", `{"user_question":"two"}`})
				}
				return digest(t)
			},
			"[s]": func(t conversation) modelReply {
				if t.turn == 1 {
					return calls(toolCall{"search", `{"n":7}`})
				}
				return digest(t)
			},
		},
	},
	{
		name: "JSON with a repair", input: "count",
		doc: `{"name":"chaos output","generation_prompt":"","execution_plan":"",
"response_format":{"type":2,"payload":{"format":"JSON","output_schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}},
"nodes":[{"id":"a","name":"A","prompt":"[a]","is_exit_node":true}],` + oneExit + `}`,
		models: map[string]func(conversation) modelReply{"[a]": func(t conversation) modelReply {
			if t.turn == 1 {
				return text(`{"n":"many"}`)
			}
			return text(`{"n":%d}`, len(t.users))
		}},
	},
	{
		name: "tool that must not be repeated", input: "write to them",
		doc: `{"name":"chaos mail",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"send","data_connection_id":"mail"}]}],` + oneExit + `}`,
		models: map[string]func(conversation) modelReply{"[a]": func(t conversation) modelReply {
			switch {
			case t.turn == 1:
				return calls(toolCall{"send", `{"n":1}`})
			case strings.HasPrefix(t.last, "outcome unknown: "):
				return text("perhaps it was sent")
			}
			return text("sent: %s", t.last)
		}},
		unknown: "perhaps it was sent",
	},
	{
		name: "a call that becomes a task", input: "print it",
		doc: `{"name":"chaos task",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"search","data_connection_id":"jobs"}]}],` + oneExit + `}`,
		models: map[string]func(conversation) modelReply{"[a]": func(t conversation) modelReply {
			switch {
			case t.turn == 1:
				return calls(toolCall{"search", `{"n":1}`})
			case strings.HasPrefix(t.last, "outcome unknown: "):
				return text("perhaps it was printed")
			}
			return text("it was %s", t.last)
		}},
		unknown: "perhaps it was printed",
	},
	{name: "a server with a session", doc: cartFlow, input: "ship", models: map[string]func(conversation) modelReply{"[a]": cartModel}, check: checkShipments},
	{name: "a server with a session, continued as new", doc: cartFlow, input: "ship on", maxEvents: 1, models: map[string]func(conversation) modelReply{"[a]": cartModel}, check: checkShipments, long: true},
	{name: "tools that must not be repeated, in a branch and a sub-agent", doc: mailFlow, input: "write to all", models: mailModels, unknown: "perhaps", long: true},
	{name: "confirmations", doc: paymentFlow, input: "pay", models: paymentModels, answer: paymentAnswer},
	{name: "confirmations, continued as new", doc: paymentFlow, input: "pay on", maxEvents: 1, models: paymentModels, answer: paymentAnswer},
	{name: "a session", doc: sessionFlow, input: "hello", prompts: []string{"look it up", "pay it"}, models: sessionModels, answer: paymentAnswer, long: true},
	{name: "a session, continued as new", doc: sessionFlow, input: "hello", prompts: []string{"look it up", "pay it"}, maxEvents: 1, models: sessionModels, answer: paymentAnswer},
	{name: "nested sessions", plan: nestedSessions(), input: "hello you", prompts: []string{"pay it", "pay later"}, callbacks: 1, models: nestedModels, answer: paymentAnswer},
	{name: "nested sessions, continued as new", plan: nestedSessions(), input: "hello", prompts: []string{"pay later"}, callbacks: 1, maxEvents: 1, models: nestedModels, answer: paymentAnswer, long: true},
	{name: "a map of agents with confirmations", doc: harness.AgentspecPayroll, models: payrollModels, answer: paymentAnswer, long: true},
	{name: "a map of agents with confirmations, continued as new", doc: harness.AgentspecPayroll, maxEvents: 1, models: payrollModels, answer: paymentAnswer},
}

// sessionFlow is a single agent, which can run as a session.
const sessionFlow = `{"name":"chaos session",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"search","data_connection_id":"web"},{"name":"pay","data_connection_id":"web"}]}],` + oneExit + `}`

var sessionModels = map[string]func(conversation) modelReply{"[a]": func(t conversation) modelReply {
	switch {
	case strings.Contains(t.last, "look it up"):
		return calls(toolCall{"search", `{"n":5}`})
	case strings.Contains(t.last, "pay it"):
		return calls(toolCall{"pay", `{"n":1}`}, toolCall{"pay", `{"n":3}`})
	}
	return digest(t)
}}

var payrollModels = map[string]func(conversation) modelReply{"[payer]": func(t conversation) modelReply {
	if t.turn == 1 {
		n := map[string]int{"Ann": 1, "Bob": 2}[t.last]
		return calls(toolCall{"pay", fmt.Sprintf(`{"n":%d}`, n)})
	}
	word, _ := json.Marshal(digest(t).text)
	return calls(toolCall{"submit_result", `{"word":` + string(word) + `}`})
}}

// mailFlow is a fork: in one branch an agent sends a mail, in the other branch a sub-agent does.
const mailFlow = `{"data_connections":[{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}}],
"agents":[{"id":"main","name":"Main",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","tools":[{"name":"send","data_connection_id":"mail"}]},
{"id":"b","name":"B","prompt":"[b]","tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]},
{"id":"j","name":"J","prompt":"[j]","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"b","target":"j"},{"id":"e5","source":"j","target":"END"}]},
{"id":"sub","name":"Sub",` + plainAnswer + `,"nodes":[
{"id":"a","name":"S","prompt":"[s]","is_exit_node":true,"tools":[{"name":"send","data_connection_id":"mail"}]}],` + oneExit + `}]}`

// sendMail sends a mail once and reports whether the outcome is known.
func sendMail(t conversation) modelReply {
	if t.turn == 1 {
		return calls(toolCall{"send", `{"n":1}`})
	}
	return text("%s", outcome(t.last))
}

// outcome returns "perhaps" if a tool result says that the outcome is unknown.
func outcome(result string) string {
	if strings.Contains(result, "outcome unknown: ") || strings.Contains(result, "perhaps") {
		return "perhaps"
	}
	return "sent"
}

var mailModels = map[string]func(conversation) modelReply{
	"[a]": sendMail,
	"[s]": sendMail,
	"[b]": func(t conversation) modelReply {
		if t.turn == 1 {
			return calls(toolCall{"call_sub_agent", `{"user_question":"write"}`})
		}
		return text("%s", outcome(t.last))
	},
	"[j]": func(t conversation) modelReply { return text("%s", outcome(strings.Join(t.users, " "))) },
}

// paymentFlow is a fork: in one branch an agent pays twice, in the other branch a sub-agent pays
// once. Every payment requires confirmation.
const paymentFlow = `{"data_connections":[{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}}],
"agents":[{"id":"main","name":"Main",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","tools":[{"name":"pay","data_connection_id":"web"}]},
{"id":"b","name":"B","prompt":"[b]","tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]},
{"id":"j","name":"J","prompt":"[j]","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"b","target":"j"},{"id":"e5","source":"j","target":"END"}]},
{"id":"sub","name":"Sub",` + plainAnswer + `,"nodes":[
{"id":"a","name":"S","prompt":"[s]","is_exit_node":true,"tools":[{"name":"pay","data_connection_id":"web"}]}],` + oneExit + `}]}`

var paymentModels = map[string]func(conversation) modelReply{
	"[a]": func(t conversation) modelReply {
		if t.turn == 1 {
			return calls(toolCall{"pay", `{"n":1}`}, toolCall{"set_state", `{"key":"k","value":1}`}, toolCall{"pay", `{"n":2}`})
		}
		return digest(t)
	},
	"[b]": func(t conversation) modelReply {
		if t.turn == 1 {
			return calls(toolCall{"call_sub_agent", `{"user_question":"how much?"}`})
		}
		return digest(t)
	},
	"[s]": func(t conversation) modelReply {
		if t.turn == 1 {
			return calls(toolCall{"pay", `{"n":3}`})
		}
		return digest(t)
	},
	"[j]": readState,
}

// paymentAnswer approves the first payment, rejects the second and changes the third.
func paymentAnswer(q contract.Request) any {
	switch string(q.Arguments) {
	case `{"n":1}`:
		return map[string]any{"id": q.ID, "approve": true, "by": "kim"}
	case `{"n":2}`:
		return map[string]any{"id": q.ID, "approve": false, "reason": "too much"}
	}
	return map[string]any{"id": q.ID, "approve": true, "arguments": map[string]any{"n": 30}}
}

var laps = regexp.MustCompile(`lap (\d+)`)

// lap returns the last lap that a text mentions.
func lap(s string) int {
	found := laps.FindAllStringSubmatch(s, -1)
	if len(found) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(found[len(found)-1][1])
	return n
}
