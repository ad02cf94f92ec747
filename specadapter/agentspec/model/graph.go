package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// graph is the control flow of a flow, by node numbers.
type graph struct {
	*Flow
	edges   []ControlEdge // Control, followed by invalidControl
	out     [][]int       // indexes of the edges that leave each node
	in      []int         // number of edges that enter each node
	reached []bool
	// broken caches declaredByBroken.
	broken map[string]bool
}

func newGraph(f *Flow) *graph {
	g := &graph{Flow: f, edges: append(f.Control[:len(f.Control):len(f.Control)], f.invalidControl...), out: make([][]int, len(f.Nodes)), in: make([]int, len(f.Nodes)), reached: make([]bool, len(f.Nodes))}
	for i, e := range g.edges {
		from := f.index[e.From]
		g.out[from] = append(g.out[from], i)
		g.in[f.index[e.To]]++
	}
	if f.Has(f.Start) {
		g.walk(f.index[f.Start], g.reached, func(int) bool { return true })
	}
	return g
}

func (g *graph) walk(from int, seen []bool, pass func(node int) bool) (steps int) {
	seen[from] = true
	todo := []int{from}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !pass(n) {
			continue
		}
		for _, i := range g.out[n] {
			steps++
			if to := g.index[g.edges[i].To]; !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return steps
}

func (l *loader) checkBranches(c *Component, g *graph) {
	for n, node := range g.Nodes {
		if node.Type.ActsAs("StartNode") || node.Type.ActsAs("EndNode") || node.Type.Unknown || node.broken {
			continue
		}
		taken := map[string]bool{}
		for _, i := range g.out[n] {
			e := &g.edges[i]
			if taken[e.Branch] && i < len(g.Control) {
				l.Errorf(e.At, "branch-two-edges", "keep one edge for each branch; use a ParallelFlowNode to run in parallel",
					"more than one edge leaves %s%s", node, e.by())
			}
			taken[e.Branch] = true
		}
		for _, b := range node.Branches {
			if !taken[b] && g.reached[n] {
				l.Warnf(l.itemAt(c, "nodes", n), "branch-unconnected", "add a ControlFlowEdge from it", "no edge leaves %s by the branch %s; a run that takes it cannot continue",
					node, source.Quote(b))
			}
		}
	}
}

// checkReach reports unreachable nodes. It returns whether the flow is complete enough to check its data.
func (l *loader) checkReach(c *Component, g *graph) bool {
	if c.broken || !g.Has(g.Start) || len(g.out[g.index[g.Start]]) == 0 {
		return false
	}
	for n, node := range g.Nodes {
		// End nodes without edges are reported by checkEnds.
		if !g.reached[n] && (!node.Type.ActsAs("EndNode") || len(g.out[n]) > 0 || g.in[n] > 0) && !node.Type.ActsAs("StartNode") {
			l.Strictf(l.itemAt(c, "nodes", n), "node-unreachable", "add an edge to it or remove it", "%s of %s cannot be reached from its start", node, c)
		}
	}
	return true
}

// checkLoops reports cycles without branches in which no node waits; only a limit of the run ends them.
func (l *loader) checkLoops(g *graph) {
	mark := make([]int, len(g.Nodes)) // the walk that visited the node, from 1
	for start := range g.Nodes {
		n := start
		for mark[n] == 0 && g.single(n) {
			mark[n] = start + 1
			n = g.index[g.edges[g.out[n][0]].To]
		}
		if mark[n] != start+1 || !g.single(n) {
			continue
		}
		waits, names := false, []string(nil)
		for i := n; ; {
			waits = waits || g.Nodes[i].yields != ""
			names = append(names, g.Nodes[i].Name)
			if i = g.index[g.edges[g.out[i][0]].To]; i == n {
				break
			}
		}
		if !waits {
			l.Warnf(g.edges[g.out[n][0]].At, "loop-unbounded", "add a BranchingNode with a branch out of the loop", "the loop of %s never ends", list(names))
		}
	}
}

func (g *graph) single(n int) bool {
	return len(g.out[n]) == 1 && len(g.Nodes[n].Branches) <= 1
}

// checkData reports inputs that have no source, and inputs that only some paths feed.
func (l *loader) checkData(c *Component, g *graph) {
	if slices.ContainsFunc(g.Nodes, func(n *Component) bool { return n.Type.Unknown }) {
		return // its inputs and outputs are unknown
	}
	l.connectByTitle(c, g)
	// A node with invalid properties may have an output with the title of another's input.
	var unsure *Component
	if i := slices.IndexFunc(g.Nodes, func(n *Component) bool {
		return n.broken && !n.outs && !(l.rulesOf(n.Type).own && n.source.Get("outputs") == nil)
	}); i >= 0 && g.Public {
		unsure = g.Nodes[i]
	}
	feeds := g.feeds(l, c)
	for n, node := range g.Nodes {
		if !g.reached[n] || node.Type.ActsAs("StartNode") || node.broken && !l.rulesOf(node.Type).own {
			continue
		}
		for _, in := range node.Inputs {
			if node.needs(in) {
				l.checkFed(c, g, n, in, feeds, unsure)
			}
		}
	}
	if !g.partial {
		l.checkMaps(c, g)
	}
}

// checkFed checks the sources of a required input of node n.
func (l *loader) checkFed(c *Component, g *graph, n int, in *Property, feeds map[key][]int, unsure *Component) {
	at := l.itemAt(c, "nodes", n)
	if g.Nodes[n].ins {
		at = in.At
	}
	switch sources, fed := feeds[key{n, in.Title}]; {
	case !fed && unsure != nil && g.declaredByBroken()[in.Title]:
	case !fed && unsure != nil:
		l.Warnf(at, "input-unfed", feedIt, "no value for the input %s of %s, and no output has that title, unless %s gives it, which has errors", source.Quote(in.Title), g.Nodes[n], unsure)
	case !fed:
		// If no output has the title, the input must be passed to the run. Otherwise an edge is missing, which is an error if a
		// run can reach the node.
		text := fmt.Sprintf("no value for the input %s of %s", source.Quote(in.Title), g.Nodes[n])
		if g.Nodes[n].Type.ActsAs("EndNode") || c.Flow.HasOutput(in.Title) {
			l.missingEdges = append(l.missingEdges, missingEdge{c, at, text})
			return
		}
		l.Warnf(at, "input-unfed", feedIt, "%s, and no output has that title: it must be passed at the start of a run", text)
	case len(sources) > 0 && !g.partial:
		l.maybeUnfed(g, at, n, in, sources)
	}
}

// declaredByBroken returns the titles that nodes with errors declare.
func (g *graph) declaredByBroken() map[string]bool {
	if g.broken == nil {
		g.broken = map[string]bool{}
		for _, n := range g.Nodes {
			for _, p := range slices.Concat(n.source.Get("inputs").Elements(), n.source.Get("outputs").Elements()) {
				if title := p.Get("title"); n.broken && title != nil {
					g.broken[title.Text] = true
				}
			}
		}
	}
	return g.broken
}

const feedIt = "add a DataFlowEdge to it or a default"

type missingEdge struct {
	flow *Component
	at   source.Pos
	text string
}

// reportMissingEdges reports inputs that lack an edge; in flows that the main component does not use, as warnings.
func (l *loader) reportMissingEdges() {
	var used map[*Component]bool
	if l.doc.Root != nil && len(l.missingEdges) > 0 {
		used = map[*Component]bool{}
		l.doc.Root.mark(used)
	}
	for _, f := range l.missingEdges {
		if used == nil || used[f.flow] {
			l.Errorf(f.at, "input-unfed", feedIt, "%s", f.text)
		} else {
			l.Warnf(f.at, "input-unfed", feedIt, "%s; the main component does not have this flow", f.text)
		}
	}
}

func (c *Component) mark(seen map[*Component]bool) {
	if seen[c] {
		return
	}
	seen[c] = true
	for part := range c.parts() {
		part.mark(seen)
	}
}

// HasOutput reports whether a node of the flow has an output with the title.
func (f *Flow) HasOutput(title string) bool {
	if f.titles == nil {
		f.titles = map[string]bool{}
		for _, n := range f.Nodes {
			for _, o := range n.Outputs {
				f.titles[o.Title] = f.titles[o.Title] || !n.Type.ActsAs("EndNode")
			}
		}
	}
	return f.titles[title]
}

type key struct {
	node  int
	input string
}

// inner returns the part of a node that has the node's inputs and outputs, or nil.
func (c *Component) inner() *Component {
	return cmp.Or(c.Component("subflow"), c.Component("agent"), c.Component("tool"))
}

// InnerInput returns the input of a node's part that corresponds to an input of the node, or nil.
func (c *Component) InnerInput(title string) *Property {
	part := c.inner()
	if part == nil {
		return nil
	}
	title = c.InnerName(catalog.InputMapping, title)
	return cmp.Or(part.Input(title), part.Input(Inside(title)))
}

// InnerOutput returns the output of a node's part that corresponds to an output of the node, or nil.
func (c *Component) InnerOutput(title string) *Property {
	if part := c.inner(); part != nil {
		return part.Output(c.InnerName(catalog.OutputMapping, title))
	}
	return nil
}

// needs reports whether a node's input must have a source: it is used and has no default.
func (c *Component) needs(in *Property) bool {
	if p := c.InnerInput(in.Title); p != nil && p.Default != nil {
		return false
	}
	return in.Default == nil && !in.Unused
}

// connectByTitle treats an empty list of data edges as null if an input would have no value otherwise.
func (l *loader) connectByTitle(c *Component, g *graph) {
	f := c.Field("data_flow_connections")
	if l.Strict || f == nil || len(g.Data) > 0 || len(f.Components) > 0 {
		return
	}
	for n, node := range g.Nodes {
		if !g.reached[n] || node.Type.ActsAs("StartNode") {
			continue
		}
		for _, in := range node.Inputs {
			if node.needs(in) {
				l.Warnf(f.At, "data-edges-empty", "use null, or list the edges", "%s has an empty list of data edges, so input %s of %s would have no value; it is read as null: outputs feed inputs of the same title",
					c, source.Quote(in.Title), node)
				g.Public = true
				return
			}
		}
	}
}

// feeds returns the nodes that feed each input; the list is empty if an edge to the input has an error.
func (g *graph) feeds(l *loader, c *Component) map[key][]int {
	if g.Public {
		return g.byTitle(l, c)
	}
	out := map[key][]int{}
	for _, e := range g.Data {
		// A node cannot feed its own first execution, and an end does not feed others.
		if e.From == e.To || e.From.Type.ActsAs("EndNode") {
			continue
		}
		k := key{g.index[e.To], e.Input}
		out[k] = append(out[k], g.index[e.From])
	}
	for _, e := range g.invalidData {
		out[key{g.index[e.To], e.Input}] = nil
	}
	return out
}

// byTitle is feeds for a flow without data edges. It checks the types of outputs and inputs of the same title.
func (g *graph) byTitle(l *loader, c *Component) map[key][]int {
	titles := map[string][]int{}
	types := map[string][]*Property{} // one output for each type of a title
	for n, node := range g.Nodes {
		if node.Type.ActsAs("EndNode") {
			continue
		}
		for _, o := range node.Outputs {
			titles[o.Title] = append(titles[o.Title], n)
			if !slices.ContainsFunc(types[o.Title], func(p *Property) bool { return p.Type == o.Type }) && l.work(c.At, 1+len(types[o.Title])) {
				types[o.Title] = append(types[o.Title], o)
			}
		}
	}
	out := map[key][]int{}
	for n, node := range g.Nodes {
		for _, in := range node.Inputs {
			from := titles[in.Title]
			if node.Type.ActsAs("StartNode") || len(from) == 0 || len(from) == 1 && from[0] == n {
				continue
			}
			out[key{n, in.Title}] = from
			for _, o := range types[in.Title] {
				if !l.castable(in.At, o.Type, in.Type) {
					l.Errorf(l.itemAt(c, "nodes", n), "data-edge-castable", "use compatible types or add data edges", "input %s of %s is %s, but an output of that title, at %s, is %s",
						source.Quote(in.Title), node, in.Type, l.where(o.At, in.At), o.Type)
				}
			}
		}
	}
	return out
}

// maybeUnfed reports an input that a run can reach before any of its sources.
func (l *loader) maybeUnfed(g *graph, at source.Pos, n int, in *Property, sources []int) {
	start := g.index[g.Start]
	if slices.Contains(sources, start) {
		return
	}
	if l.skipPaths || len(g.Control) > maxSteps/4-l.steps {
		if !l.skipPaths {
			l.Infof(at, "input-maybe-unfed", "", "the flow is too large to check all paths to its inputs; checking stops here")
		}
		l.skipPaths = true
		return
	}
	stop := make([]bool, len(g.Nodes))
	for _, s := range sources {
		stop[s] = true
	}
	stop[n] = true
	seen := make([]bool, len(g.Nodes))
	l.steps += g.walk(start, seen, func(node int) bool { return !stop[node] }) + len(sources) + len(g.Nodes)/4
	if seen[n] {
		l.Warnf(at, "input-maybe-unfed", "add a default, or a DataFlowEdge from a node that always runs before it",
			"a run can reach %s before its input %s has a value", g.Nodes[n], source.Quote(in.Title))
	}
}

func (l *loader) checkMaps(c *Component, g *graph) {
	for n, node := range g.Nodes {
		if !isMap(node) || unknownIO(node) || unknownIO(node.Component("subflow")) {
			continue
		}
		if len(g.Iterates(node)) == 0 {
			l.Warnf(l.itemAt(c, "nodes", n), "map-nothing-iterated", "connect an output of type array to an input iterated_...", "%s has no array to iterate over; it runs its subflow once", node)
		}
	}
}

// Iterates returns the inputs of a MapNode or ParallelMapNode that receive a list with a value
// per iteration; all others receive one value for all iterations. This depends on the type of
// the source, not on the value.
func (f *Flow) Iterates(node *Component) []string {
	sub := node.Component("subflow")
	if sub == nil {
		return nil
	}
	f.findLists()
	found := map[string]bool{}
	look := func(list *Shape, input string) {
		inner := sub.Input(Inside(input))
		if inner == nil || inner.Type == nil {
			return
		}
		// A list for an input of type array is a single value, unless it is a list of lists.
		if inner.Type.Kind != ArrayShape || list.Items.Kind == ArrayShape {
			found[input] = true
		}
	}
	for _, i := range f.into[node] {
		e := &f.Data[i]
		if o := e.From.Output(e.Output); o != nil && o.Type != nil && o.Type.Kind == ArrayShape {
			look(o.Type, e.Input)
		}
	}
	if f.Public {
		for _, in := range node.Inputs {
			for _, list := range f.lists[in.Title] {
				look(list, in.Title)
			}
		}
	}
	return sorted(found)
}

// findLists creates the indexes of Iterates, with at most two array types per title.
func (f *Flow) findLists() {
	if f.into != nil {
		return
	}
	f.into, f.lists = map[*Component][]int{}, map[string][]*Shape{}
	for i, e := range f.Data {
		f.into[e.To] = append(f.into[e.To], i)
	}
	for _, n := range f.Nodes {
		for _, o := range n.Outputs {
			if o.Type == nil || o.Type.Kind != ArrayShape || n.Type.ActsAs("EndNode") {
				continue
			}
			nested := o.Type.Items.Kind == ArrayShape
			if !slices.ContainsFunc(f.lists[o.Title], func(s *Shape) bool { return (s.Items.Kind == ArrayShape) == nested }) {
				f.lists[o.Title] = append(f.lists[o.Title], o.Type)
			}
		}
	}
}

// Inside returns the subflow's name of a MapNode's input.
func Inside(title string) string {
	return strings.TrimPrefix(title, Iterated)
}
