package activities

import (
	"encoding/json"

	"weft/workflows/plan"
)

// builtins describe the interpreter's own tools to a model. Package workflows runs them.
var builtins = map[string]struct {
	description string
	schema      json.RawMessage
}{
	plan.BuiltinGetState: {
		"Read values that earlier steps stored. Unknown keys are null.",
		json.RawMessage(`{"type":"object","properties":{"keys":{"type":"array","items":{"type":"string"},"description":"the keys to read"}},"required":["keys"]}`),
	},
	plan.BuiltinSetState: {
		"Store a value under a key for later steps.",
		json.RawMessage(`{"type":"object","properties":{"key":{"type":"string"},"value":{"description":"any JSON value"}},"required":["key","value"]}`),
	},
	plan.BuiltinSetStateFiltered: {
		"Store a large value under a key; it is condensed to what this step's task needs.",
		json.RawMessage(`{"type":"object","properties":{"key":{"type":"string"},"value":{"description":"any JSON value"}},"required":["key","value"]}`),
	},
	plan.BuiltinListStateKeys: {
		"List the keys that have values.",
		json.RawMessage(`{"type":"object","properties":{}}`),
	},
	plan.BuiltinGetChatHistory: {
		"Read the conversation that came before this run.",
		json.RawMessage(`{"type":"object","properties":{}}`),
	},
	plan.BuiltinCallSubAgent: {
		"Run another agent, which you define, on a question, and get its final answer.",
		json.RawMessage(`{"type":"object","properties":{"user_question":{"type":"string"},"agent_def":{"type":"object","description":"a whole agent definition: name, nodes, edges"}},"required":["user_question","agent_def"]}`),
	},
}

// What a model sees of a sub-agent that the flow binds.
const subAgentText = "Ask another agent and get its final answer. "

var subAgentSchema = json.RawMessage(`{"type":"object","properties":{"user_question":{"type":"string","description":"the whole question; the agent sees nothing else"}},"required":["user_question"]}`)
