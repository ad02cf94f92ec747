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

// definition is an object in the specification's JSON Schema, or one of several.
type definition struct {
	Properties map[string]json.RawMessage
	Required   []string
	AnyOf      []definition
}

// object is the definition's own object, behind those of the types that extend it.
func (d definition) object() (definition, bool) {
	for _, part := range d.AnyOf {
		if o, ok := part.object(); ok {
			return o, true
		}
	}
	return d, d.Properties["name"] != nil // some in the schema lack component_type
}

// The table has the components and fields of the specification's JSON Schema, and wants
// what it wants.
func TestTableMatchesSchema(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "specs", "open-agent-spec-25.4.1.schema.json"))
	if err != nil {
		t.Skip("../shared/specs is not there")
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
			t.Errorf("the table has no %s", name)
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
			t.Errorf("%s: required fields differ (-schema +table), and it also wants %v:\n%s", name, missing, diff)
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
			t.Errorf("%s is in 25.4.1, not only in %s", name, row.Since)
		}
	}
	// What is left is from later versions, and so are the bases that they alone extend.
	for name, row := range rows {
		if row.Since <= catalog.V2541 {
			t.Errorf("the table has %s in 25.4.1, which the schema does not have", name)
		}
	}
	if count < 30 {
		t.Errorf("%d components were compared", count)
	}
}
