// Package conformance runs the graphs of the specification and the Agent Spec conformance suite.
package conformance

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.RunTests(m)) }
