package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/specadapter/agentspec/catalog"
)

// definition is an object in the specification's JSON Schema, or a union of several.
type definition struct {
	Properties map[string]json.RawMessage
	Required   []string
	AnyOf      []definition
}

// object returns the definition's own object, not those of the types that extend it.
func (d definition) object() (definition, bool) {
	for _, part := range d.AnyOf {
		if o, ok := part.object(); ok {
			return o, true
		}
	}
	return d, d.Properties["name"] != nil // some definitions lack component_type
}

// TestTableMatchesSchema checks that the catalog has the components, fields and required fields
// of the specification's JSON Schema.
func TestTableMatchesSchema(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "specs", "open-agent-spec-25.4.1.schema.json"))
	if err != nil {
		t.Skip("../shared/specs not found")
	}
	var schema struct {
		Defs map[string]definition `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	rows := map[string]catalog.Type{}
	for _, row := range catalog.Types() {
		rows[row.Name] = row
	}
	common := []string{"id", "name", "description", "metadata", "inputs", "outputs", "branches", "component_type", "$referenced_components", "agentspec_version"}
	count := 0
	for name, def := range schema.Defs {
		o, ok := def.object()
		name, base := strings.CutPrefix(name, "Base")
		if !base || !ok {
			continue
		}
		row, ok := rows[name]
		if !ok {
			t.Errorf("the catalog has no %s", name)
			continue
		}
		count++
		delete(rows, name)
		required, missing := []string{}, []string(nil)
		for _, spec := range row.Fields {
			if spec.Required && o.Properties[spec.Name] != nil {
				required = append(required, spec.Name)
			}
			if spec.Required && o.Properties[spec.Name] == nil {
				missing = append(missing, spec.Name)
			}
		}
		want := slices.DeleteFunc(o.Required, func(s string) bool { return slices.Contains(common, s) })
		slices.Sort(want)
		slices.Sort(required)
		if diff := cmp.Diff(want, required); diff != "" || len(missing) > 0 {
			t.Errorf("%s: required fields differ (-schema +catalog), and these are also required: %v:\n%s", name, missing, diff)
		}
		for field := range o.Properties {
			if !slices.Contains(common, field) && !slices.ContainsFunc(row.Fields, func(s catalog.FieldSpec) bool { return s.Name == field }) {
				t.Errorf("%s has no field %s", name, field)
			}
		}
		if (o.Properties["inputs"] != nil) != row.IO {
			t.Errorf("%s has inputs: %v, want %v", name, row.IO, !row.IO)
		}
		if row.Since > catalog.V2541 {
			t.Errorf("%s has Since %s, but is already in 25.4.1", name, row.Since)
		}
	}
	// The remaining rows are of later versions, and so are the bases that only they extend.
	for name, row := range rows {
		if row.Since <= catalog.V2541 {
			t.Errorf("the catalog has %s in 25.4.1, but the schema does not", name)
		}
	}
	if count < 30 {
		t.Errorf("%d components were compared", count)
	}
}
