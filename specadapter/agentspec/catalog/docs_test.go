package catalog

import (
	"maps"
	"slices"
	"testing"
)

// TestDescriptions checks that each component and each field has a description, which editors show.
func TestDescriptions(t *testing.T) {
	rows := Rows(WayFlow)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		if row.Abstract {
			continue
		}
		if row.Doc == "" {
			t.Errorf("%s has no description", name)
		}
		for _, f := range row.Fields {
			if f.doc() == "" {
				t.Errorf("%s.%s has no description", name, f.Name)
			}
		}
	}
}
