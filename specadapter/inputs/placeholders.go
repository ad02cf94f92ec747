package inputs

import (
	"encoding/json"
	"regexp"
	"strings"

	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// Values are what placeholders stand for. What is absent or null leaves a placeholder as it
// is written.
type Values struct {
	// Params are the run's parameters: ${params.x}.
	Params *Params
	// Scope are values that the model never sees as such: ${scope.x}.
	Scope *Params
	// Env are the variables that the operator lets blueprints read: ${env.X}.
	Env map[string]string
	// RunID and SessionID are ${runtime.run_id} and ${runtime.session_id}.
	RunID, SessionID string
	// Unchecked skips validation of the parameters; Replaced skips replacement of placeholders.
	Unchecked, Replaced bool
}

// Read takes what a run of a flow is given: parameters, values of placeholders and a text. Both
// objects may be empty.
func (v *Values) Read(in *plan.Inputs, params, scope json.RawMessage, text string) (err error) {
	if v.Params, err = For(in, params, text); err != nil {
		return err
	}
	if len(scope) == 0 || string(scope) == "null" {
		return nil
	}
	v.Scope, err = given("scope", scope)
	return err
}

// Placeholder finds placeholders. The name behind the first point is one flat key; what nests is
// no placeholder, because a name ends at the first brace that closes.
var Placeholder = regexp.MustCompile(`\$\{([^}]+)\}`)

// Text replaces the placeholders of a text, each once: a value that holds a placeholder
// keeps it.
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

// str is a parameter as Python's str gives it.
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

// Value replaces the placeholders of all texts in a value, and leaves keys as they are.
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
