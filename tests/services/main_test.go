// Package services tests runs on a Temporal server with the services that they call: MCP servers, model providers and their rate limits.
package services

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) {
	serveCounter() // if the test binary was started as a server
	serveRelay()
	os.Exit(harness.RunTests(m))
}
