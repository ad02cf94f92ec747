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

// chaosFlow is a sample flow with the model that answers it. What the model says depends on
// nothing but what it is shown, so that a run's result reports whether it was shown the right
// things.
type chaosFlow struct {
	name, doc, input string
	// plan is the flow where no document says it; its input is the parameter prompt.
	plan *plan.Flow
	// maxEvents, if set, makes the run continue as new at every boundary.
	maxEvents int
	// say is the model, by the mark in a node's prompt; "judge" answers conditions.
	say map[string]func(talk) says
	// answer is what somebody says to a request; he says it again and again, by signal and by
	// Update, to requests that are long answered too.
	answer func(contract.Request) any
	// prompts are what a session is given after its input, each again and again. callbacks are the turns that
	// it has besides.
	prompts   []string
	callbacks int
	// long leaves the flow to the full form.
	long bool
	// unknown is the result where a call that must not be repeated was cut off.
	unknown string
	// agrees, if set, says what is wrong with a passage that need not go as the undisturbed one does.
	agrees func(p *passage) []string
}

// talk is what a model is shown.
type talk struct {
	// turn is 1 for the first call of a node's execution.
	turn int
	// users and replies are the contents of the user's and of the tools' messages.
	users, replies []string
	// last is the content of the last message.
	last string
}

// says is what a model says: text, or calls of tools.
type says struct {
	text  string
	calls []asks
}

// asks is one tool call; arguments are JSON.
type asks struct{ tool, arguments string }

func text(format string, args ...any) says { return says{text: fmt.Sprintf(format, args...)} }

func calls(c ...asks) says { return says{calls: c} }

// digest says what it was shown, so that the result tells the order and the wording of it.
func digest(t talk) says {
	return text("%d messages, seen: %s", len(t.users)+len(t.replies), strings.Join(append(t.users, t.replies...), " | "))
}

// writes sets the state key k to its own name and then says so.
func writes(name string) func(talk) says {
	return func(t talk) says {
		if t.turn == 1 {
			return calls(asks{"set_state", `{"key":"k","value":"` + name + `"}`}, asks{"list_state_keys", "{}"})
		}
		return text("%s wrote, replies %v", name, t.replies)
	}
}

// reads gets the state key k and says all that it was shown.
func reads(t talk) says {
	if t.turn == 1 {
		return calls(asks{"get_state", `{"keys":["k"]}`})
	}
	return digest(t)
}

const (
	plainAnswer = `"generation_prompt":"","response_format":{"type":1},"execution_plan":""`
	oneExit     = `"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"END"}]`
)

// unequal has a branch of one node and one of two, and a deferred join.
const unequal = `{"name":"chaos fork",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]"},{"id":"b","name":"B","prompt":"[b]"},{"id":"c","name":"C","prompt":"[c]"},
{"id":"j","name":"J","prompt":"[j]","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},{"id":"e3","source":"b","target":"c"},
{"id":"e4","source":"a","target":"j"},{"id":"e5","source":"c","target":"j"},{"id":"e6","source":"j","target":"END"}]}`

var forkSays = map[string]func(talk) says{"[a]": writes("a"), "[b]": writes("b"), "[c]": digest, "[j]": reads}

