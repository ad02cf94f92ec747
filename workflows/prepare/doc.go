// Package prepare settles what a run needs before its entry: plan and model, inputs, the state with which it begins, and
// the tools that its connections offer.
package prepare
