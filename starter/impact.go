package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/starter/history"
	"weft/worker/config"
	"weft/workflows/plan"
)

// What an edited flow means to a run under way.
const (
	// impactNone: nothing that the run can still reach is another.
	impactNone = "untouched"
	// impactMove: what is another has not begun, so that the run could go on with the new flow
	// from its next boundary.
	impactMove = "movable"
	// impactPinned: what is another is under way, or what the run did is not in the new flow.
	impactPinned = "pinned"
	// impactUnknown: nobody knows what the run runs.
	impactUnknown = "unknown"
)

// impacted is a run and what an edited flow means to it.
type impacted struct {
	Run    string `json:"run"`
	Impact string `json:"impact"`
	// Because are the nodes that decide it.
	Because []impactNode `json:"because,omitempty"`
}

// impactNode is a node that is another in the new flow; At is its place there or, where it is
// gone, in the old one.
type impactNode struct {
	Node      string `json:"node,omitempty"`
	At        string `json:"at,omitempty"`
	Execution string `json:"execution,omitempty"`
	Text      string `json:"text"`
}

// impact says what an edited flow means to the open runs of the flow with its name.
func (a *app) impact(ctx context.Context, _ []string) error {
	if a.flags.flow == "" {
		return bad("impact wants the edited flow; usage: starter impact -flow FILE")
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	res, err := a.compile(cfg, a.flags.flow, true)
	if err != nil {
		return err
	}
	temporal, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if a.flags.name == "" {
		a.flags.name = res.Flow.Name
	}
	wanted, err := a.filter(ctx, temporal)
	if err != nil {
		return err
	}
	wanted.limit = 0
	runs, _, err := findRuns(ctx, temporal, wanted)
	if err != nil {
		return err
	}
	out := []impacted{}
	for _, r := range runs {
		x, err := a.impactOn(ctx, temporal, r.ID, res)
		if err != nil {
			x = impacted{Run: r.ID, Impact: impactUnknown, Because: []impactNode{{Text: err.Error()}}}
		}
		out = append(out, x)
	}
	switch a.flags.output {
	case outputJSON:
		a.object(out)
	case outputLines:
		for _, x := range out {
			a.object(x)
		}
	default:
		a.impactTable(out)
	}
	return nil
}

// impactOn says what the new flow means to one run.
func (a *app) impactOn(ctx context.Context, t *config.Temporal, id string, res *specadapter.Result) (impacted, error) {
	about, err := a.describe(ctx, t, id)
	if err != nil {
		return impacted{}, err
	}
	read, err := readTree(ctx, history.From(t.Client), id, about.run)
	if err != nil {
		return impacted{}, err
	}
	all, err := a.facts(ctx, t, about, read)
	if err != nil {
		return impacted{}, err
	}
	return weigh(all[0], res.Flow, &res.Source), nil
}

// was is the flow that a run was started with, before the run's own connections and limits
// came into it.
func was(v *visit) *plan.Flow {
	switch {
	case v.input != nil && v.input.Flow.Plan != nil:
		return v.input.Flow.Plan
	case v.compiled != nil:
		return v.compiled.Plan
	}
	return v.flow
}

// weigh decides what a new flow means to a run.
func weigh(f *runFacts, flow *plan.Flow, source *plan.Source) impacted {
	out := impacted{Run: f.visit.id, Impact: impactNone}
	old := was(f.visit)
	changed := changes(old, flow, source, f.visit.input != nil && f.visit.input.Model != "")
	place := func(node string) string { return impactPlace(f, flow, source, node) }
	live := f.live()
	begun := len(f.st.Executions)+len(live) > 0
	within := func(string) bool { return true }
	if begun {
		within = reached(live, old, flow)
	}
	var pinned, moved []impactNode
	for _, c := range changed {
		switch exec, runs := live[c.Node]; {
		case c.Node == "" && begun:
			pinned = append(pinned, c)
		case runs && !waitsToBegin(f, c.Node):
			c.At, c.Execution = place(c.Node), exec
			c.Text += ", and is under way"
			pinned = append(pinned, c)
		case within(c.Node):
			c.At = place(c.Node)
			moved = append(moved, c)
		}
	}
	if len(moved) > 0 || len(pinned) > 0 {
		pinned = append(pinned, lost(f, old, flow, place)...)
	}
	switch {
	case len(pinned) > 0:
		out.Impact, out.Because = impactPinned, pinned
	case len(moved) > 0:
		out.Impact, out.Because = impactMove, moved
	}
	return out
}

// impactPlace is where a node is in the new flow or, where it is gone, in the old one. START is where
// the first edge out of it is.
func impactPlace(f *runFacts, flow *plan.Flow, source *plan.Source, node string) string {
	switch entry := slices.IndexFunc(flow.Edges, func(e plan.Edge) bool { return e.From == plan.Start }); {
	case node == plan.Start && entry >= 0:
		return source.At(plan.EdgePath(entry))
	case node == plan.Start || flow.Node(node) == nil:
		return f.visit.source.At(plan.NodePath(node))
	}
	return source.At(plan.NodePath(node))
}

// live are the executions that have not ended, by node.
func (f *runFacts) live() map[string]string {
	live := map[string]string{}
	for _, n := range f.report().Nodes {
		for _, x := range n.Executions {
			if x.State != whyDone {
				live[n.Node] = x.Execution
			}
		}
	}
	return live
}

// waitsToBegin says whether all that lives of a node only waits for a join.
func waitsToBegin(f *runFacts, node string) bool {
	return !slices.ContainsFunc(f.st.Running, func(x string) bool { return history.ExecutionOf(escaped(x)).Node == node })
}

// reached says of nodes whether what lives can come to them, or has not begun them.
func reached(live map[string]string, flows ...*plan.Flow) func(string) bool {
	reach := map[string]bool{}
	for node := range live {
		reach[node] = true
	}
	for grown := true; grown; {
		grown = false
		for _, f := range flows {
			for _, e := range f.Edges {
				if reach[e.From] && !reach[e.To] {
					reach[e.To], grown = true, true
				}
			}
		}
	}
	return func(node string) bool { return reach[node] }
}

// lost is what a run did and the new flow has no place for.
func lost(f *runFacts, old, flow *plan.Flow, place func(string) string) []impactNode {
	var out []impactNode
	ways := func(x *contract.Execution, label string) {
		for _, id := range x.Taken {
			was := edgeOf(old, id)
			if was == nil {
				continue
			}
			text := ""
			switch is := keptEdge(flow, *was); {
			case is == nil:
				text = fmt.Sprintf("it left by the edge to %s, which is gone", was.To)
			case was.To != is.To:
				text = fmt.Sprintf("it left by the edge to %s, which leads to %s now", was.To, is.To)
			default:
				continue
			}
			out = append(out, impactNode{Node: x.Node, At: place(x.Node), Execution: label, Text: text})
		}
	}
	if f.st.Entry != nil {
		ways(f.st.Entry, "")
	}
	for i := range f.st.Executions {
		x := &f.st.Executions[i]
		if flow.Node(x.Node) == nil {
			out = append(out, impactNode{Node: x.Node, At: place(x.Node), Execution: history.Label(*x), Text: "it ran, and is gone"})
			continue
		}
		ways(x, history.Label(*x))
	}
	return out
}

// impactTable prints runs as lines.
func (a *app) impactTable(all []impacted) {
	if len(all) == 0 {
		a.say("no open run is one of the flow %q; -name names another", clean(a.flags.name, 200))
		return
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, x := range all {
		if len(x.Because) == 0 {
			fmt.Fprintf(w, "%s\t%s\t\n", x.Impact, clean(x.Run, 200))
		}
		for i, n := range x.Because {
			impact, run := x.Impact, clean(x.Run, 200)
			if i > 0 {
				impact, run = "", ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", impact, run, clean(impactLine(&n), 500))
		}
	}
	w.Flush()
}

func impactLine(n *impactNode) string {
	line := n.Node
	if n.Execution != "" {
		line = n.Execution
	}
	if n.At != "" {
		line += " (" + n.At + ")"
	}
	return strings.TrimPrefix(line+": "+n.Text, ": ")
}
