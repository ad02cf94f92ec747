// Package dialects tests documents of every dialect and the examples, in Temporal's test environment and on a real server.
package dialects

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == stdioBox {
		os.Exit(serveOnStdio())
	}
	os.Exit(harness.RunTests(m))
}
