// Command worker runs flows: it polls a task queue of any Temporal cluster for workflow
// and activity tasks until it is stopped.
//
// It starts no server and no run. The connection to Temporal uses Temporal's own settings
// (TEMPORAL_ADDRESS and others); everything else is in weft.yaml, see worker/config.
//
// Start at [host.Main]; a worker with Go functions as tools calls it with them, see
// tests/examples/embed.
package main

import "weft/worker/host"

func main() { host.Main() }
