// Package harness holds what the test packages beside it share: embedded servers, workers in the
// test's process and in processes of their own, runs in Temporal's test environment, and flows.
package harness
