package activities

import (
	"encoding/json"
	"fmt"
	"slices"

	"weft/activities/contract"
)

// signature is what two descriptions of a tool's arguments are compared by.
type signature struct {
	Properties map[string]struct {
		Type json.RawMessage `json:"type"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// misfits says which tools take other arguments than the flow knows them by: one that the flow
// names and the tool does not take, one of another type, one that the tool needs and the flow
// does not know. What has no simple type is not compared.
func misfits(tools []contract.ToolSpec, takes map[string]json.RawMessage) []string {
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
