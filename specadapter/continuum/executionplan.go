package continuum

import (
	"regexp"
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

type drawing struct {
	links  [][2]string
	labels map[string]string
}

// maxDrawnLinks bounds a drawing; A & B --> C & D multiplies.
const maxDrawnLinks = 2 * plan.MaxEdges

// maxDrawnPart bounds the text of a node or link, so that a line is read in time linear in its length.
const maxDrawnPart = 1000

// readMermaid reads the edges of a flowchart and skips what it cannot read.
func readMermaid(text string) *drawing {
	d := &drawing{labels: map[string]string{}}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		for more := !strings.HasPrefix(strings.TrimSpace(line), "%%"); more; {
			_, line, more = strings.Cut(d.statement(line), ";")
		}
	}
	return d
}

var notStatement = regexp.MustCompile(`^[ \t]*(?:graph|flowchart|subgraph|direction|classDef|class|style|linkStyle|click)(?:[ \t]|$)`)

// arrow is a link: with a head, without one, or in two parts around a text; each may have |text| behind it.
var arrow = regexp.MustCompile(`^[ \t]*<*(?:[-=~][-=~.]+(?:>|[xo] )|[-=~][-=~.]+[-=~]|[-=~][-=~.](?:.*?(?:--|==|\.-)[-=~.]*(?:>|[xo] )?)?)[ \t]*(?:\|[^|]*\|)?`)

// statement reads A --> B -->|text| C & D, and returns what follows.
func (d *drawing) statement(s string) string {
	if notStatement.MatchString(s) {
		return s
	}
	from, rest := d.group(s)
	for len(from) > 0 {
		link := arrow.FindString(rest[:min(len(rest), maxDrawnPart)])
		if link == "" {
			break
		}
		var to []string
		to, rest = d.group(rest[len(link):])
		for _, a := range from {
			for _, b := range to {
				if len(d.links) < maxDrawnLinks {
					d.links = append(d.links, [2]string{a, b})
				}
			}
		}
		from = to
	}
	return rest
}

// drawnNode is an id, a label in whatever brackets and a class. A - goes on with an id inside of a UUID or the like,
// but not where a link begins.
var drawnNode = regexp.MustCompile(`^[ \t]*([\w\x{80}-\x{10ffff}](?:[\w.\x{80}-\x{10ffff}]|-[\w\x{80}-\x{10ffff}])*)` +
	`(@?[\[({>](?:"[^"]*"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|[^\[\](){}"])*[\])}]+)?(?::::\w*)?`)

// group reads A[Label] & B, and returns the ids, none where one cannot be read, and what follows.
func (d *drawing) group(s string) (ids []string, rest string) {
	for {
		m := drawnNode.FindStringSubmatch(s[:min(len(s), maxDrawnPart)])
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
