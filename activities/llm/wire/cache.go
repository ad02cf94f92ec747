package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/activities/contract"
)

// cacheMark marks the end of a prefix that the provider caches.
var cacheMark = object{"type": "ephemeral"}

// hasPrefix reports whether the model's name has one of the prefixes. Empty prefixes are ignored.
func (m *Model) hasPrefix(prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return prefix != "" && strings.HasPrefix(m.Name, prefix) })
}

// cacheKey returns the key of the conversation, an opaque hash, or "" if there is none. It also sets the key in the body b
// if the server expects it there and extra does not set it.
func (m *Model) cacheKey(b object, q *Request) string {
	if m.NoCache || q.Conversation == "" || !m.CacheKey && m.CacheHeader == "" {
		return ""
	}
	key := contract.SHA([]byte(q.Conversation))[:32]
	var extra map[string]json.RawMessage
	_ = json.Unmarshal(q.Extra, &extra) // anything but an object is rejected by merge
	if m.CacheKey && extra["prompt_cache_key"] == nil && (m.CacheHeader == "" || m.Protocol == Responses) {
		b["prompt_cache_key"] = key
	}
	return key
}

// markChat sets the cache markers of chat completions: after the system prompt and, if turns are marked, at the end of the
// conversation and at the end of the previous request, whose prefix is then found in the cache. Turns are not marked
// without tools or an answer, since such a conversation may not continue. With [Server.CacheRequest], the server sets markers.
func (m *Model) markChat(b object, messages []any, tools bool) {
	if m.hasPrefix(m.CacheRequest) {
		b["cache_control"] = cacheMark
	}
	if len(messages) > 0 && messages[0].(object)["role"] == "system" && m.hasPrefix(m.CacheSystem) {
		markContent(messages[0].(object))
	}
	if !m.hasPrefix(m.CacheTurns) {
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

// markContent sets a cache marker at the end of a message. It returns false if the message has no content.
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
