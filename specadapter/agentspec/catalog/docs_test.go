package catalog

import (
	"maps"
	"slices"
	"testing"
)

// Editors say what each component and each of its fields is for.
func TestEverythingIsDescribed(t *testing.T) {
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
