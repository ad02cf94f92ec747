package continuum_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"weft/specadapter/adaptertest"
)

func TestGolden(t *testing.T) { adaptertest.Golden(t) }

var (
	emitted    = regexp.MustCompile(`(?m)^in\.[a-z]+[^\t]*: (?:error|warning|info): .* \[([A-Za-z0-9-]+)\]$`)
	documented = regexp.MustCompile("(?m)^\\| `([A-Za-z0-9-]+)` \\| (?:error|warning|info|-)")
)

// TestREADMECodes checks that the README's table and the goldens have the same codes.
func TestREADMECodes(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, seen := map[string]bool{}, map[string]bool{}
	for _, m := range documented.FindAllStringSubmatch(string(readme), -1) {
		table[m[1]] = true
	}
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range emitted.FindAllStringSubmatch(string(raw), -1) {
			seen[m[1]] = true
			if !table[m[1]] {
				t.Errorf("%s: the code %s is not in README.md", path, m[1])
			}
		}
	}
	seen["too-many"] = true // TestTooMany; its document is too long for an archive
	for code := range table {
		if !seen[code] {
			t.Errorf("README.md has the code %s, but no golden does", code)
		}
	}
}
