package continuum

import (
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// lintExecutionPlan compares the drawing in execution_plan, which has no effect, with the edges (L5).
func (g *graph) lintExecutionPlan() {
	v := g.object.Get("execution_plan")
	if v == nil || v.Kind != source.String || strings.TrimSpace(v.Text) == "" {
		return
	}
	drawn := readMermaid(v.Text)
	names := g.drawnNames(drawn)
	have, want := map[[2]string]bool{}, map[[2]string]bool{}
	var extra, missing []string
	for i, l := range drawn.links {
		drawn.links[i] = [2]string{names(l[0]), names(l[1])}
		have[drawn.links[i]] = true
	}
	for _, e := range g.flow.Edges {
		pair := [2]string{e.From, e.To}
		if !have[pair] && !want[pair] {
			missing = append(missing, e.From+" --> "+e.To)
		}
		want[pair] = true
	}
	for _, e := range drawn.links {
		if !want[e] {
			extra = append(extra, e[0]+" --> "+e[1])
			want[e] = true
		}
	}
	var parts []string
	if len(drawn.links) == 0 {
		parts, missing = []string{"no edge could be read from it"}, nil
	}
	if len(missing) > 0 {
		parts = append(parts, "it lacks "+source.Listed(missing, listedNames))
	}
	if len(extra) > 0 {
		parts = append(parts, "it also has "+source.Listed(extra, listedNames))
	}
	if len(parts) > 0 {
		g.Warnf(v.Pos, "L5", "update it; only nodes and edges are executed", "the execution_plan of %s differs from the edges: %s",
			g.object.Name, strings.Join(parts, "; "))
	}
}

// drawnNames maps names in a drawing to node ids: by id, or by a label or name that is unique.
func (g *graph) drawnNames(d *drawing) func(string) string {
	ids := map[string]bool{plan.Start: true, plan.End: true}
	byName := map[string]string{"start": plan.Start, "end": plan.End}
	for i := range g.flow.Nodes {
		ids[g.flow.Nodes[i].ID] = true
	}
	for i := range g.flow.Nodes {
		n := &g.flow.Nodes[i]
		for _, name := range []string{source.Fold(n.ID), source.Fold(n.Name)} {
			if other, ok := byName[name]; ok && other != n.ID {
				byName[name] = ""
			} else if name != "" {
				byName[name] = n.ID
			}
		}
	}
	return func(drawn string) string {
		if ids[drawn] {
			return drawn
		}
		label := d.labels[drawn]
		for _, name := range append([]string{drawn, label}, strings.Split(label, "<br/>")...) {
			if id := byName[source.Fold(name)]; id != "" {
				return id
			}
		}
		return drawn
	}
}

// drawing is what is read from a Mermaid flowchart.
type drawing struct {
	links  [][2]string
	labels map[string]string
}

// maxDrawnLinks bounds a drawing; A & B --> C & D multiplies.
const maxDrawnLinks = 2 * plan.MaxEdges

// readMermaid reads the edges of a flowchart and skips every line that it cannot read.
func readMermaid(text string) *drawing {
	d := &drawing{labels: map[string]string{}}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		for _, statement := range statements(line) {
			d.statement(statement)
		}
	}
	return d
}

// statements cuts a line at semicolons outside of brackets, quotes and bars.
func statements(line string) []string {
	if strings.HasPrefix(strings.TrimSpace(line), "%%") {
		return nil
	}
	var out []string
	depth, from := 0, 0
	quoted, barred := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '|':
			barred = !barred
		case c == '[' || c == '(' || c == '{':
			depth++
		case c == ']' || c == ')' || c == '}':
			depth = max(depth-1, 0)
		case c == ';' && depth == 0 && !barred:
			out = append(out, line[from:i])
			from = i + 1
		}
	}
	return append(out, line[from:])
}

var notStatements = []string{"graph", "flowchart", "subgraph", "direction", "classDef", "class", "style", "linkStyle", "click"}

// statement reads A --> B -->|text| C & D.
func (d *drawing) statement(s string) {
	s = strings.TrimSpace(s)
	word, _, _ := strings.Cut(s, " ")
	if slices.Contains(notStatements, word) {
		return
	}
	r := &reader{rest: s}
	from, ok := d.group(r)
	for ok && r.link() {
		var to []string
		if to, ok = d.group(r); !ok {
			return
		}
		for _, a := range from {
			for _, b := range to {
				if len(d.links) < maxDrawnLinks {
					d.links = append(d.links, [2]string{a, b})
				}
			}
		}
		from = to
	}
}

// group reads A[Label] & B.
func (d *drawing) group(r *reader) ([]string, bool) {
	var ids []string
	for {
		id, label, ok := r.node()
		if !ok {
			return nil, false
		}
		if _, known := d.labels[id]; label != "" && !known {
			d.labels[id] = label
		}
		ids = append(ids, id)
		rest, more := strings.CutPrefix(strings.TrimLeft(r.rest, " \t"), "&")
		if !more {
			return ids, true
		}
		r.rest = rest
	}
}

// reader reads one statement from left to right.
type reader struct{ rest string }

// nodeID is an id: a - goes on with it inside of a UUID or the like, but not where a link begins.
var nodeID = regexp.MustCompile(`^[ \t]*([\w\x{80}-\x{10ffff}](?:[\w.\x{80}-\x{10ffff}]|-[\w\x{80}-\x{10ffff}])*)`)

// node reads an id with its label in whatever brackets, and a class.
func (r *reader) node() (id, label string, ok bool) {
	m := nodeID.FindStringSubmatch(r.rest)
	if m == nil {
		return "", "", false
	}
	r.rest = r.rest[len(m[0]):]
	label, ok = r.label()
	if class, found := strings.CutPrefix(r.rest, ":::"); found {
		r.rest = strings.TrimLeft(class, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
	}
	return m[1], label, ok
}

// label reads [text], ([text]), {text}, "text" in any of them, or nothing.
func (r *reader) label() (string, bool) {
	if strings.HasPrefix(r.rest, "@{") {
		r.rest = r.rest[1:]
	}
	if r.rest == "" || strings.IndexByte("[({>", r.rest[0]) < 0 {
		return "", true
	}
	depth, quoted := 0, false
	for i := 0; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("[({", c) >= 0 || c == '>' && i == 0:
			depth++
		case strings.IndexByte("])}", c) >= 0:
			depth--
		}
		if depth == 0 {
			text := strings.Trim(r.rest[:i+1], "[](){}>/\\ \t\"")
			r.rest = r.rest[i+1:]
			return text, true
		}
	}
	return "", false
}

// arrow is a link: with a head, without one, or in two parts around a text; each may have |text| behind it.
var arrow = regexp.MustCompile(`^[ \t]*<*(?:[-=~][-=~.]+(?:>|[xo] )|[-=~][-=~.]+[-=~]|[-=~][-=~.](?:.*?(?:--|==|\.-)[-=~.]*(?:>|[xo] )?)?)[ \t]*(?:\|[^|]*\|)?`)

// link reads --> -->|text| -- text --> -.-> ==> ---.
func (r *reader) link() bool {
	m := arrow.FindString(r.rest)
	r.rest = r.rest[len(m):]
	return m != ""
}
