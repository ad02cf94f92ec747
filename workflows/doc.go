// Package workflows interprets plans: everything about a run that must be deterministic.
//
// # Concepts
//
//   - Run: one workflow run of type [Settings.Flow], which interprets a flow, or of type [Settings.Branch], a
//     chain of its nodes that runs in parallel with others (flow.go, branch.go). Both use a [runtime.Run].
//   - Execution: one execution of a node, at a step, with the state written by its causal ancestors. Package node runs
//     executions; each kind of node is a function there, agents have package agent.
//   - Scheduler: decides which executions there are and when each starts; package schedule. A parallel chain of nodes
//     runs in place, as a coroutine, if it makes few calls (inplace.go), otherwise as a child workflow (branches.go). The
//     same applies to the flow of a map's element.
//   - Call: an activity. Package runtime applies budget, waiting for an operator, size limits, usage and cancellation
//     to each. Children, signals and timers are also implemented in one place each.
//   - Boundary and journal: an interrupted execution continues in another run from its last
//     boundary; the steps made since are replayed from its journal (package journal).
//   - Snapshot: the state with which a run continues as new, at a boundary and never with a running
//     child (continue.go).
//   - Transcript: each message enters history once; activities query their run for the content to which their input refers
//     (package transcript).
//   - Wait: all coroutines of a run share one SDK coroutine, which receives messages while all of them wait (package wait).
//   - Inbox: the run at the root of a tree owns the tree's requests, accepts the answers and relays them (package inbox).
//   - Session: a run with several turns, each of which executes the flow for a prompt (package session).
//   - Limiter: a workflow for each API key of a provider, which schedules the calls of all workers (package limiter). A call
//     that has to wait is repeated when its turn comes ([runtime.Run.Invoke]).
//   - Log: the results of executions, for a fork that starts in the middle of another run (fork.go).
//
// # Packages
//
// plan, schedule, transcript, journal, watch, wait, argument, held, references, replies, runtime, values, route and subsession are the
// lower packages; inbox, agent, limiter, node, prepare, publish and session are independent of each other; workflows combines them.
// An interface belongs to its consumer: [runtime.Asker], [runtime.MessageHandler], [inbox.Host], [session.Turns], [node.Kind] and
// [node.Flows].
//
// # Determinism
//
// The packages never do I/O, use the clock, the environment or random numbers, start a goroutine or range over a
// map. They import neither activities nor a dialect. A change that affects a running workflow requires
// workflow.GetVersion and a recorded history under tests/testdata/history.
package workflows
