package chaos

import (
	"encoding/json"
	"fmt"
	"strings"

	"weft/tests/harness"
	"weft/workflows/plan"
)

// offices is a boss who keeps a lead, who keeps one helper or two, all of them sessions. Helpers search, and pay,
// which needs a yes.
func offices() *plan.Flow {
	flow := func(name string, starts ...plan.Startable) *plan.Flow {
		f := harness.AgentFlow(name, starts...)
		f.Nodes[0].Agent.System = "[" + name + "]"
		f.Nodes[0].Agent.CallbackWhenSettled = true
		return f
	}
	helper := plan.Startable{Agent: "helper", Type: "autonomous"}
	helping := flow("helper")
	for _, tool := range []string{"search", "pay"} {
		helping.Nodes[0].Agent.Tools = append(helping.Nodes[0].Agent.Tools, plan.Tool{Name: tool, As: tool, Connection: "web"})
	}
	f := flow("boss", plan.Startable{Agent: "lead", Type: "autonomous"})
	f.Agents = []plan.Flow{*flow("lead", helper), *helping}
	return f
}

// officeSays has the boss and the lead pass on what they are asked, and say what they were shown.
var officeSays = map[string]func(talk) says{
	"[boss]": func(t talk) says {
		switch t.last {
		case "hello":
			return calls(starts("lead", "look"))
		case "hello you":
			return calls(starts("lead", "look twice"))
		case "pay it":
			return calls(resumes(t, 0, "sync", "pay"))
		case "pay later":
			return calls(resumes(t, 0, "async_callback", "pay later"))
		}
		return summary(t)
	},
	"[lead]": func(t talk) says {
		switch t.last {
		case "look":
			return calls(starts("helper", "find it"))
		case "look twice":
			return calls(starts("helper", "find it"), starts("helper", "find it"))
		case "pay":
			return calls(resumes(t, 1, "sync", "pay 1"), resumes(t, 0, "sync", "pay 2"))
		case "pay later":
			return calls(resumes(t, 0, "async_callback", "pay 3"))
		}
		return summary(t)
	},
	"[helper]": func(t talk) says {
		n, pays := strings.CutPrefix(t.last, "pay ")
		switch {
		case t.last == "find it":
			return calls(asks{"search", `{"n":5}`})
		case pays:
			return calls(asks{"pay", `{"n":` + n + `}`})
		}
		return summary(t)
	},
}

// starts is a call that starts a session and waits for its turn.
func starts(agent, prompt string) asks {
	return asks{plan.SessionStart, fmt.Sprintf(`{"agent_name":%q,"parameters":{"prompt":%q}}`, agent, prompt)}
}

// resumes is a call that gives a prompt to the n-th session of which tools have told.
func resumes(t talk, n int, mode, prompt string) asks {
	var known []string
	for _, r := range t.replies {
		var said struct {
			Session string `json:"session_id"`
		}
		if json.Unmarshal([]byte(r), &said) == nil {
			known = append(known, said.Session)
		}
	}
	id := "unknown"
	if n < len(known) {
		id = known[n]
	}
	return asks{plan.SessionResume, fmt.Sprintf(`{"session_id":%q,"mode":%q,"parameters":{"prompt":%q}}`, id, mode, prompt)}
}

// summary is [digest] for talks that hold what others digested.
func summary(t talk) says {
	return text("%d messages, seen: %s, the last: %s", len(t.users)+len(t.replies), hash([]byte(strings.Join(append(t.users, t.replies...), " | "))), t.last)
}
