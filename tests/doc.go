// Package tests holds what spans packages: conformance, replay, examples, end to end and
// benchmarks. It is imported by nothing.
package tests
