package blueprint

import (
	"strings"

	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// kept are the kinds that the framework replaces and a run does not, and why.
var kept = map[string]string{
	"env":    "texts cannot read the worker's environment",
	"runner": "runs have no runner",
}

// placeholders reports those that stay as they are written, each name once.
func (g *agent) placeholders() {
	l := linter{agent: g, seen: map[string]bool{}, declared: g.declared()}
	if file, ok := g.a.beside(filePrompt); ok {
		l.text(file, g.a.files[file])
	}
	for _, key := range []string{"system_prompt", "output_schema"} {
		if v := g.Value.Get(key); v != nil {
			l.value(v)
		}
	}
}

// maxPlaceholders is how many placeholders of one agent are reported.
const maxPlaceholders = 20

type linter struct {
	agent    *agent
	seen     map[string]bool
	declared func(name string) bool
	reported int
}

func (l *linter) text(file, text string) {
	at, line, begin := 0, 1, 0
	for _, m := range inputs.Placeholder.FindAllStringSubmatchIndex(text, -1) {
		line += strings.Count(text[at:m[0]], "\n")
		if i := strings.LastIndexByte(text[at:m[0]], '\n'); i >= 0 {
			begin = at + i + 1
		}
		at = m[0]
		l.placeholder(source.Pos{File: file, Line: line, Col: at - begin + 1}, text[m[2]:m[3]])
	}
}

func (l *linter) value(v *source.Value) {
	for part := range v.All() {
		if part.Value.Kind == source.String {
			for _, m := range inputs.Placeholder.FindAllStringSubmatch(part.Value.Text, -1) {
				l.placeholder(part.Value.Pos, m[1])
			}
		}
	}
}

func (l *linter) placeholder(at source.Pos, name string) {
	kind, key, ok := strings.Cut(name, ".")
	if !ok || l.seen[name] || l.reported > maxPlaceholders {
		return
	}
	l.seen[name] = true
	why := kept[kind]
	help := "pass the value as a parameter: ${params.NAME}"
	if kind == "params" && !l.declared(key) {
		why, help = "unknown parameter", "declare it in parameters_schema, or fix the name"
	}
	if why == "" {
		return
	}
	if l.reported++; l.reported > maxPlaceholders {
		l.agent.a.Warnf(at, CodePlaceholder, "fix the ones above first", "further placeholders that are not replaced are omitted")
	} else {
		l.agent.a.Warnf(at, CodePlaceholder, help, "%s is not replaced: %s", source.Quote("${"+name+"}"), why)
	}
}

// declared returns a function that reports whether a run can have a parameter.
func (g *agent) declared() func(name string) bool {
	known := map[string]bool{"prompt": g.mode == plan.InputsMerged}
	if len(g.params) == 0 || string(g.params) == "{}" {
		return func(name string) bool { return name == "prompt" }
	}
	rules := g.Value.Get("parameters_schema")
	if extra := rules.Get("additionalProperties"); extra == nil || extra.Kind != source.Bool || extra.True {
		return func(string) bool { return true }
	}
	if p := rules.Get("properties"); p != nil {
		for _, m := range p.Members {
			known[m.Key] = true
		}
	}
	return func(name string) bool { return known[name] }
}
