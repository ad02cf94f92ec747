// Package fork builds the input of a run that continues from a node of another run and reuses all results
// before that node.
package fork

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/starter/history"
	"weft/starter/impact"
	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/usage"
	"weft/starter/why"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// Options set where a fork starts and what it changes.
type Options struct {
	// From is the node: its id, its name, or one of its executions, node#step.
	From string
	// Set are state values for the node, Override replaces recorded results.
	Set, Override []input.Param
	// Flow, if not nil, replaces the flow. File is its name in messages.
	Flow *specadapter.Result
	File string
	// Model, Script and MaxSteps, if set, replace the values of the run.
	Model    string
	Script   []byte
	MaxSteps int
	Say      func(format string, args ...any)
}

type forking struct {
	*Options
	run  *runs.Run
	tree *runtree.Tree
	root *runtree.Workflow
}

// Input builds the input of a fork of a run from the run's tree.
func Input(ctx context.Context, run *runs.Run, tree *runtree.Tree, o Options) (*contract.RunInput, error) {
	f := &forking{&o, run.WithReplayTimeout(), tree, tree.Workflows[0]}
	set, err := f.set()
	if err != nil {
		return nil, err
	}
	in, err := f.changed()
	if err != nil {
		return nil, err
	}
	at, err := f.point(ctx)
	if err != nil {
		return nil, err
	}
	if len(tree.Missing) > 0 {
		return nil, usage.Errorf("the run %q cannot be forked: the history of %s is no longer retained", run.ID, plaintext.Line(tree.Missing[0], 200))
	}
	past, err := run.Records(ctx, tree, "")
	if err != nil {
		return nil, err
	}
	again := behind(at, f.root.Flow, in.Flow.Plan)
	past = slices.DeleteFunc(past, func(p runs.Record) bool { return again(&p.Execution) })
	if err := f.check(in.Flow.Plan, at, past); err != nil {
		return nil, err
	}
	replaced, content, err := override(in.Flow.Plan, past, o.Override, at)
	if err != nil {
		return nil, err
	}
	if in.Session || in.Flow.Plan.StartsSessions() {
		return in, f.wholeTurn(at, len(past), len(set))
	}
	in.Fork = &contract.ForkedFrom{From: contract.Run{Workflow: run.ID, Run: f.root.RunID}, Node: at.Node, Step: at.Step, Set: set, Replaced: replaced, Content: content}
	if in.Fork.Entry, err = f.entry(ctx, in.Flow.Plan); err != nil {
		return nil, err
	}
	if err := f.fill(ctx, in.Fork, past); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(in)
	if err != nil {
		return nil, usage.Errorf("encode the run's input: %v", err)
	}
	if len(encoded) > run.MaxInput() {
		return nil, usage.Errorf("the run %q cannot be forked at %s: the state before it has %d bytes, over the limit of %d; fork at an earlier node",
			run.ID, history.Label(at), len(encoded), run.MaxInput())
	}
	return in, nil
}

func (f *forking) set() (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, p := range f.Set {
		if contract.Reserved(p.Key) {
			return nil, usage.Errorf("-set has %q; keys that begin with $ are reserved", p.Key)
		}
		out[p.Key] = p.Raw
	}
	return out, nil
}

// wholeTurn returns an error for a fork of a session that does not start at its beginning: the state of its sessions cannot be copied.
func (f *forking) wholeTurn(at contract.Execution, past, set int) error {
	switch {
	case past > 0 || at.Step > 1:
		return usage.Errorf("the run %q is a session, whose sub-sessions cannot be copied to another run at %s; fork it at %s#1, its beginning, or send it another prompt", f.run.ID, history.Label(at), at.Node)
	case set > 0:
		return usage.Errorf("-set needs a fork after the first node; %q restarts with its own input: remove it", f.run.ID)
	}
	return nil
}

