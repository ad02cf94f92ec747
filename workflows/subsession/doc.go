// Package subsession starts and prompts the child sessions of a session, for the tools of its agent, and receives the results of
// their turns by signal.
package subsession
