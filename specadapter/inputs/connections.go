package inputs

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// MissingConfig is the error of an MCP server whose required config has no value yet. As JSON
// it is the error body that the framework's clients know.
type MissingConfig struct {
	Code    string   `json:"error"`
	Message string   `json:"message"`
	Server  string   `json:"server_name"`
	Fields  []string `json:"missing_fields"`
}

// Error returns the missing values, on one line.
func (e *MissingConfig) Error() string { return e.Message }

// UnknownServer is the error of an agent that refers to an MCP server which is not there. As JSON
// it is the error body that the framework's clients know.
type UnknownServer struct {
	Code    string `json:"error"`
	Message string `json:"message"`
	Server  string `json:"server_name"`
	Ref     string `json:"ref"`
}

// Error says which, on one line.
func (e *UnknownServer) Error() string { return e.Message }

// connections replaces placeholders in addresses and headers, except ${env.NAME}, which the worker replaces.
func (v *Values) connections(f *plan.Flow) error {
	f.Connections = slices.Clone(f.Connections)
	size := 0
	for i := range f.Connections {
		c := &f.Connections[i]
		c.URL = v.Text(c.URL)
		size += len(c.URL)
		c.Headers = slices.Clone(c.Headers)
		var missing []string
		for k := range c.Headers {
			h := &c.Headers[k]
			if err := v.fits(h.Value); err != nil {
				return err
			}
			h.Value = v.Text(h.Value)
			if size += len(h.Value); strings.ContainsAny(h.Value, "\r\n\x00") {
				return fmt.Errorf("the config %s of the MCP server %s has a line break after its placeholders are replaced; use single-line values", source.Quote(h.Name), source.Quote(c.ID))
			}
			if h.Required && open(h.Value) {
				missing = append(missing, h.Name)
			}
		}
		if len(missing) > 0 {
			return &MissingConfig{Code: "missing_required_mcp_config", Server: c.ID, Fields: missing,
				Message: fmt.Sprintf("the MCP server %s requires the config %s, whose placeholders have no value; pass the values with the run", source.Quote(c.ID), strings.Join(missing, ", "))}
		}
	}
	if size > MaxBytes {
		return fmt.Errorf("the addresses and headers of the MCP servers have %d bytes after their placeholders are replaced, over the limit of %d; shorten the parameters", size, MaxBytes)
	}
	return nil
}

// open reports whether a value holds placeholders that nothing replaces later, or is empty.
func open(value string) bool {
	for _, m := range Placeholder.FindAllStringSubmatch(value, -1) {
		kind, _, _ := strings.Cut(m[1], ".")
		if kind != "env" && m[1] != runID && m[1] != sessionID {
			return true
		}
	}
	return value == ""
}

// The placeholders of a run's own ids.
const (
	runID     = "runtime.run_id"
	sessionID = "runtime.session_id"
)
