package drawing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"weft/workflows/plan"
)

// Sizes in pixels.
const (
	nodeText = 190 // widest line in a node
	edgeWide = 150 // widest line at an edge
	padX     = 14
	padY     = 9
	// slant is the width of the slanted sides of a deferred join.
	slant = 14
	// loopWidth is the width of an edge from a node to itself.
	loopWidth = 34
)

// SVG draws a flow as a standalone image from top to bottom: conditions are wrapped labels of
// edges; deferred joins are hexagons, exit nodes have a double border, and both are also labelled;
// loops are upward edges or next to their node. With the states of a run, nodes are labelled and
// coloured by state. It fails if the flow is too large to be drawn, or an edge refers to an unknown
// node. Sub-agents are not drawn.
func SVG(f *plan.Flow, states States) (string, error) {
	g, err := newGraph(f, states)
	if err != nil {
		return "", err
	}
	width, height := g.place()
	p := &picture{graph: g, states: states}
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="%d">`,
		num(width), num(height), num(width), num(height), fontSize)
	p.add(`<title>%s</title>`, escaped(printable(f.Name)))
	p.add(`<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="#595959"/></marker></defs>`)
	p.add(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	p.add(`<g fill="none" stroke="#595959" stroke-width="1.3">`)
	p.edges()
	p.add(`</g>`)
	for i := range g.vertices {
		p.vertex(&g.vertices[i])
	}
	p.add(`</svg>`)
	return p.b.String(), nil
}

type picture struct {
	*graph
	states States
	b      strings.Builder
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// num formats a number with at most one decimal.
func num(v float64) string { return strconv.FormatFloat(float64(int(v*10+0.5))/10, 'f', -1, 64) }

func endpoint(kind int, text string) vertex {
	return vertex{node: kind, lines: []string{text}, w: widthOf(text) + 2*padX, h: lineHeight + padY}
}

// nodeVertex returns the vertex of a node, with its text.
func nodeVertex(i int, n *plan.Node, states States) vertex {
	lines := wrap(n.Name, nodeText, 3)
	if n.ID != n.Name {
		lines = append(lines, wrap(n.ID, nodeText, 2)...)
	}
	if marks := annotations(n, states); len(marks) > 0 {
		lines = append(lines, wrap("("+strings.Join(marks, ", ")+")", nodeText, 3)...)
	}
	v := vertex{node: i, lines: lines, w: boxWidth(lines) + 2*padX, h: float64(len(lines))*lineHeight + 2*padY}
	if n.Deferred {
		v.w += 2 * slant
	}
	return v
}

func textLines(e *plan.Edge) []string { return wrap(edgeText(e), edgeWide, 4) }

func boxWidth(lines []string) float64 {
	w := 0.0
	for _, l := range lines {
		w = max(w, widthOf(l)+6)
	}
	return w
}

func (p *picture) vertex(v *vertex) {
	left, top := v.x-v.w/2, v.y-v.h/2
	switch {
	case v.node == isBend:
	case v.node == isText:
		p.label(v.x, v.y, v.w, v.h, v.lines)
	case v.node < 0:
		p.add(`<rect x="%s" y="%s" width="%s" height="%s" rx="%s" fill="#262626"/>`, num(left), num(top), num(v.w), num(v.h), num(v.h/2))
		p.text(v.x, v.y, "#ffffff", v.lines)
	default:
		p.node(v, &p.f.Nodes[v.node])
	}
}

func (p *picture) node(v *vertex, n *plan.Node) {
	fill, stroke, dash := "#f0f5ff", "#2f54eb", ""
	if p.states != nil {
		state := p.states.of(n.ID)
		at := slices.IndexFunc(nodeStyles, func(l nodeStyle) bool { return l.state == state })
		if fill, stroke = nodeStyles[max(at, 0)].fill, nodeStyles[max(at, 0)].stroke; state == unreached {
			dash = ` stroke-dasharray="5 3"`
		}
	}
	shape := func(in float64) string {
		l, t, w, h := v.x-v.w/2+in, v.y-v.h/2+in, v.w-2*in, v.h-2*in
		if n.Deferred {
			return fmt.Sprintf(`<polygon points="%s,%s %s,%s %s,%s %s,%s %s,%s %s,%s"`, num(l), num(v.y), num(l+slant), num(t), num(l+w-slant), num(t),
				num(l+w), num(v.y), num(l+w-slant), num(t+h), num(l+slant), num(t+h))
		}
		return fmt.Sprintf(`<rect x="%s" y="%s" width="%s" height="%s" rx="5"`, num(l), num(t), num(w), num(h))
	}
	p.add(`<g data-node="%s"><title>%s</title>`, escaped(printable(n.ID)), escaped(printable(n.ID)))
	p.add(`%s fill="%s" stroke="%s" stroke-width="1.5"%s/>`, shape(0), fill, stroke, dash)
	if n.Exit {
		p.add(`%s fill="none" stroke="%s"%s/>`, shape(3.5), stroke, dash)
	}
	p.text(v.x, v.y, "#141414", v.lines)
	p.add(`</g>`)
	for k, e := range v.loops {
		lines := textLines(&p.f.Edges[e])
		if len(lines) > 0 {
			h := float64(len(lines))*lineHeight + 4
			p.label(v.x+v.w/2+loopWidth+boxWidth(lines)/2, v.y+float64(k)*h, boxWidth(lines), h, lines)
		}
	}
}

// label draws an edge's text on the background colour, so that the line does not cross it.
func (p *picture) label(x, y, w, h float64, lines []string) {
	p.add(`<rect x="%s" y="%s" width="%s" height="%s" fill="#ffffff"/>`, num(x-w/2), num(y-h/2), num(w), num(h))
	p.text(x, y, "#434343", lines)
}

// text draws centred lines.
func (p *picture) text(x, y float64, colour string, lines []string) {
	p.b.WriteString(`<text text-anchor="middle" fill="` + colour + `">`)
	base := y - float64(len(lines))*lineHeight/2 + lineHeight - 4.5
	for i, l := range lines {
		fmt.Fprintf(&p.b, `<tspan x="%s" y="%s">%s</tspan>`, num(x), num(base+float64(i)*lineHeight), escaped(l))
	}
	p.b.WriteString("</text>\n")
}

// edges draws all edges, ordered at each node so that they do not cross near it.
func (p *picture) edges() {
	out, in := p.ports()
	for i := range p.links {
		way := p.way(&p.links[i], out[i], in[i])
		var d strings.Builder
		fmt.Fprintf(&d, "M%s %s", num(way[0].x), num(way[0].y))
		for k := 1; k < len(way); k++ {
			a, b := way[k-1], way[k]
			if a.x == b.x {
				fmt.Fprintf(&d, "V%s", num(b.y))
				continue
			}
			mid := num((a.y + b.y) / 2)
			fmt.Fprintf(&d, "C%s %s %s %s %s %s", num(a.x), mid, num(b.x), mid, num(b.x), num(b.y))
		}
		p.add(`<path d="%s" marker-end="url(#arrow)"/>`, d.String())
	}
	for i := range p.vertices {
		v := &p.vertices[i]
		for range v.loops {
			right, dy := v.x+v.w/2, v.h/4
			p.add(`<path d="M%s %sC%s %s %s %s %s %s" marker-end="url(#arrow)"/>`, num(right), num(v.y-dy),
				num(right+loopWidth), num(v.y-dy-6), num(right+loopWidth), num(v.y+dy+6), num(right), num(v.y+dy))
		}
	}
}

type point struct{ x, y float64 }

// way returns the points of an edge in its direction. Within a rank the edge is vertical, so that it
// crosses no vertex; it bends between ranks.
func (p *picture) way(l *link, out, in float64) []point {
	var way []point
	for k, at := range l.path {
		v := &p.vertices[at]
		switch k {
		case 0:
			way = append(way, point{out, v.y + v.h/2}, point{out, v.y + v.tall/2})
		case len(l.path) - 1:
			way = append(way, point{in, v.y - v.tall/2}, point{in, v.y - v.h/2})
		default:
			way = append(way, point{v.x, v.y - v.tall/2}, point{v.x, v.y + v.tall/2})
		}
	}
	// A segment of length zero would have no direction for the arrow.
	way = slices.Compact(way)
	if l.back {
		slices.Reverse(way)
	}
	return way
}

// ports returns where each link leaves its upper vertex and where it enters its lower one.
func (p *picture) ports() (out, in []float64) {
	out, in = make([]float64, len(p.links)), make([]float64, len(p.links))
	below, above := make([][]int, len(p.vertices)), make([][]int, len(p.vertices))
	for i, l := range p.links {
		below[l.path[0]] = append(below[l.path[0]], i)
		above[l.path[len(l.path)-1]] = append(above[l.path[len(l.path)-1]], i)
	}
	for v := range p.vertices {
		p.spread(&p.vertices[v], below[v], out, func(l *link) int { return l.path[1] })
		p.spread(&p.vertices[v], above[v], in, func(l *link) int { return l.path[len(l.path)-2] })
	}
	return out, in
}

// spread distributes links along a side of a node.
func (p *picture) spread(v *vertex, links []int, at []float64, next func(*link) int) {
	slices.SortStableFunc(links, func(a, b int) int {
		return cmp.Compare(p.vertices[next(&p.links[a])].x, p.vertices[next(&p.links[b])].x)
	})
	room := min(v.w*0.6, float64(len(links)-1)*24)
	for i, l := range links {
		at[l] = v.x
		if len(links) > 1 {
			at[l] += room * (float64(i)/float64(len(links)-1) - 0.5)
		}
	}
}

// Measures of text, in pixels.
const (
	fontSize   = 13
	lineHeight = 17
)

// runeWidth estimates the width of a character in a sans-serif font, with a bias to too wide.
func runeWidth(r rune) float64 {
	switch {
	case r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r >= 0x1f000 || r >= 0xff00 && r < 0xff61):
		return 13.5
	case strings.ContainsRune("iljtf.,:;!|'()[] ", r):
		return 4.5
	case unicode.IsUpper(r), strings.ContainsRune("mwMW@%—…", r):
		return 9.5
	}
	return 7.5
}

func widthOf(s string) float64 {
	w := 0.0
	for _, r := range s {
		w += runeWidth(r)
	}
	return w
}

// wrap breaks a text into lines of limited width, preferably between words, and truncates it after most lines.
func wrap(s string, width float64, most int) []string {
	var lines []string
	for _, word := range strings.Fields(printable(s)) {
		for word != "" && len(lines) <= most {
			// A part of a word that is too wide gets its own line.
			piece := fitting(word, width)
			word = word[len(piece):]
			if n := len(lines); n > 0 && widthOf(lines[n-1]+" "+piece) <= width {
				lines[n-1] += " " + piece
			} else {
				lines = append(lines, piece)
			}
		}
	}
	if len(lines) > most {
		lines = lines[:most]
		lines[most-1] += "…"
	}
	return lines
}

// fitting returns the longest prefix of a word that fits the width, at least one character.
func fitting(word string, width float64) string {
	w := 0.0
	for i, r := range word {
		if w += runeWidth(r); w > width && i > 0 {
			return word[:i]
		}
	}
	return word
}

// printable removes control characters, bidirectional marks and characters that XML does not allow.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == 0xfffe, r == 0xffff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// escaped escapes a text for XML elements and attributes.
func escaped(s string) string { return escapes.Replace(s) }
