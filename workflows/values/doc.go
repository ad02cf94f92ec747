// Package values reads and writes the typed values of a flow.
//
// They are kept in the state, under keys that models neither see nor write: the value that is passed along the edges under
// [contract.ValueKey], named values under the keys of [plan.Ports]. They are therefore causal, bounded and carried over like
// all state.
package values
