package activities

import (
	"bytes"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// offeredBy are the names of the tools that a call offers.
func offeredBy(p *contract.Profile, none bool) map[string]bool {
	out := map[string]bool{}
	if none {
		return out
	}
	for _, name := range p.Builtins {
		out[name] = true
	}
	for _, t := range p.Tools {
		out[t.As] = true
	}
	if p.Finish != nil {
		out[p.Finish.Name] = true
	}
	return out
}

// retold makes texts of calls of tools that are not offered, and of their results: a call is
// what the model said, a result what a user did. Results of offered tools stay next to their
// calls.
func retold(messages []contract.Message, offered map[string]bool) []contract.Message {
	var out, late []contract.Message
	for _, m := range messages {
		if m.Role != contract.RoleTool {
			out, late = append(out, late...), nil
		}
		switch {
		case m.Role == contract.RoleTool && !offered[m.Name]:
			late = append(late, contract.Message{Role: contract.RoleUser, Text: retell("tool_name", m.Name, "tool_result", quoted(m.Text)), Images: m.Images})
		case m.Role == contract.RoleAssistant && len(m.Calls) > 0:
			out = append(out, retoldCalls(m, offered)...)
		default:
			out = append(out, m)
		}
	}
	return append(out, late...)
}

// retoldCalls splits an answer: what is said of tools that are not offered, then the other
// calls.
func retoldCalls(m contract.Message, offered map[string]bool) []contract.Message {
	var said []string
	var calls []contract.ToolCall
	for _, c := range m.Calls {
		if offered[c.Name] {
			calls = append(calls, c)
			continue
		}
		args := c.Arguments
		if !json.Valid([]byte(args)) {
			args = quoted(args)
		}
		said = append(said, retell("tool_name", c.Name, "tool_args", args))
	}
	if len(said) == 0 {
		return []contract.Message{m}
	}
	if m.Text != "" {
		said = append([]string{m.Text}, said...)
	}
	out := []contract.Message{{Role: contract.RoleAssistant, Text: strings.Join(said, "\n")}}
	if len(calls) > 0 {
		out = append(out, contract.Message{Role: contract.RoleAssistant, Calls: calls})
	}
	return out
}

// retell is an object of a name and what belongs to it, which is JSON.
func retell(nameKey, name, key, raw string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) == nil {
		raw = b.String()
	}
	return "{" + quoted(nameKey) + ":" + quoted(name) + "," + quoted(key) + ":" + raw + "}"
}

// quoted is a text as JSON.
func quoted(s string) string {
	raw, _ := textutil.JSON(s) // a string always encodes
	return string(raw)
}
