// Package session implements runs with several turns: a session stays open after its agent has answered, and processes the next
// prompt as another turn in the same conversation. A turn executes the entire flow again, from START. While it is idle, a session
// waits for an Update or a signal, without a timer.
//
// The tools of its agent start child sessions (package subsession). A run that has started some takes turns until they have ended.
package session
