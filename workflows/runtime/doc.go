// Package runtime provides the services of a run: calls of activities, children and signals, within the run's sizes and budget; and
// the requests that executions open.
//
// [Run] holds all of them. An execution has side effects only in steps of its journal ([Run.RunStep]); activities are called by
// [Run.Invoke], and children are started by [Run.Start].
package runtime
