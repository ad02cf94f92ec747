// Package session implements runs with several turns: a session stays open after its agent has answered, and processes the next
// prompt as another turn in the same conversation. A turn executes the whole flow again, from START. While it is idle, a session
// waits for an Update or a signal, without a timer.
//
// A session starts other sessions as children for its agent's tools (package subsession). A run whose agent has started sessions takes turns, too, until it has received all their results.
package session
