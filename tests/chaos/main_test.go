// Package chaos tests workers, servers and clusters that fail at every step of the sample flows.
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
