// Package harness holds what the test packages beside it share: embedded servers, workers in the
// test's process and in processes of their own, runs in Temporal's test environment, and flows.
package harness

import (
	"log/slog"

	"go.temporal.io/sdk/log"
)

// NoLog is a logger that writes nothing.
var NoLog = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
