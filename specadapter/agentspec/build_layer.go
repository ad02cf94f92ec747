package agentspec

import (
	"strconv"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// layer is the work on one flow, or on a subflow in its place in another.
type layer struct {
	b    *builder
	flow *model.Component
	// path is what the ids of its nodes begin with: the FlowNode, and /.
	path string
	// start is the state key from which the start node takes an input, and defaults replace missing ones.
	start    func(title string) string
	defaults func(title string) *model.Property
	// outs are what its end nodes leave.
	outs []plan.Out

	number map[*model.Component]int
	// reads are the keys of inputs, writes those to which an output goes.
	reads  map[port]string
	writes map[port][]string
	ids    map[*model.Component]string
	ways   map[*model.Component]*way
}

type port struct {
	node  *model.Component
	title string
}

type way struct {
	entry string
	exits []exit
}

// exit is a node of the plan by which control leaves; label reports whether it has several branches.
type exit struct {
	id, branch string
	label      bool
	at         source.Pos
}

// build makes the nodes, and returns where the flow begins and ends.
func (s *layer) build() (entry string, ends []exit) {
	s.number, s.ids, s.ways = map[*model.Component]int{}, map[*model.Component]string{}, map[*model.Component]*way{}
	for i, n := range s.flow.Flow.Nodes {
		s.number[n] = i
		s.ids[n] = s.b.id(s.path, n)
	}
	s.connect()
	for _, n := range s.flow.Flow.Nodes {
		if s.b.full {
			return "", nil
		}
		s.ways[n] = s.node(n)
		if n.Type.ActsAs("EndNode") {
			ends = append(ends, s.ways[n].exits...)
		}
	}
	for _, e := range s.flow.Flow.Control {
		for _, x := range s.ways[e.From].exits {
			if x.branch != e.Branch {
				continue
			}
			edge := plan.Edge{From: x.id, To: s.ways[e.To].entry}
			if x.label {
				edge.Branch = e.Branch
			}
			s.b.edge(edge, e.At)
		}
	}
	return s.ways[s.flow.Flow.Start].entry, ends
}

// connect assigns state keys: one to each output, or one to an input that several outputs feed.
func (s *layer) connect() {
	sources := map[port][]port{}
	if s.flow.Flow.Public {
		titles := map[string][]port{}
		for _, n := range s.flow.Flow.Nodes {
			if n.Type.ActsAs("EndNode") {
				continue
			}
			for _, p := range n.Outputs {
				titles[p.Title] = append(titles[p.Title], port{n, p.Title})
			}
		}
		for _, n := range s.flow.Flow.Nodes {
			for _, p := range n.Inputs {
				sources[port{n, p.Title}] = titles[p.Title]
			}
		}
	} else {
		for _, e := range s.flow.Flow.Data {
			to := port{e.To, e.Input}
			if !e.From.Type.ActsAs("EndNode") {
				sources[to] = append(sources[to], port{e.From, e.Output})
			}
		}
	}
	s.reads, s.writes = map[port]string{}, map[port][]string{}
	known := map[string]string{}
	for _, n := range s.flow.Flow.Nodes {
		if n.Type.ActsAs("StartNode") {
			continue
		}
		for _, p := range n.Inputs {
			to := port{n, p.Title}
			if from := sources[to]; len(from) > 0 {
				s.reads[to] = s.key(to, from, known)
			}
		}
	}
}

// key is the state key of an input that has these sources.
func (s *layer) key(to port, from []port, known map[string]string) string {
	var name strings.Builder
	for _, p := range from {
		name.WriteString(strconv.Itoa(s.number[p.node]) + "." + strconv.Quote(p.title) + " ")
	}
	if k, ok := known[name.String()]; ok {
		return k
	}
	k := "$" + s.ids[from[0].node] + "." + from[0].title
	if len(from) > 1 {
		k = "$" + s.ids[to.node] + ".@." + to.title
	}
	known[name.String()] = k
	for _, p := range from {
		s.writes[p] = append(s.writes[p], k)
	}
	return k
}

func (s *layer) ins(n *model.Component) []plan.In {
	var out []plan.In
	for _, p := range n.Inputs {
		if p.Unused {
			continue
		}
		in := input(p, s.reads[port{n, p.Title}])
		in.Name = n.InnerName(catalog.InputMapping, p.Title)
		if inner := n.InnerInput(p.Title); in.Default == nil && inner != nil {
			in.Default = jsonOf(inner.Default)
		}
		if in.Key == "" && in.Default == nil && !n.Type.ActsAs("EndNode") && !s.flow.Flow.Gives(p.Title) {
			in.Key = plan.InKey(p.Title)
			s.b.outer = append(s.b.outer, p)
		}
		out = append(out, in)
	}
	return out
}

func (s *layer) leaves(n *model.Component) []plan.Out {
	var out []plan.Out
	for _, p := range n.Outputs {
		o := output(p)
		o.Name = n.InnerName(catalog.OutputMapping, p.Title)
		o.Keys = s.writes[port{n, p.Title}]
		if inner := n.InnerOutput(p.Title); o.Default == nil && inner != nil {
			o.Default = jsonOf(inner.Default)
		}
		out = append(out, o)
	}
	return out
}
