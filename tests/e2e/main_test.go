// Package e2e tests runs, sessions and clients against real servers, with workers that are stopped and killed.
package e2e

import (
	"os"
	"testing"

	"weft/tests/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m))
}
