// Package schedule decides when each node of a flow runs, and which state each execution sees.
//
// A [Graph] answers queries about a flow's edges. A [Scheduler] holds the executions that are running,
// waiting or pending joins; the interpreter queries which ones are ready, and reports when an execution
// ends and which edges it takes. Executions are numbered by steps, without a barrier between steps:
//
//   - START's targets arrive at step 1; the successors of a node at step k arrive at step
//     k+1. A branch carries its lineage: the last deferred join that it has passed.
//   - Arrivals at a plain node with the same step and lineage form one execution. It
//     waits only while a live branch could still arrive there at the same step.
//   - An arrival at a deferred node makes it a pending join. The join runs once for all arrivals,
//     when no live branch and no other pending join that precedes it can still reach it. Its
//     step is the highest of its arrivals, and it starts a new lineage.
//   - A pending join E precedes a pending join D if D can be reached from E, and either E
//     cannot be reached from D, or D can be reached from E without a back edge. Therefore joins
//     nested in a loop run from the inner to the outer one, and no two pending joins wait for
//     each other.
//
// The set of executions thus depends only on the graph and on the answers to its conditions, never on
// timing.
//
// An execution sees a [contract.View]: the state as written by its causal ancestors, and
// the latest output of each node among them. A version vector records how much of each strand, a
// chain of executions, the view contains, so that [Join] can distinguish a later write from a concurrent one.
//
// A fork restores a scheduler from the log of another run's finished executions, see [Scheduler.Ready].
//
// The package is deterministic: it does no I/O, reads no clock, imports no SDK and never ranges over a map.
package schedule
