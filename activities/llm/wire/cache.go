package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/activities/contract"
)

// cacheMark ends a prefix that the provider keeps.
var cacheMark = object{"type": "ephemeral"}

// begins reports whether the model's name has one of some prefixes; an empty one is none.
func (m *Model) begins(prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return prefix != "" && strings.HasPrefix(m.Name, prefix) })
}

// cacheKey is the key of the conversation, which says nothing of it; empty where there is none. It is set where the server reads it in
// the request, unless the author has set one.
func (m *Model) cacheKey(b object, q *Request) string {
	if m.NoCache || q.Conversation == "" || !m.CacheKey && m.CacheHeader == "" {
		return ""
	}
	key := contract.SHA([]byte(q.Conversation))[:32]
	var extra map[string]json.RawMessage
	_ = json.Unmarshal(q.Extra, &extra) // what is no object is refused when it is merged
	if m.CacheKey && extra["prompt_cache_key"] == nil && (m.CacheHeader == "" || m.Protocol == Responses) {
		b["prompt_cache_key"] = key
	}
	return key
}

// markChat marks what the provider keeps of chat completions: the system prompt and, where turns are marked, the conversation up to
// its end and up to the end of the request before, which finds what that one stored. A conversation without tools or an answer may not
// go on. Other servers set the marks of a request that asks for it.
func (m *Model) markChat(b object, messages []any, tools bool) {
	if m.begins(m.CacheMark) {
		b["cache_control"] = cacheMark
	}
	if len(messages) > 0 && messages[0].(object)["role"] == "system" && m.begins(m.MarkSystem) {
		markContent(messages[0].(object))
	}
	if !m.begins(m.MarkTurns) {
		return
	}
	marks := 2
	answered := slices.ContainsFunc(messages, func(message any) bool { return message.(object)["role"] == contract.RoleAssistant })
	for i := len(messages) - 1; i >= 0 && marks > 0 && (tools || answered); i-- {
		message := messages[i].(object)
		if message["role"] == "system" {
			break
		}
		if ends := i == len(messages)-1 || messages[i+1].(object)["role"] == contract.RoleAssistant; ends && markContent(message) {
			marks--
		}
	}
}

// markContent marks the end of a message. It reports whether it could: what has no content has no place for a mark.
func markContent(message object) bool {
	text, plain := message["content"].(string)
	parts, _ := message["content"].([]any)
	switch {
	case plain && text != "":
		message["content"] = []any{object{"type": "text", "text": text, "cache_control": cacheMark}}
	case len(parts) > 0:
		parts[len(parts)-1].(object)["cache_control"] = cacheMark
	default:
		return false
	}
	return true
}
