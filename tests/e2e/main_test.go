// Package e2e tests runs, sessions and clients on real servers, with workers that are stopped and killed.
package e2e

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) {
	serveCounter() // where this program is started as a tool
	serveRelay()
	os.Exit(harness.RunTests(m))
}
