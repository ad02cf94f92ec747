// Package values reads and writes the typed values of a flow.
//
// They live in the state, under keys that models neither see nor write: the one that flows along the edges under
// [contract.ValueKey], those with names under the keys of [plan.Ports]. So they are causal, bounded and carried like
// all state.
package values
