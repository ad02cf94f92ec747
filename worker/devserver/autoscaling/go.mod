// This module stands in for the one of the same path in the embedded server: see client.go.
module go.temporal.io/auto-scaled-workers

go 1.26.8

require (
	go.temporal.io/api v1.63.5
	go.temporal.io/server v1.32.1
	go.uber.org/fx v1.24.0
)
