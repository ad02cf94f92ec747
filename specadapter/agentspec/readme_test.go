package agentspec_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/specadapter/agentspec/catalog"
)

var supported = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([0-9.]+) \\| (yes|yes, with `unsupported`) \\| (yes|no) \\|$")

// TestREADMEComponents checks that the README's table of components matches the catalog.
func TestREADMEComponents(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range supported.FindAllStringSubmatch(string(readme), -1) {
		got = append(got, fmt.Sprint(m[1:]))
	}
	for _, row := range catalog.Types() {
		since, loaded, runs := max(row.Since, catalog.V2541), "yes", "no"
		if row.Unsupported != "" {
			loaded = "yes, with `unsupported`"
		}
		if row.Runs() {
			runs = "yes"
		}
		want = append(want, fmt.Sprint([]string{row.Name, since.String(), loaded, runs}))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README.md differs (-code +README):\n%s", diff)
	}
}
