// Package schedule decides which node of a flow runs when, and what each execution knows.
//
// A [Graph] answers questions about a flow's edges. A [Scheduler] holds the executions that run,
// wait or are pending joins; the interpreter asks it what is ready, and reports what ended and
// which edges were taken. Executions are counted in steps, without a barrier between steps:
//
//   - START's targets arrive at step 1; what a node at step k leads to arrives at step
//     k+1. A branch carries its lineage, the last deferred join that it has passed.
//   - Arrivals at one plain node with the same step and lineage are one execution. It
//     waits only while a live branch could still arrive there at that very step.
//   - An arrival at a deferred node makes it a pending join. It runs once for all arrivals, when
//     no live branch and no other pending join that comes before it can still reach it. Its
//     step is its arrivals' highest, its lineage is new.
//   - A pending join E comes before a pending join D if D can be reached from E, and either E
//     cannot be reached from D, or D can be reached from E without a back edge. So joins
//     nested in a loop run from the inner to the outer one, and no two pending joins ever wait
//     for each other.
//
// So which executions there are is a property of the graph and of the answers to its conditions,
// never of timing.
//
// What an execution knows is a [contract.View]: the state as its causal ancestors wrote it, and
// the latest output of each node among them. A version vector says how much of each strand, a
// chain of executions, the view knows; so [Join] can tell a later write from a concurrent one.
//
// [Scheduler.Replay] brings a scheduler to where the log of finished executions of another run
// ends; a fork starts there.
//
// The package is pure: it does no I/O, reads no clock, imports no SDK and never ranges over a map.
package schedule
