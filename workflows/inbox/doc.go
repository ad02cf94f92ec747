// Package inbox manages the requests of a tree of runs in its root: open and answered requests, and
// unsolicited messages. It accepts answers by Update and by signal, and relays them.
package inbox
