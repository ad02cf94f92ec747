package main

import (
	taskqueuepb "go.temporal.io/api/taskqueue/v1"

	"weft/starter/plaintext"
)

// clean makes an untrusted text safe for one line of a terminal, and cuts it.
func clean(s string, most int) string { return plaintext.Line(s, most) }

// cut shortens a text to a number of bytes, at a character's boundary.
func cut(s string, most int) string { return plaintext.Cut(s, most) }

// printable drops what could move the cursor and keeps lines and tabs.
func printable(s string) string { return plaintext.Lines(s) }

func queueOf(name string) *taskqueuepb.TaskQueue { return &taskqueuepb.TaskQueue{Name: name} }