func (f *forking) changed() (*contract.RunInput, error) {
	switch {
	case f.root.Branch || f.root.Input != nil && f.root.Input.Depth > 0:
		return nil, usage.Errorf("%q belongs to another run; fork that run at the node that started it", f.run.ID)
	case f.root.Input == nil || f.root.Flow == nil:
		return nil, usage.Errorf("the run %q cannot be forked: its first history is no longer retained, or it never had a plan", f.run.ID)
	}
	in := *f.root.Input
	in.Fork, in.Components, in.ComponentIDs = nil, nil, nil
	switch {
	case f.Flow != nil:
		in.Flow = contract.FlowRef{Plan: f.Flow.Flow, Source: &f.Flow.Source}
	case in.Flow.Plan == nil && f.root.Compiled != nil:
		in.Flow = contract.FlowRef{Plan: f.root.Compiled.Plan, Source: &f.root.Compiled.Source}
	case in.Flow.Plan == nil:
		return nil, usage.Errorf("the run %q cannot be forked: its flow never compiled", f.run.ID)
	}
	in.MaxSteps = cmp.Or(f.MaxSteps, in.MaxSteps)
	in.Model = cmp.Or(f.Model, in.Model, f.root.Model) // a worker's default may have changed
	if f.Script != nil {
		in.Script = f.Script
	}
	return &in, nil
}

func (f *forking) point(ctx context.Context) (contract.Execution, error) {
	var none contract.Execution
	all, err := why.Gather(ctx, f.run, f.tree)
	if err != nil {
		return none, err
	}
	if err := all[0].NoAnswer; err != nil {
		return none, err
	}
	found, err := why.Select(all, f.From)
	if err != nil {
		return none, err
	}
	if found[0].Workflow != f.root {
		return none, usage.Errorf("the node %q belongs to the sub-agent at %s; fork at the node that called it", f.From, strings.TrimSuffix(found[0].Workflow.Place, " › "))
	}
	want := history.ExecutionOf(f.From)
	var labels []string
	for _, n := range found[0].Report().Nodes {
		for _, x := range n.Executions {
			joins := slices.ContainsFunc(x.Waits, func(w why.Wait) bool { return w.Kind == why.WaitJoin })
			if !joins && (want.Step == 0 || x.Execution == f.From) {
				labels = append(labels, x.Execution)
			}
		}
	}
	switch len(labels) {
	case 0:
		return none, usage.Errorf("the run %q has not started %q, so there is nothing to fork; see: starter why %s %s", f.run.ID, f.From, f.run.Quoted(), plaintext.ShellQuote(f.From))
	case 1:
		return history.ExecutionOf(why.Escaped(labels[0])), nil
	}
	return none, usage.Errorf("%q ran %d times; specify which with -from %s", f.From, len(labels), strings.Join(labels, " or "))
}

// behind returns a function that reports whether an execution must run again: the forked one, and executions after it of nodes that its node can reach in any of the flows.
func behind(at contract.Execution, flows ...*plan.Flow) func(*contract.Execution) bool {
	reach := map[string]bool{}
	impact.Reach(reach, []string{at.Node}, flows...)
	return func(x *contract.Execution) bool {
		return x.Node == at.Node && x.Step == at.Step && max(x.Occurrence, 1) == max(at.Occurrence, 1) || reach[x.Node] && x.Step > at.Step
	}
}

