package activities

import (
	"encoding/json"

	"weft/workflows/plan"
)

// Schemas that several tools share, and a part of one.
const (
	sessionMode = `"mode":{"type":"string","enum":["sync","async_poll","async_callback"],"default":"sync"}`
	noArguments = `{"type":"object","properties":{}}`
	stored      = `{"type":"object","properties":{"key":{"type":"string"},"value":{"description":"any JSON value"}},"required":["key","value"]}`
	sessionOnly = `{"type":"object","properties":{"session_id":{"type":"string"}},"required":["session_id"]}`
)

// builtins describe the interpreter's own tools to a model. Package workflows runs them.
var builtins = map[string]struct {
	description string
	schema      string
}{
	plan.BuiltinGetState: {
		"Read values that earlier steps stored. Unknown keys are null.",
		`{"type":"object","properties":{"keys":{"type":"array","items":{"type":"string"},"description":"the keys to read"}},"required":["keys"]}`,
	},
	plan.BuiltinSetState:         {"Store a value under a key for later steps.", stored},
	plan.BuiltinSetStateFiltered: {"Store a large value under a key; it is condensed to what this step's task needs.", stored},
	plan.BuiltinListStateKeys:    {"List the keys that have values.", noArguments},
	plan.BuiltinGetChatHistory:   {"Read the conversation that came before this run.", noArguments},
	plan.BuiltinCallSubAgent: {
		"Run another agent, which you define, on a question, and get its final answer.",
		`{"type":"object","properties":{"user_question":{"type":"string"},"agent_def":{"type":"object","description":"a whole agent definition: name, nodes, edges"}},"required":["user_question","agent_def"]}`,
	},
	plan.BuiltinReadResource: {
		"Read a resource that the result of an earlier tool call links to.",
		`{"type":"object","properties":{"uri":{"type":"string","description":"the URI of the link, as the result has it"}},"required":["uri"]}`,
	},
	plan.SessionAgents: {"List the agents that can be started, with the schemas of their parameters.", noArguments},
	plan.SessionList:   {"List the sessions that you have started, with their status.", noArguments},
	plan.SessionStart: {
		"Start a session of an agent. In mode sync you get its result; in mode async_poll you ask for it later; in mode async_callback " +
			"end your turn, and the result comes to you as your next message.",
		`{"type":"object","properties":{"parameters":{"type":"object","description":"what the agent is given, by its parameters_schema; {\"prompt\": ...} without one"},` +
			`"agent_name":{"type":"string"},"project_dir":{"type":"string"},` + sessionMode + `},"required":["parameters"]}`,
	},
	plan.SessionResume: {
		"Give a session its next prompt, in the same conversation.",
		`{"type":"object","properties":{"session_id":{"type":"string"},"parameters":{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]},` +
			sessionMode + `},"required":["session_id","parameters"]}`,
	},
	plan.SessionStatus:  {"Ask how a session stands: running, finished, failed, stopped or not_existent.", sessionOnly},
	plan.SessionResult:  {"Get the result of a session that is finished.", sessionOnly},
	plan.SessionDestroy: {"End and forget all sessions that you have started.", noArguments},
}

// subAgentText starts the description of a sub-agent's tool.
const subAgentText = "Ask another agent and get its final answer. "

var subAgentSchema = json.RawMessage(`{"type":"object","properties":{"user_question":{"type":"string","description":"the whole question; the agent sees nothing else"}},"required":["user_question"]}`)
