package blueprint

import (
	"encoding/json"

	"weft/specadapter/source"
	"weft/workflows/plan/pytext"
)

// procedural reads what a procedural agent runs: a script of the registry, whose schema
// supersedes the agent's, or a command of a runner's own.
func (g *agent) procedural() {
	script, command := g.get("script", source.String), g.get("command", source.String)
	if g.kind != typeProcedural {
		for _, v := range []*source.Value{script, command} {
			if v != nil {
				g.warnf(v.Pos, CodeType, `write "type": "procedural", or remove it`, "%s is autonomous and runs no program of its own", g.what)
			}
		}
		return
	}
	switch {
	case script != nil && command != nil:
		g.errorf(command.Pos, CodeTwice, "keep one of the two", "%s has both script and command", g.what)
	case script != nil:
		if s := g.script(word{script.Text, script.Pos}); s != nil && s.params != nil {
			g.params = json.RawMessage(s.params.JSON())
		}
	case command != nil:
		if _, err := Arguments(command.Text, nil); err != nil {
			g.errorf(command.Pos, CodeScript, "close the quotes", "the command of %s: %v", g.what, err)
		}
	default:
		g.errorf(g.value.Pos, CodeMissing, `write "script", the name of a folder in scripts/`, "%s is procedural and has no script", g.what)
	}
}

// Arguments is the command line of a procedural agent: the words of its command, then its
// parameters as flags, in the framework's way. params may be nil.
func Arguments(command string, params json.RawMessage) ([]string, error) {
	out, err := split(command)
	if err != nil || len(params) == 0 {
		return out, err
	}
	object, err := pytext.Parse(params)
	if err != nil {
		return nil, err
	}
	for _, m := range object.Members {
		switch v := m.Value; {
		case v.Kind == pytext.Bool && v.True:
			out = append(out, "--"+m.Key)
		case v.Kind == pytext.Bool:
		case v.Kind == pytext.Array:
			out = append(out, "--"+m.Key, joined(v, ","))
		default:
			out = append(out, "--"+m.Key, v.Str())
		}
	}
	return out, nil
}
