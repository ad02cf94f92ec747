// Package inbox is where the run at the root of a tree keeps the tree's requests: what is open, what was answered, and
// the messages that nobody asked for. It takes answers by Update and by signal, and relays them.
package inbox
