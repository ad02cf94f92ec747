package activities

import (
	"encoding/json"
	"fmt"
	"slices"

	"weft/activities/contract"
)

// signature is what is compared of a tool's arguments.
type signature struct {
	Properties map[string]struct {
		Type json.RawMessage `json:"type"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// signatureMismatches compares tools with what the flow declares: an argument that the tool does not have, one
// of another type, one that it requires. Complex types are not compared.
func signatureMismatches(tools []contract.ToolSpec, takes map[string]json.RawMessage) []string {
	var out []string
	for i := range tools {
		t := &tools[i]
		var known, real signature
		if takes[t.Name] == nil || json.Unmarshal(takes[t.Name], &known) != nil || json.Unmarshal(t.Schema, &real) != nil {
			continue
		}
		for name, p := range known.Properties {
			r, ok := real.Properties[name]
			switch {
			case !ok:
				out = append(out, fmt.Sprintf("tool %q takes no %q, which the flow declares as its input", t.Name, name))
			case len(p.Type) > 0 && len(r.Type) > 0 && string(p.Type) != string(r.Type):
				out = append(out, fmt.Sprintf("tool %q takes %q as %s, and the flow declares %s", t.Name, name, r.Type, p.Type))
			}
		}
		for _, name := range real.Required {
			if _, ok := known.Properties[name]; !ok {
				out = append(out, fmt.Sprintf("tool %q needs %q, which the flow does not declare as its input", t.Name, name))
			}
		}
	}
	slices.Sort(out)
	return out
}
