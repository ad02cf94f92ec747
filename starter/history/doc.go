// Package history reads the event histories of a run's workflows and turns them into typed events.
//
// [Read] walks a whole tree: the runs that were continued as new, the branches, the sub-agents
// and the sessions below. [Tail] reads one run as it grows. Both use the same decoder, which
// decodes each payload once. No other package of starter reads history events, so that this is
// the place to adapt when the events or payloads of a workflow change.
//
// A payload that cannot be decoded here, because a codec encrypted it, is nil in its event.
package history
