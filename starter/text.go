package main

import (
	taskqueuepb "go.temporal.io/api/taskqueue/v1"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

// clean makes an untrusted text safe for one line of a terminal, and cuts it.
func clean(s string, most int) string { return plaintext.Line(s, most) }

// cut shortens a text to a number of bytes, at a character's boundary.
func cut(s string, most int) string { return plaintext.Cut(s, most) }

// printable drops what could move the cursor and keeps lines and tabs.
func printable(s string) string { return plaintext.Lines(s) }

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
