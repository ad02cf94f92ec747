// Package services tests runs on real servers with the services that they call: servers of tools, model providers and their limits.
package services

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
