// Package node runs executions of nodes, and decides which outgoing edges are taken.
//
// A kind of node is a [Kind], a small type with one method, in one file. A new kind is plan/<kind>.go, a case in
// plan's check, <kind>.go here and a row in [New].
package node
