// Package schedule decides when each node of a flow runs, and what each execution sees.
//
// A [Graph] answers questions about a flow's edges. A [Scheduler] holds the executions that run,
// wait or are pending joins; the interpreter asks it what is ready, and reports which executions ended and
// which edges were taken. Executions are counted in steps, without a barrier between steps:
//
//   - START's targets arrive at step 1; the successors of a node at step k arrive at step
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
// The set of executions therefore depends only on the graph and on the answers to its conditions,
// never on timing.
//
// An execution sees a [contract.View]: the state as written by its causal ancestors, and
// the latest output of each node among them. A version vector records how much of each strand, a
// chain of executions, the view contains, so that [Join] can distinguish a later write from a concurrent one.
//
// [Scheduler.Ready] restores the state of a scheduler from the log of finished executions of another run;
// a fork starts there.
//
// The package is pure: it does no I/O, reads no clock, imports no SDK and never ranges over a map.
package schedule