// check returns an error if the flow lacks nodes or edges of recorded executions, and warns of edits before the fork.
func (f *forking) check(flow *plan.Flow, at contract.Execution, past []runs.Record) error {
	if flow.Node(at.Node) == nil {
		return usage.Errorf("%s has no node %q, where the fork starts; keep it, or fork at another node", f.File, at.Node)
	}
	for i := range past {
		if p := &past[i]; flow.Node(p.Node) == nil {
			return usage.Errorf("%s has no node %q, which ran before %s (%s); keep it, or fork at it", f.File, p.Node, history.Label(at), f.root.Source.At(plan.NodePath(p.Node)))
		}
	}
	warned := map[string]bool{}
	for i := range past {
		p := &past[i]
		taken, missing := impact.KeptEdges(f.root.Flow, flow, p.Taken)
		if missing != "" {
			return usage.Errorf("%s has no edge %q, by which the run left %s; keep it, or fork at %s", f.File, missing, history.Label(p.Execution), p.Node)
		}
		p.Taken = taken
		if !warned[p.Node] && !impact.SameNode(f.root.Flow, flow, p.Node) {
			f.Say("warning: the node %s differs in %s but ran before %s: its recorded result is used", plaintext.Line(p.Node, 200), f.File, history.Label(at))
		}
		warned[p.Node] = true
	}
	return nil
}

func (f *forking) entry(ctx context.Context, flow *plan.Flow) (contract.Execution, error) {
	st, err := f.run.InTree(f.run.ID, f.root.RunID, f.root.Status).QueryStatus(ctx)
	if err != nil {
		return contract.Execution{}, err
	}
	if st.Entry == nil {
		return contract.Execution{}, usage.Errorf("the run %q cannot be forked: it has not left START, or an older build did not record how", f.run.ID)
	}
	out := *st.Entry
	taken, missing := impact.KeptEdges(f.root.Flow, flow, out.Taken)
	if missing != "" {
		return out, usage.Errorf("%s has no edge %q, by which the run came from START; keep it, or start the flow again", f.File, missing)
	}
	out.Node, out.Taken = plan.Start, taken
	return out, nil
}

func (f *forking) fill(ctx context.Context, k *contract.ForkedFrom, past []runs.Record) error {
	have := map[string]bool{"": true}
	for _, raw := range k.Content {
		have[contract.SHA(raw)] = true
	}
	for i := range past {
		p := &past[i]
		hashes := []string{p.SHA}
		for _, w := range p.Writes {
			hashes = append(hashes, w.SHA)
		}
		for _, sha := range hashes {
			if have[sha] {
				continue
			}
			have[sha] = true
			raw, err := p.Content(ctx, sha, f.run.MaxInput())
			if err != nil {
				return err
			}
			if raw == nil {
				return usage.Errorf("the run cannot be forked there: the output of %s alone is over %d bytes; fork at an earlier node", history.Label(p.Execution), f.run.MaxInput())
			}
			k.Content = append(k.Content, raw)
		}
		k.Executions = append(k.Executions, p.ExecutionRecord)
	}
	return nil
}

// override replaces recorded results, and returns the labels of the executions and their new content.
// Later nodes use the message of an execution and, in flows with values, the state that it wrote.
func override(flow *plan.Flow, past []runs.Record, results []input.Param, at contract.Execution) (labels []string, content []json.RawMessage, err error) {
	for _, r := range results {
		p, err := recordedOf(flow, past, r.Key, at)
		if err != nil {
			return nil, nil, err
		}
		v, err := value.Parse(r.Raw)
		if err != nil {
			return nil, nil, usage.Errorf("%s: %v", r.From, err)
		}
		if p.Conversation != nil && len(p.Conversation.Messages) > 0 {
			return nil, nil, usage.Errorf("%s: the messages of %s are part of the conversation that later nodes continue; fork at %s, or change its prompt there", r.From, history.Label(p.Execution), p.Node)
		}
		stored, err := settle(flow, p, v, r.From)
		if err != nil {
			return nil, nil, err
		}
		labels, content = append(labels, history.Label(p.Execution)), append(content, stored...)
	}
	return labels, content, nil
}

