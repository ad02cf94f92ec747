// Package prepare determines what a run needs before its first node: plan and model, inputs, the initial state, and
// the tools that its connections offer.
package prepare
