package activities

import (
	"bytes"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

func offeredTools(p *contract.Profile, none bool) map[string]bool {
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

// callsAsText replaces calls of tools that are not offered, and their results, with text. Results of offered
// tools stay next to their calls.
func callsAsText(messages []contract.Message, offered map[string]bool) []contract.Message {
	var out, late []contract.Message
	for _, m := range messages {
		if m.Role != contract.RoleTool {
			out, late = append(out, late...), nil
		}
		switch {
		case m.Role == contract.RoleTool && !offered[m.Name]:
			late = append(late, contract.Message{Role: contract.RoleUser, Name: m.Name, Text: jsonPair("tool_name", m.Name, "tool_result", quoted(m.Text)), Media: m.Media})
		case m.Role == contract.RoleAssistant && len(m.Calls) > 0:
			out = append(out, splitCalls(m, offered)...)
		default:
			out = append(out, m)
		}
	}
	return append(out, late...)
}

// splitCalls splits an answer into a text with the calls of tools that are not offered, and a message with the other calls.
func splitCalls(m contract.Message, offered map[string]bool) []contract.Message {
	var texts []string
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
		texts = append(texts, jsonPair("tool_name", c.Name, "tool_args", args))
	}
	if len(texts) == 0 {
		return []contract.Message{m}
	}
	if m.Text != "" {
		texts = append([]string{m.Text}, texts...)
	}
	out := []contract.Message{{Role: contract.RoleAssistant, Text: strings.Join(texts, "\n")}}
	if len(calls) > 0 {
		out = append(out, contract.Message{Role: contract.RoleAssistant, Calls: calls})
	}
	return out
}

// jsonPair returns an object of a name and a raw value, which is compacted if it is JSON.
func jsonPair(nameKey, name, key, raw string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) == nil {
		raw = b.String()
	}
	return "{" + quoted(nameKey) + ":" + quoted(name) + "," + quoted(key) + ":" + raw + "}"
}

func quoted(s string) string {
	raw, _ := textutil.JSON(s) // a string always encodes
	return string(raw)
}
