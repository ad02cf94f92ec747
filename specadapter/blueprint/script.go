package blueprint

import (
	"fmt"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan/pytext"
)

type script struct {
	name, description, file string
	// params is its schema, or nil.
	params *pytext.Value
	entry  *object
}

type usedScript struct {
	script
	// at is where the capability names it.
	at source.Pos
}

// script reads an entry of the registry, or returns nil after a report.
func (o *object) script(w word) *script {
	s := o.entry(dirScripts, fileScript, w, CodeScript, "script")
	if s == nil {
		return nil
	}
	s.Of(&scriptShape)
	out := &script{name: s.Required("name"), description: s.Required("description"), file: s.Required("script_file"), entry: s}
	if v := s.Want("parameters_schema", source.Object); v != nil {
		s.a.CheckSchema(v, CodeSchema, "parameters_schema of "+s.Name)
		// What the parser took, this takes too.
		out.params, _ = pytext.Parse(v.JSON())
	}
	return out
}

// usage is the part of the system prompt that tells of a capability's script.
func (g *agent) usage(capability *object, w word) string {
	s := capability.script(w)
	if s == nil {
		return ""
	}
	g.scripts = append(g.scripts, usedScript{*s, w.at})
	return s.usage()
}

// usage tells a model how the script is called, in the framework's words.
func (s *script) usage() string {
	head := fmt.Sprintf("## Local Script: %s\n**Description:** %s\n\n**Usage:**\n```bash\nuv run --script scripts/%s/%s", s.name, s.description, s.name, s.file)
	properties := s.params.Get("properties")
	if !properties.Truthy() {
		return head + "\n```"
	}
	required := map[string]bool{}
	if r := s.params.Get("required"); r != nil {
		for _, name := range r.Items {
			required[name.Text] = true
		}
	}
	var call, arguments strings.Builder
	for _, m := range properties.Members {
		flag := "--" + m.Key
		if p := hint(m.Key, m.Value); p != "" {
			flag += " " + p
		}
		if !required[m.Key] {
			flag = "[" + flag + "]"
		}
		call.WriteString(" " + flag)
		arguments.WriteString("\n" + argument(m.Key, m.Value, required[m.Key]))
	}
	return head + call.String() + "\n```\n\n**Arguments:**" + arguments.String()
}

// typeOf is a parameter's type, string where it says none.
func typeOf(def *pytext.Value) string {
	if t := def.Get("type"); t != nil {
		return t.Str()
	}
	return "string"
}

func hint(name string, def *pytext.Value) string {
	if enum := def.Get("enum"); enum != nil {
		return "<" + joined(enum, "|") + ">"
	}
	switch typeOf(def) {
	case "boolean":
		return ""
	case "integer", "number":
		return "<N>"
	case "array":
		return "<value1,value2,...>"
	}
	return "<" + name + ">"
}

func argument(name string, def *pytext.Value, required bool) string {
	parts := []string{"- `--" + name + "`", "(optional)"}
	if required {
		parts[1] = "(required)"
	}
	if enum := def.Get("enum"); enum != nil {
		parts = append(parts, "One of: "+joined(enum, ", "))
	} else if kind := typeOf(def); kind != "string" {
		parts = append(parts, "("+kind+")")
	}
	if v := def.Get("default"); v != nil {
		parts = append(parts, "[default: "+v.Str()+"]")
	}
	if v := def.Get("description"); v != nil {
		parts = append(parts, "- "+v.Str())
	}
	return strings.Join(parts, " ")
}

func joined(list *pytext.Value, sep string) string {
	var out []string
	for _, v := range list.Items {
		out = append(out, v.Str())
	}
	return strings.Join(out, sep)
}
