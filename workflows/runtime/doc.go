// Package runtime provides what every run uses: calls of activities, children, signals and timers; sizes, budget and
// journal around them; the transcript; and the requests that executions open.
//
// [Run] holds one of each. A scope has side effects only by steps of its [Journal] ([Run.RunStep]); an activity
// is called by [Run.Invoke], a child is started by [Run.Start].
package runtime
