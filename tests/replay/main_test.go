// Package replay tests recorded histories under the workflow code, and the tests that record them.
package replay

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.RunTests(m)) }
