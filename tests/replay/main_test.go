// Package replay replays recorded histories with the current workflow code, and records them.
package replay

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.RunTests(m)) }
