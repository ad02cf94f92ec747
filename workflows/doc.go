// Package workflows interprets plans: everything about a run that must be deterministic.
//
// # Concepts
//
//   - Run: one workflow run of type [Settings.Flow], which interprets a flow, or of type [Settings.Branch], a
//     chain of its nodes that runs beside others (flow.go, branch.go, run.go).
//   - Execution: one time that a node runs, at a step, with what its causal ancestors wrote (judge.go).
//   - Scheduler: decides which executions there are and when each starts; package
//     [weft/workflows/schedule]. A branch that lives alone runs in place, branches beside each other run
//     as child workflows (drive.go).
//   - Node kinds: one file each, kind_<kind>.go; [run.visit] is the only switch over them.
//   - Call: an activity; [run.invoke] makes all of them. Budget, waiting for an operator, sizes, usage and
//     cancellation are steps around it (call.go, budget.go, operator.go, guard.go, usage.go, cancellation.go).
//   - Child: a run below this one; [run.start] starts all of them (child.go). Signals and timers have one
//     place each, too (signal.go, timer.go).
//   - Boundary and journal: an execution that stops in its middle goes on in another run from its last
//     boundary; the steps made since are answered from its journal (journal.go, agent_state.go).
//   - Snapshot: what a run carries when it continues as new, between boundaries and never with a live
//     child (continue.go).
//   - Transcript: each message enters history once; activities ask for what their input refers to by query
//     (store.go, referred.go).
//   - Inbox: the run at the root of a tree owns its requests, takes the answers and relays them (inbox.go,
//     answer.go, requests.go, relay.go, steer.go).
//   - Session: a run that takes turns, the flow once more for each prompt (session.go and its files).
//   - Log: what executions did, for a fork that begins in the middle of another run (fork.go).
//
// # Determinism
//
// The package never does I/O, reads no clock, environment or randomness, starts no goroutine and never
// ranges over a map. It imports neither activities nor a dialect.
//
// A new node kind is plan/<kind>.go, kind_<kind>.go here, a case in plan's check and a case in visit. A change
// that a running workflow could meet needs workflow.GetVersion and a recorded history under
// tests/testdata/history.
package workflows
