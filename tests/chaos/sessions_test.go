package chaos

import (
	"encoding/json"
	"fmt"
	"strings"

	"weft/tests/harness"
	"weft/workflows/plan"
)

// nestedSessions is a boss that starts a lead, which starts one or two helpers, all of them sessions. Helpers have the tools search
// and pay, which requires confirmation.
func nestedSessions() *plan.Flow {
	flow := func(name string, starts ...plan.Startable) *plan.Flow {
		f := harness.AgentFlow(name, starts...)
		f.Nodes[0].Agent.System = "[" + name + "]"
		f.Nodes[0].Agent.CallbackWhenSettled = true
		return f
	}
	helper := plan.Startable{Agent: "helper", Type: "autonomous"}
	helperFlow := flow("helper")
	for _, tool := range []string{"search", "pay"} {
		helperFlow.Nodes[0].Agent.Tools = append(helperFlow.Nodes[0].Agent.Tools, plan.Tool{Name: tool, As: tool, Connection: "web"})
	}
	f := flow("boss", plan.Startable{Agent: "lead", Type: "autonomous"})
	f.Agents = []plan.Flow{*flow("lead", helper), *helperFlow}
	return f
}

// nestedModels has the models of nestedSessions: boss and lead forward their prompts and answer with what they received.
var nestedModels = map[string]func(conversation) modelReply{
	"[boss]": func(t conversation) modelReply {
		switch t.last {
		case "hello":
			return calls(startCall("lead", "look"))
		case "hello you":
			return calls(startCall("lead", "look twice"))
		case "pay it":
			return calls(resumeCall(t, 0, "sync", "pay"))
		case "pay later":
			return calls(resumeCall(t, 0, "async_callback", "pay later"))
		}
		return summary(t)
	},
	"[lead]": func(t conversation) modelReply {
		switch t.last {
		case "look":
			return calls(startCall("helper", "find it"))
		case "look twice":
			return calls(startCall("helper", "find it"), startCall("helper", "find it"))
		case "pay":
			return calls(resumeCall(t, 1, "sync", "pay 1"), resumeCall(t, 0, "sync", "pay 2"))
		case "pay later":
			return calls(resumeCall(t, 0, "async_callback", "pay 3"))
		}
		return summary(t)
	},
	"[helper]": func(t conversation) modelReply {
		n, pays := strings.CutPrefix(t.last, "pay ")
		switch {
		case t.last == "find it":
			return calls(toolCall{"search", `{"n":5}`})
		case pays:
			return calls(toolCall{"pay", `{"n":` + n + `}`})
		}
		return summary(t)
	},
}

// startCall returns a call that starts a session and waits for its turn.
func startCall(agent, prompt string) toolCall {
	return toolCall{plan.SessionStart, fmt.Sprintf(`{"agent_name":%q,"parameters":{"prompt":%q}}`, agent, prompt)}
}

// resumeCall returns a call that sends a prompt to the n-th session in the tool results.
func resumeCall(t conversation, n int, mode, prompt string) toolCall {
	var known []string
	for _, r := range t.replies {
		var started struct {
			Session string `json:"session_id"`
		}
		if json.Unmarshal([]byte(r), &started) == nil {
			known = append(known, started.Session)
		}
	}
	id := "unknown"
	if n < len(known) {
		id = known[n]
	}
	return toolCall{plan.SessionResume, fmt.Sprintf(`{"session_id":%q,"mode":%q,"parameters":{"prompt":%q}}`, id, mode, prompt)}
}

// summary is [digest] for conversations that contain digests.
func summary(t conversation) modelReply {
	return text("%d messages, seen: %s, the last: %s", len(t.users)+len(t.replies), hash([]byte(strings.Join(append(t.users, t.replies...), " | "))), t.last)
}