func recordedOf(flow *plan.Flow, past []runs.Record, word string, at contract.Execution) (*runs.Record, error) {
	var found []*runs.Record
	var labels []string
	for i := range past {
		p := &past[i]
		node := flow.Node(p.Node)
		if label := history.Label(p.Execution); label == word || p.Node == word || node != nil && strings.EqualFold(node.Name, word) {
			found, labels = append(found, p), append(labels, label)
		}
	}
	switch len(found) {
	case 0:
		return nil, usage.Errorf("-override has %q, but no such node ran before %s; fork at a later node", word, history.Label(at))
	case 1:
		return found[0], nil
	}
	return nil, usage.Errorf("-override has %q, which ran %d times; specify which: %s", word, len(found), strings.Join(labels, " or "))
}

func settle(flow *plan.Flow, p *runs.Record, v value.Value, from string) ([]json.RawMessage, error) {
	node := flow.Node(p.Node)
	left := map[string]value.Value{}
	switch {
	case flow.Values == nil:
	case node.Ports != nil:
		all, err := ported(node, v, from)
		if err != nil {
			return nil, err
		}
		for _, o := range node.Ports.Out {
			for _, key := range o.Keys {
				left[key], _ = all.Get(o.Name)
			}
		}
		v = all
	default:
		left[cmp.Or(node.StateKey, contract.ValueKey)] = v
		if err := passed(flow, p, left, from); err != nil {
			return nil, err
		}
	}
	text := v.Text
	if v.Kind != value.String {
		text = v.Words()
	}
	raw, err := (&contract.Message{Role: contract.RoleAssistant, Text: text}).Encode()
	if err != nil {
		return nil, usage.Errorf("%s: %v", from, err)
	}
	p.SHA = contract.SHA(raw)
	content := []json.RawMessage{raw}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		stored, err := leave(p, key, left[key])
		if err != nil {
			return nil, usage.Errorf("%s: %v", from, err)
		}
		content = append(content, stored)
	}
	return content, nil
}

// ported returns a value as the outputs of a node: an object with all outputs, or the only output.
func ported(node *plan.Node, v value.Value, from string) (value.Value, error) {
	all := value.Value{Kind: value.Object}
	for _, o := range node.Ports.Out {
		one, ok := v.Get(o.Name)
		if !ok && len(node.Ports.Out) > 1 {
			return all, usage.Errorf("%s has no %q; use an object with all outputs of the node", from, o.Name)
		}
		if !ok {
			one = v
		}
		one, err := value.Cast(o.Type, one)
		if err != nil {
			return all, usage.Errorf("%s: the output %q: %v", from, o.Name, err)
		}
		all.Members = append(all.Members, value.Member{Key: o.Name, Value: one})
	}
	return all, nil
}

func passed(flow *plan.Flow, p *runs.Record, left map[string]value.Value, from string) error {
	v, ok := left[contract.ValueKey]
	if !ok || len(p.Taken) != 1 {
		return nil
	}
	k := slices.IndexFunc(flow.Edges, func(e plan.Edge) bool { return e.ID == p.Taken[0] })
	if k < 0 || flow.Edges[k].Pass == nil {
		return nil
	}
	v, err := value.Selected(flow.Edges[k].Pass.Rules, flow.Edges[k].Pass.Path, v)
	if err != nil {
		return usage.Errorf("%s: the edge to %s: %v", from, flow.Edges[k].To, err)
	}
	left[contract.ValueKey] = v
	return nil
}

// leave writes a state key on behalf of a reused execution, and returns its content.
func leave(p *runs.Record, key string, v value.Value) (json.RawMessage, error) {
	raw := v.JSON()
	stored, err := (&contract.Message{Role: contract.RoleTool, Text: string(raw)}).Encode()
	if err != nil {
		return nil, err
	}
	e := contract.StateEntry{Key: key, SHA: contract.SHA(stored), Size: len(raw)}
	if k := slices.IndexFunc(p.Writes, func(w contract.StateEntry) bool { return w.Key == key }); k >= 0 {
		p.Writes[k] = e
	} else {
		p.Writes = append(p.Writes, e)
	}
	return stored, nil
}
