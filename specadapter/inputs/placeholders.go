package inputs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// Values are the values of placeholders. A placeholder whose value is absent or null is left
// unchanged.
type Values struct {
	// Params are the run's parameters: ${params.x}.
	Params *Params
	// Scope are values that are not sent to the model by themselves: ${scope.x}.
	Scope *Params
	// Env are the variables that the operator allows blueprints to use: ${env.X}.
	Env map[string]string
	// RunID and SessionID are ${runtime.run_id} and ${runtime.session_id}.
	RunID, SessionID string
	// Unchecked skips validation of the parameters; Replaced skips replacement of placeholders.
	Unchecked, Replaced bool
}

// Read sets Params and Scope from the parameters, scope and text of a run. Both objects may be
// empty.
func (v *Values) Read(in *plan.Inputs, params, scope json.RawMessage, text string) (err error) {
	if v.Params, err = For(in, params, text); err != nil {
		return err
	}
	if len(scope) == 0 || string(scope) == "null" {
		return nil
	}
	v.Scope, err = parseObject("scope", scope)
	return err
}

// Placeholder matches placeholders. The name after the first dot is a single key. Placeholders do not
// nest, because a name ends at the first closing brace.
var Placeholder = regexp.MustCompile(`\$\{([^}]+)\}`)

// Text replaces the placeholders in a text. Placeholders in the values are not
// replaced.
func (v *Values) Text(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return Placeholder.ReplaceAllStringFunc(s, func(m string) string {
		kind, name, _ := strings.Cut(m[2:len(m)-1], ".")
		if to, ok := v.lookup(kind, name); ok {
			return to
		}
		return m
	})
}

func (v *Values) lookup(kind, name string) (string, bool) {
	switch kind {
	case "params":
		return v.Params.str(name)
	case "scope":
		return v.Scope.str(name)
	case "env":
		to, ok := v.Env[name]
		return to, ok
	case "runtime":
		switch name {
		case "run_id":
			return v.RunID, v.RunID != ""
		case "session_id":
			return v.SessionID, v.SessionID != ""
		}
	}
	return "", false
}

// str returns a parameter formatted like by Python's str.
func (p *Params) str(name string) (string, bool) {
	if p == nil {
		return "", false
	}
	v := p.object.Get(name)
	if v == nil || v.Kind == pytext.Null {
		return "", false
	}
	return v.Str(), true
}

// Value replaces the placeholders in all strings of a value, except in keys.
func (v *Values) Value(in *pytext.Value) *pytext.Value {
	out := *in
	out.Items, out.Members = nil, nil
	if in.Kind == pytext.String {
		out.Text = v.Text(in.Text)
	}
	for _, item := range in.Items {
		out.Items = append(out.Items, v.Value(item))
	}
	for _, m := range in.Members {
		out.Members = append(out.Members, pytext.Member{Key: m.Key, Value: v.Value(m.Value)})
	}
	return &out
}

// MissingConfig is the error of an MCP server whose required config has no value. Its JSON is the
// error body of the framework's API.
type MissingConfig struct {
	Code    string   `json:"error"`
	Message string   `json:"message"`
	Server  string   `json:"server_name"`
	Fields  []string `json:"missing_fields"`
}

// Error returns the message, with the missing values.
func (e *MissingConfig) Error() string { return e.Message }

// UnknownServer is the error of an agent that refers to an unknown MCP server. Its JSON is the
// error body of the framework's API.
type UnknownServer struct {
	Code    string `json:"error"`
	Message string `json:"message"`
	Server  string `json:"server_name"`
	Ref     string `json:"ref"`
}

// Error returns the message, with the reference.
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
			if err := v.checkSize(h.Value); err != nil {
				return err
			}
			h.Value = v.Text(h.Value)
			if size += len(h.Value); strings.ContainsAny(h.Value, "\r\n\x00") {
				return fmt.Errorf("the config %s of the MCP server %s has a line break after its placeholders are replaced; use single-line values", source.Quote(h.Name), source.Quote(c.ID))
			}
			if h.Required && unresolved(h.Value) {
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

// unresolved reports whether a value is empty or contains placeholders that will not be replaced later.
func unresolved(value string) bool {
	for _, m := range Placeholder.FindAllStringSubmatch(value, -1) {
		kind, _, _ := strings.Cut(m[1], ".")
		if kind != "env" && m[1] != runID && m[1] != sessionID {
			return true
		}
	}
	return value == ""
}

// Placeholders of the run's ids.
const (
	runID     = "runtime.run_id"
	sessionID = "runtime.session_id"
)
