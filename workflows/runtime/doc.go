// Package runtime provides what every run uses: calls of activities, children and signals; sizes, budget and journal around
// them; and the requests that executions open.
//
// [Run] holds one of each. An execution has side effects only by steps of its journal ([Run.RunStep]); an activity
// is called by [Run.Invoke], a child is started by [Run.Start].
package runtime
