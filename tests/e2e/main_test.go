// Package e2e tests runs, sessions and clients on real servers, with workers that are stopped and killed.
package e2e

import (
	"os"
	"testing"

	"weft/tests/harness"
	"weft/tests/programs"
)

func TestMain(m *testing.M) {
	programs.ServeCounter() // where this program is started as a tool
	programs.ServeRelay()
	os.Exit(harness.RunTests(m))
}