var chaosFlows = []chaosFlow{
	{name: "fork, deferred join", doc: unequal, input: "go", say: forkSays},
	{
		name: "fork, continued as new", doc: unequal, input: "go on", maxEvents: 1, say: forkSays,
	},
	{
		name: "plain join", input: "go",
		doc: `{"name":"chaos join",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]"},{"id":"b","name":"B","prompt":"[b]"},{"id":"j","name":"J","prompt":"[j]","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"b","target":"j"},{"id":"e5","source":"j","target":"END"}]}`,
		say: map[string]func(talk) says{"[a]": writes("a"), "[b]": digest, "[j]": reads},
	},
	{
		name: "judged loop", input: "go round",
		doc: `{"name":"chaos loop",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]"},{"id":"x","name":"X","prompt":"[x]","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"again","source":"a","target":"a","condition_prompt":"again?"},
{"id":"out","source":"a","target":"x","condition_prompt":"done?"},{"id":"e4","source":"x","target":"END"}]}`,
		say: map[string]func(talk) says{
			"[a]": func(t talk) says { return text("lap %d", lap(t.last)+1) },
			"[x]": digest,
			"judge": func(t talk) says {
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
		say: map[string]func(talk) says{"[a]": func(t talk) says {
			switch t.turn {
			case 1:
				return calls(asks{"search", `{"n":1}`}, asks{"search", `{"n":2}`})
			case 2:
				return calls(asks{"list_state_keys", "{}"}, asks{"search", `{"n":3}`})
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
		say: map[string]func(talk) says{
			"[a]": func(t talk) says {
				if t.turn == 1 {
					return calls(asks{"call_sub_agent", `{"user_question":"one"}`}, asks{"call_sub_agent", `{"user_question":"two"}`})
				}
				return digest(t)
			},
			"[s]": func(t talk) says {
				if t.turn == 1 {
					return calls(asks{"search", `{"n":7}`})
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
		say: map[string]func(talk) says{"[a]": func(t talk) says {
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
		say: map[string]func(talk) says{"[a]": func(t talk) says {
			switch {
			case t.turn == 1:
				return calls(asks{"send", `{"n":1}`})
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
		say: map[string]func(talk) says{"[a]": func(t talk) says {
			switch {
			case t.turn == 1:
				return calls(asks{"search", `{"n":1}`})
			case strings.HasPrefix(t.last, "outcome unknown: "):
				return text("perhaps it was printed")
			}
			return text("it was %s", t.last)
		}},
		unknown: "perhaps it was printed",
	},
	{name: "a server with a session", doc: shopping, input: "ship", say: map[string]func(talk) says{"[a]": shops}, agrees: shipped},
	{name: "a server with a session, continued as new", doc: shopping, input: "ship on", maxEvents: 1, say: map[string]func(talk) says{"[a]": shops}, agrees: shipped, long: true},
	{name: "tools that must not be repeated, in a branch and below", doc: mailing, input: "write to all", say: mailingSays, unknown: "perhaps", long: true},
	{name: "a person is asked", doc: paying, input: "pay", say: payingSays, answer: payingAnswer},
	{name: "a person is asked, continued as new", doc: paying, input: "pay on", maxEvents: 1, say: payingSays, answer: payingAnswer},
	{name: "a session", doc: desk, input: "hello", prompts: []string{"look it up", "pay it"}, say: deskSays, answer: payingAnswer, long: true},
	{name: "a session, continued as new", doc: desk, input: "hello", prompts: []string{"look it up", "pay it"}, maxEvents: 1, say: deskSays, answer: payingAnswer},
	{name: "sessions below sessions", plan: offices(), input: "hello you", prompts: []string{"pay it", "pay later"}, callbacks: 1, say: officeSays, answer: payingAnswer},
	{name: "sessions below, continued as new", plan: offices(), input: "hello", prompts: []string{"pay later"}, callbacks: 1, maxEvents: 1, say: officeSays, answer: payingAnswer, long: true},
	{name: "a map of agents that ask", doc: harness.AgentspecPayroll, say: payrollSays, answer: payingAnswer, long: true},
	{name: "a map of agents that ask, continued as new", doc: harness.AgentspecPayroll, maxEvents: 1, say: payrollSays, answer: payingAnswer},
}

// desk is an agent alone, which can be a session.
const desk = `{"name":"chaos session",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"search","data_connection_id":"web"},{"name":"pay","data_connection_id":"web"}]}],` + oneExit + `}`

var deskSays = map[string]func(talk) says{"[a]": func(t talk) says {
	switch {
	case strings.Contains(t.last, "look it up"):
		return calls(asks{"search", `{"n":5}`})
	case strings.Contains(t.last, "pay it"):
		return calls(asks{"pay", `{"n":1}`}, asks{"pay", `{"n":3}`})
	}
	return digest(t)
}}

var payrollSays = map[string]func(talk) says{"[payer]": func(t talk) says {
	if t.turn == 1 {
		n := map[string]int{"Ann": 1, "Bob": 2}[t.last]
		return calls(asks{"pay", fmt.Sprintf(`{"n":%d}`, n)})
	}
	word, _ := json.Marshal(digest(t).text)
	return calls(asks{"submit_result", `{"word":` + string(word) + `}`})
}}

// mailing is a fork: in one branch an agent sends a mail, in the other its sub-agent does.
const mailing = `{"data_connections":[{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}}],
"agents":[{"id":"main","name":"Main",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","tools":[{"name":"send","data_connection_id":"mail"}]},
{"id":"b","name":"B","prompt":"[b]","tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]},
{"id":"j","name":"J","prompt":"[j]","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"b","target":"j"},{"id":"e5","source":"j","target":"END"}]},
{"id":"sub","name":"Sub",` + plainAnswer + `,"nodes":[
{"id":"a","name":"S","prompt":"[s]","is_exit_node":true,"tools":[{"name":"send","data_connection_id":"mail"}]}],` + oneExit + `}]}`

// sends has an agent send a mail once, and say whether it knows that it did.
func sends(t talk) says {
	if t.turn == 1 {
		return calls(asks{"send", `{"n":1}`})
	}
	return text("%s", surely(t.last))
}

// surely passes on that an outcome is unknown.
func surely(told string) string {
	if strings.Contains(told, "outcome unknown: ") || strings.Contains(told, "perhaps") {
		return "perhaps"
	}
	return "sent"
}

var mailingSays = map[string]func(talk) says{
	"[a]": sends,
	"[s]": sends,
	"[b]": func(t talk) says {
		if t.turn == 1 {
			return calls(asks{"call_sub_agent", `{"user_question":"write"}`})
		}
		return text("%s", surely(t.last))
	},
	"[j]": func(t talk) says { return text("%s", surely(strings.Join(t.users, " "))) },
}

// paying is a fork: in one branch an agent pays twice, in the other its sub-agent does. Every
// payment needs a yes.
const paying = `{"data_connections":[{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}}],
"agents":[{"id":"main","name":"Main",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","tools":[{"name":"pay","data_connection_id":"web"}]},
{"id":"b","name":"B","prompt":"[b]","tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]},
{"id":"j","name":"J","prompt":"[j]","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"b","target":"j"},{"id":"e5","source":"j","target":"END"}]},
{"id":"sub","name":"Sub",` + plainAnswer + `,"nodes":[
{"id":"a","name":"S","prompt":"[s]","is_exit_node":true,"tools":[{"name":"pay","data_connection_id":"web"}]}],` + oneExit + `}]}`

var payingSays = map[string]func(talk) says{
	"[a]": func(t talk) says {
		if t.turn == 1 {
			return calls(asks{"pay", `{"n":1}`}, asks{"set_state", `{"key":"k","value":1}`}, asks{"pay", `{"n":2}`})
		}
		return digest(t)
	},
	"[b]": func(t talk) says {
		if t.turn == 1 {
			return calls(asks{"call_sub_agent", `{"user_question":"how much?"}`})
		}
		return digest(t)
	},
	"[s]": func(t talk) says {
		if t.turn == 1 {
			return calls(asks{"pay", `{"n":3}`})
		}
		return digest(t)
	},
	"[j]": reads,
}

// payingAnswer allows the first payment, refuses the second and changes the third.
func payingAnswer(q contract.Request) any {
	switch string(q.Arguments) {
	case `{"n":1}`:
		return map[string]any{"id": q.ID, "approve": true, "by": "kim"}
	case `{"n":2}`:
		return map[string]any{"id": q.ID, "approve": false, "reason": "too much"}
	}
	return map[string]any{"id": q.ID, "approve": true, "arguments": map[string]any{"n": 30}}
}

var laps = regexp.MustCompile(`lap (\d+)`)

// lap is the last lap that a text mentions.
func lap(s string) int {
	found := laps.FindAllStringSubmatch(s, -1)
	if len(found) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(found[len(found)-1][1])
	return n
}
