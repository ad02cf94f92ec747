// Package session makes several turns of a run: a session stays open when its agent has answered, and takes the next
// prompt as another turn in the same conversation. A turn is the whole flow once more, from START.
//
// A session starts other sessions as children for its agent's tools (child.go, tools.go) and takes what becomes of
// their turns by signal.
package session
