// Package session formats and parses the messages between sessions of the blueprint dialect: the callback with a child's
// result to its parent, and the result of a hook for a run.
//
// The texts are those of the Agent Orchestrator Framework, byte for byte. The package is pure and imports only package
// pytext, so that workflow code may use it.
//
// Start at [Callback] and [ReadVerdict].
package session

import (
	"encoding/json"
	"fmt"
	"strings"

	"weft/workflows/plan/pytext"
)

// Child is a child session that has ended.
type Child struct {
	// ID is the session's id.
	ID string
	// Text and Data are its result; Data takes precedence. Text may be nil.
	Text *string
	Data json.RawMessage
	// Failed reports whether it failed; Problem is the reason, "" if unknown.
	Failed  bool
	Problem string
}

// Stopped is the problem of a child that was stopped manually.
const Stopped = "Session was manually stopped"

func (c *Child) status() string {
	if c.Failed {
		return "failed"
	}
	return "completed"
}

// content returns the child's result or problem. It is not escaped, as in the framework.
func (c *Child) content() string {
	if c.Failed {
		if c.Problem == "" {
			return "Unknown error"
		}
		return c.Problem
	}
	if v, err := pytext.Parse(c.Data); err == nil && v.Kind != pytext.Null {
		return v.Indented()
	}
	if c.Text == nil || *c.Text == "" {
		return "(No result available)"
	}
	return *c.Text
}

// Callback returns the prompt that resumes a parent when its children have ended, in the order in which they ended; "" if
// there are none.
func Callback(children []Child) string {
	switch len(children) {
	case 0:
		return ""
	case 1:
		return single(&children[0])
	}
	var parts []string
	for i := range children {
		c := &children[i]
		parts = append(parts, fmt.Sprintf("### Child: %s (status: %s)\n\n%s", c.ID, c.status(), c.content()))
	}
	return fmt.Sprintf("<agent-callback type=\"aggregated\" count=\"%d\">\n%s\n</agent-callback>\n\n"+
		"Please continue with the orchestration based on these results.", len(children), strings.Join(parts, "\n\n---\n\n"))
}

func single(c *Child) string {
	head, todo := "Child Result", "Please continue with the orchestration based on this result."
	if c.Failed {
		head, todo = "Error", "Please handle this failure and continue with the orchestration."
	}
	return fmt.Sprintf("<agent-callback session=\"%s\" status=\"%s\">\n## %s\n\n%s\n</agent-callback>\n\n%s", c.ID, c.status(), head, c.content(), todo)
}
