// Package chaos tests that runs survive failures of workers, servers and clusters at every step of the sample flows.
package chaos

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) {
	serveCart()
	os.Exit(harness.RunTests(m))
}
