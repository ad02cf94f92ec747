// Package session implements runs with several turns: a session stays open after its agent has answered, and processes the next
// prompt as another turn in the same conversation. A turn executes the whole flow again, from START.
//
// A session starts other sessions as children for its agent's tools (child.go, tools.go) and receives the results of
// their turns by signal.
package session
