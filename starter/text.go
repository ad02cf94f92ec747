package main

import (
	"net/url"
	"strings"
	"unicode"

	taskqueuepb "go.temporal.io/api/taskqueue/v1"

	"weft/activities/contract"
)

// clean makes an untrusted text safe for one line of a terminal, and cuts it.
func clean(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return cut(strings.Join(strings.Fields(s), " "), most)
}

// cut shortens a text to a number of bytes, on a character's border.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// unescape gives a node's id back that stands escaped in an activity's.
func unescape(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}

// modelLabel names a model, and says so where it is none.
func modelLabel(model string) string {
	if contract.ScriptedAll(model) {
		return clean(model, 200) + " (scripted answers, no model is called)"
	}
	return clean(model, 200)
}

// scriptNote marks an answer that no model gave.
func scriptNote(model string) string {
	if contract.ScriptedAll(model) {
		return ", scripted"
	}
	return ""
}

func queueOf(name string) *taskqueuepb.TaskQueue { return &taskqueuepb.TaskQueue{Name: name} }
