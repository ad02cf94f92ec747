// Package workflows interprets plans: everything about a run that must be deterministic.
//
// # Concepts
//
//   - Run: one workflow run of type [Settings.Flow], which interprets a flow, or of type [Settings.Branch], a
//     chain of its nodes that runs beside others (flow.go, chain.go, branch.go). What both work with is a [runtime.Run].
//   - Execution: one time that a node runs, at a step, with what its causal ancestors wrote. Package node runs
//     executions; a kind of node is a small type with one method there, agents have package agent.
//   - Scheduler: decides which executions there are and when each starts; package schedule. A chain of nodes beside
//     others runs in place, as a coroutine, where it makes few calls (inplace.go), else as a child workflow (drive.go). So
//     does the flow of a map's element (nested.go).
//   - Call: an activity. Budget, waiting for an operator, sizes, usage and cancellation are steps around it
//     (package runtime). Children, signals and timers have one place each, too.
//   - Boundary and journal: an execution that stops in its middle goes on in another run from its last
//     boundary; the steps made since are answered from its journal.
//   - Snapshot: what a run carries when it continues as new, between boundaries and never with a live
//     child (continue.go).
//   - Transcript: each message enters history once; activities ask for what their input refers to by query.
//   - Inbox: the run at the root of a tree owns its requests, takes the answers and relays them (package inbox).
//   - Session: a run that takes turns, the flow once more for each prompt (package session).
//   - Log: what executions did, for a fork that begins in the middle of another run (fork.go).
//
// # Packages
//
// plan, schedule, watch, argument, held, runtime and values come first; inbox, agent, node, prepare, publish and session stand beside each
// other and do not know each other; workflows puts them together. An interface belongs to its consumer: [runtime.Asker],
// [inbox.Host], [session.Turns], [agent.Sessions], [node.Kind] and [node.Flows].
//
// # Determinism
//
// The packages never do I/O, read no clock, environment or randomness, start no goroutine and never range over a
// map. They import neither activities nor a dialect. A change that a running workflow could meet needs
// workflow.GetVersion and a recorded history under tests/testdata/history.
package workflows
