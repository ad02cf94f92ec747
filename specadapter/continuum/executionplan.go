package continuum

import (
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// lintExecutionPlan compares the drawing in execution_plan with the edges (L5). The
// drawing is never executed.
func (g *graph) lintExecutionPlan() {
	v := g.object.Get("execution_plan")
	if v == nil || v.Kind != source.String || strings.TrimSpace(v.Text) == "" {
		return
	}
	drawn := readMermaid(v.Text)
	names := g.drawnNames(drawn)
	have, want := map[[2]string]bool{}, map[[2]string]bool{}
	var extra, missing []string
	for _, l := range drawn.links {
		e := [2]string{names(l[0]), names(l[1])}
		have[e] = true
	}
	for _, e := range g.flow.Edges {
		pair := [2]string{e.From, e.To}
		if !have[pair] && !want[pair] {
			missing = append(missing, e.From+" --> "+e.To)
		}
		want[pair] = true
	}
	for _, l := range drawn.links {
		e := [2]string{names(l[0]), names(l[1])}
		if !want[e] {
			extra = append(extra, e[0]+" --> "+e[1])
			want[e] = true
		}
	}
	var parts []string
	switch {
	case len(drawn.links) == 0:
		parts = []string{"no edge could be read from it"}
	default:
		if len(missing) > 0 {
			parts = append(parts, "it lacks "+source.Listed(missing, listedNames))
		}
		if len(extra) > 0 {
			parts = append(parts, "it also has "+source.Listed(extra, listedNames))
		}
	}
	if len(parts) > 0 {
		g.Warnf(v.Pos, "L5", "update it; only nodes and edges are executed", "the execution_plan of %s differs from the edges: %s",
			g.object.Name, strings.Join(parts, "; "))
	}
}

// drawnNames maps what a drawing calls its nodes to ids: by id, else by a label or a name
// that only one node has, ignoring case and punctuation.
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
	for _, w := range notStatements {
		if word == w {
			return
		}
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
		r.blanks()
		if !strings.HasPrefix(r.rest, "&") {
			return ids, true
		}
		r.rest = r.rest[1:]
	}
}

// reader reads one statement from left to right.
type reader struct{ rest string }

func (r *reader) blanks() { r.rest = strings.TrimLeft(r.rest, " \t") }

// node reads an id with its label in whatever brackets, and a class.
func (r *reader) node() (id, label string, ok bool) {
	r.blanks()
	end := 0
	for end < len(r.rest) && idByte(r.rest, end) {
		end++
	}
	id, r.rest = r.rest[:end], r.rest[end:]
	if id == "" {
		return "", "", false
	}
	label, ok = r.label()
	if strings.HasPrefix(r.rest, ":::") {
		r.rest = strings.TrimLeft(r.rest[3:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
	}
	return id, label, ok
}

// idByte reports whether an id goes on: a - does inside of an id that is a UUID or the like,
// but not where a link begins.
func idByte(s string, i int) bool {
	switch c := s[i]; {
	case word(c) || c == '.' && i > 0:
		return true
	case c == '-' && i > 0 && i+1 < len(s):
		return word(s[i+1])
	}
	return false
}

// word reports whether a byte is a letter, a digit, _ or part of a character beyond ASCII.
func word(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
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

// link reads an arrow of any kind with its text: --> -->|text| -- text --> -.-> ==> ---.
func (r *reader) link() bool {
	r.blanks()
	s := strings.TrimLeft(r.rest, "<")
	if len(s) < 2 || strings.IndexByte("-=~", s[0]) < 0 || strings.IndexByte("-=~.", s[1]) < 0 {
		return false
	}
	s = s[arrow(s):]
	if !strings.HasSuffix(r.rest[:len(r.rest)-len(s)], ">") && !headed(r.rest, s) {
		// -- text -->: look for the arrow that ends the text.
		if end := closing(s); end > 0 {
			s = s[end:]
		}
	}
	s = strings.TrimLeft(s, " \t")
	if strings.HasPrefix(s, "|") {
		i := strings.IndexByte(s[1:], '|')
		if i < 0 {
			return false
		}
		s = s[i+2:]
	}
	r.rest = s
	return true
}

// arrow is the length of the line at the start of s, with its head > or x or o.
func arrow(s string) int {
	n := 0
	for n < len(s) && strings.IndexByte("-=~.", s[n]) >= 0 {
		n++
	}
	if n < len(s) && (s[n] == '>' || (s[n] == 'x' || s[n] == 'o') && n+1 < len(s) && s[n+1] == ' ') {
		n++
	}
	return n
}

// headed reports whether the line that was just read is whole without a head: --- or ~~~.
func headed(all, rest string) bool {
	line := strings.TrimLeft(all[:len(all)-len(rest)], "<")
	return len(line) > 2 && !strings.HasSuffix(line, ".")
}

// closing is the offset behind the arrow that ends a text, or 0.
func closing(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if pair := s[i : i+2]; pair == "--" || pair == "==" || pair == ".-" {
			return i + arrow(s[i:])
		}
	}
	return 0
}
