// Package conformance tests graphs of the specification and Agent Spec's own suite.
package conformance

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.RunTests(m)) }
