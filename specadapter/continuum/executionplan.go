package continuum

import (
	"regexp"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// lintExecutionPlan compares the diagram in execution_plan, which has no effect, with the edges (L5).
func (g *graph) lintExecutionPlan() {
	v := g.object.Get("execution_plan")
	if v == nil || v.Kind != source.String || strings.TrimSpace(v.Text) == "" {
		return
	}
	diagram := parseMermaid(v.Text)
	names := g.diagramNames(diagram)
	have, want := map[[2]string]bool{}, map[[2]string]bool{}
	var extra, missing []string
	for i, l := range diagram.links {
		diagram.links[i] = [2]string{names(l[0]), names(l[1])}
		have[diagram.links[i]] = true
	}
	for _, e := range g.flow.Edges {
		pair := [2]string{e.From, e.To}
		if !have[pair] && !want[pair] {
			missing = append(missing, e.From+" --> "+e.To)
		}
		want[pair] = true
	}
	for _, e := range diagram.links {
		if !want[e] {
			extra = append(extra, e[0]+" --> "+e[1])
			want[e] = true
		}
	}
	var parts []string
	if len(diagram.links) == 0 {
		parts, missing = []string{"it has no readable edge"}, nil
	}
	if len(missing) > 0 {
		parts = append(parts, "it is missing "+source.Listed(missing, source.ListedNames))
	}
	if len(extra) > 0 {
		parts = append(parts, "it also has "+source.Listed(extra, source.ListedNames))
	}
	if len(parts) > 0 {
		g.Warnf(v.Pos, "L5", "update it; only nodes and edges are executed", "the execution_plan of %s differs from the edges: %s",
			g.object.Name, strings.Join(parts, "; "))
	}
}

// diagramNames returns a function that maps names in a diagram to node ids: by id, or by a unique label or name.
func (g *graph) diagramNames(d *diagram) func(string) string {
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
	return func(diagram string) string {
		if ids[diagram] {
			return diagram
		}
		label := d.labels[diagram]
		for _, name := range append([]string{diagram, label}, strings.Split(label, "<br/>")...) {
			if id := byName[source.Fold(name)]; id != "" {
				return id
			}
		}
		return diagram
	}
}

type diagram struct {
	links  [][2]string
	labels map[string]string
}

// maxDiagramLinks limits the links of a diagram; A & B --> C & D multiplies them.
const maxDiagramLinks = 2 * plan.MaxEdges

// maxDiagramPart is the maximum length of a node or link, so that parsing takes time linear in the length of a line.
const maxDiagramPart = 1000

// parseMermaid parses the edges of a flowchart and skips statements that it cannot parse.
func parseMermaid(text string) *diagram {
	d := &diagram{labels: map[string]string{}}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		for more := !strings.HasPrefix(strings.TrimSpace(line), "%%"); more; {
			_, line, more = strings.Cut(d.statement(line), ";")
		}
	}
	return d
}

var notStatement = regexp.MustCompile(`^[ \t]*(?:graph|flowchart|subgraph|direction|classDef|class|style|linkStyle|click)(?:[ \t]|$)`)

// arrow matches a link: with a head, without one, or in two parts around a text; each may be followed by |text|.
var arrow = regexp.MustCompile(`^[ \t]*<*(?:[-=~][-=~.]+(?:>|[xo] )|[-=~][-=~.]+[-=~]|[-=~][-=~.](?:.*?(?:--|==|\.-)[-=~.]*(?:>|[xo] )?)?)[ \t]*(?:\|[^|]*\|)?`)

// statement parses A --> B -->|text| C & D and returns the remaining text.
func (d *diagram) statement(s string) string {
	if notStatement.MatchString(s) {
		return s
	}
	from, rest := d.group(s)
	for len(from) > 0 {
		link := arrow.FindString(rest[:min(len(rest), maxDiagramPart)])
		if link == "" {
			break
		}
		var to []string
		to, rest = d.group(rest[len(link):])
		for _, a := range from {
			for _, b := range to {
				if len(d.links) < maxDiagramLinks {
					d.links = append(d.links, [2]string{a, b})
				}
			}
		}
		from = to
	}
	return rest
}

// diagramNode matches an id, a label in any brackets and a class. A hyphen belongs to the id only between two
// characters of it, as in a UUID; otherwise it begins a link.
var diagramNode = regexp.MustCompile(`^[ \t]*([\w\x{80}-\x{10ffff}](?:[\w.\x{80}-\x{10ffff}]|-[\w\x{80}-\x{10ffff}])*)` +
	`(@?[\[({>](?:"[^"]*"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|[^\[\](){}"])*[\])}]+)?(?::::\w*)?`)

// group parses A[Label] & B. It returns the ids, none if one cannot be parsed, and the remaining text.
func (d *diagram) group(s string) (ids []string, rest string) {
	for {
		m := diagramNode.FindStringSubmatch(s[:min(len(s), maxDiagramPart)])
		if m == nil {
			return nil, s
		}
		if label := strings.Trim(m[2], "@[](){}>/\\ \t\""); label != "" && d.labels[m[1]] == "" {
			d.labels[m[1]] = label
		}
		ids, s = append(ids, m[1]), s[len(m[0]):]
		more, found := strings.CutPrefix(strings.TrimLeft(s, " \t"), "&")
		if !found {
			return ids, s
		}
		s = more
	}
}
