package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/group"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/plan/collection"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/transcript"
	"weft/workflows/values"
)

// Flows runs flows in the run of the node that calls them.
type Flows interface {
	// Reserve reports whether flows like this one run in r, so many and n of them at once, and keeps room for their calls until
	// release.
	Reserve(r *runtime.Run, flow *plan.Flow, many, n int) (release func(), ok bool)
	// Run runs one of them below r. It ends as a run of its own with the id would. What it would carry counts in j.
	Run(ctx workflow.Context, r *runtime.Run, id string, in *contract.RunInput, j *journal.Journal) (*contract.RunResult, error)
}

// call runs nodes of kind call.
type call struct{ flows Flows }

// Visit runs each of the node's flows, or one flow for each element of lists, as a run of its own below this one. Elements that
// make few calls run in this run.
func (k call) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	c := callRun{run: r, execution: x, cfg: x.Node.Call}
	x.Below = true
	if err := c.divide(in); err != nil {
		return runtime.Outcome{}, err
	}
	c.atOnce = min(c.cfg.AtOnce, len(c.jobs))
	if s := x.Suspended; s != nil && s.Map != nil && len(s.Map.Flows) == len(c.jobs) {
		for i, j := range c.jobs {
			j.outcome = s.Map.Flows[i]
			x.Journal.Grow(j.weight())
		}
	}
	if c.cfg.Map {
		if release, ok := k.flows.Reserve(r, r.Flow.Closure(c.cfg.Flows[0]), len(c.jobs), c.atOnce); ok {
			c.flows = k.flows
			defer release()
		}
	}
	if err := c.all(ctx); err != nil {
		x.State.Map = &contract.MapState{}
		for _, j := range c.jobs {
			x.State.Map.Flows = append(x.State.Map.Flows, j.outcome)
			if !errors.Is(err, runtime.ErrYield) {
				c.listen(j)
			}
		}
		return runtime.Outcome{}, err
	}
	out, err := c.joined()
	if err == nil && r.Conversation.Thread != nil {
		err = r.Publish(ctx, x, r.Conversation.Thread)
	}
	return out, err
}

// callRun is one execution of a node that runs flows.
type callRun struct {
	run       *runtime.Run
	execution *runtime.Execution
	cfg       *plan.Call
	jobs      []*calledFlow
	// atOnce is how many run at once, next the first that has not begun.
	atOnce, next int
	// flows runs them in this run; nil where each is a child.
	flows Flows
	// stores are the collections of the run, with what the flows that were heard of have changed; changes are those of this
	// run so far.
	stores, changes value.Value
}

// calledFlow is one run of a flow.
type calledFlow struct {
	outcome contract.FlowOutcome
	flow    string
	params  value.Value
	// left is what the flow left, once the node has taken over what it said and changed; else null.
	left value.Value
	// here is set where the flow ended in this run.
	here bool
}

// divide makes the runs of what the node was given.
func (c *callRun) divide(in value.Value) error {
	c.stores, _ = in.Get(plan.StoresPort)
	c.changes, _ = in.Get(plan.ChangesPort)
	if !c.cfg.Map {
		for _, id := range c.cfg.Flows {
			c.jobs = append(c.jobs, &calledFlow{flow: id, params: values.Wanted(c.run.Flow.SubFlow(id), in)})
		}
		return nil
	}
	rounds, of, over := 1, "", map[string][]value.Value{}
	for _, name := range c.cfg.Over {
		v, _ := in.Get(name)
		if len(c.cfg.Unpack) > 0 && v.Kind == value.Object {
			v = pairs(v)
		}
		if v.Kind != value.Array {
			return c.run.Fail(c.execution, contract.ClassInvalidValue, "give it a list", "the node goes over its input %q, which is %s", name, v.Kind)
		}
		if of != "" && len(v.Items) != rounds {
			return c.run.Fail(c.execution, contract.ClassInvalidValue, "give lists of one length", "the node goes over %q with %d elements and %q with %d", of, rounds, name, len(v.Items))
		}
		rounds, of = len(v.Items), name
		over[name] = v.Items
	}
	for i := range rounds {
		params := value.Value{Kind: value.Object}
		for _, m := range in.Members {
			if items, ok := over[m.Key]; ok {
				m.Value = items[i]
			}
			params.Members = append(params.Members, m)
		}
		if err := c.unpack(&params); err != nil {
			return err
		}
		c.jobs = append(c.jobs, &calledFlow{flow: c.cfg.Flows[0], params: values.Wanted(c.run.Flow.SubFlow(c.cfg.Flows[0]), params)})
	}
	return nil
}

// unpack adds what a run is given of its element.
func (c *callRun) unpack(params *value.Value) error {
	for _, u := range c.cfg.Unpack {
		v, _ := params.Get(c.cfg.Over[0])
		for _, key := range u.Path {
			if v.Kind != value.Object && v.Kind != value.Null {
				return c.run.Fail(c.execution, contract.ClassInvalidValue, "give a list of objects", "an element has no member %q: it is %s", key, v.Kind)
			}
			v, _ = v.Get(key)
		}
		params.Members = append(params.Members, value.Member{Key: u.Name, Value: v})
	}
	return nil
}

// pairs is an object as the list of its members.
func pairs(v value.Value) value.Value {
	out := value.Value{Kind: value.Array}
	for _, m := range v.Members {
		out.Items = append(out.Items, value.Value{Kind: value.Object, Members: []value.Member{{Key: "_key", Value: value.Of(m.Key)}, {Key: "_value", Value: m.Value}}})
	}
	return out
}

// all runs what is left, so many at a time.
func (c *callRun) all(ctx workflow.Context) error {
	g := group.New(ctx)
	for range c.atOnce {
		g.Start(func(ctx workflow.Context) error {
			for c.next < len(c.jobs) {
				j := c.jobs[c.next]
				c.next++
				if err := c.one(ctx, j, c.next); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// one runs the n-th flow, or goes on with it. What it gave is a part of the node's state from then on, so that
// the journal holds only flows that have not ended.
func (c *callRun) one(ctx workflow.Context, j *calledFlow, n int) error {
	if j.outcome.Done {
		return c.takeOverInTurn(j)
	}
	for k := range j.params.Members {
		if m := &j.params.Members[k]; m.Key == plan.StoresPort {
			m.Value = c.stores
		}
	}
	id := fmt.Sprintf("%s/%s:%d", c.run.Root, c.execution.ID, n)
	var out contract.RunResult
	err := c.run.RunStep(ctx, c.execution.Journal, id, "", &out, func(s *journal.Step) error { return c.runOne(ctx, j, id, s, &out) })
	if j.here = c.flows != nil; !c.cfg.Apart {
		j.outcome.Conversation = out.Conversation
	}
	f := contract.FailureOf(err)
	switch {
	case f == nil:
		j.outcome.Branch = exitBranch(c.run.Flow.SubFlow(j.flow), out.ResultNode)
		if j.outcome.Data, err = c.collected(out.ResultData); err != nil {
			return c.run.Fail(c.execution, contract.ClassInvalidValue, "", "what the flow %q left: %v", j.flow, err)
		}
	case runtime.Interrupted(err) || c.cfg.Catch == nil || c.cfg.Catch.To(f.Class) == "":
		return err
	default:
		j.outcome.Failure, j.outcome.Class = f.Text, f.Class
	}
	j.outcome.Done = true
	c.execution.Journal.Drop(id)
	err = c.takeOverInTurn(j)
	c.execution.Journal.Grow(j.weight())
	return err
}

// takeOverInTurn is takeOver where flows run one after the other.
func (c *callRun) takeOverInTurn(j *calledFlow) error {
	if c.cfg.AtOnce > 1 {
		return nil
	}
	return c.takeOver(j)
}

// collected is what the node uses of the values that a flow left: of a map, those that it reduces.
func (c *callRun) collected(data json.RawMessage) (json.RawMessage, error) {
	if !c.cfg.Map || data == nil {
		return data, nil
	}
	v, err := value.Parse(data)
	if err != nil {
		return nil, err
	}
	v.Members = slices.DeleteFunc(v.Members, func(m value.Member) bool {
		return m.Key != plan.ChangesPort && !slices.ContainsFunc(c.cfg.Reduce, func(r plan.Reduce) bool { return r.Name == m.Key })
	})
	return v.JSON(), nil
}

// runOne runs a flow, or goes on with what it came back with.
func (c *callRun) runOne(ctx workflow.Context, j *calledFlow, id string, s *journal.Step, out *contract.RunResult) error {
	if limit := c.run.Flow.Limits.MaxDepth; c.run.Shared.Depth >= limit {
		return c.run.Fail(c.execution, contract.ClassStepLimit, "nest flows less deep", "flows nest at most %d deep", limit)
	}
	if s.Run == nil && s.Held == nil {
		if err := c.run.Budget.Declare(c.execution); err != nil {
			return err
		}
	}
	in := c.input(j, s.Run)
	part, release := c.run.Budget.Share(in.Snapshot, c.atOnce)
	defer release()
	in.Budget = part
	if c.flows != nil {
		res, err := c.flows.Run(ctx, c.run, id, &in, c.execution.Journal)
		if err == nil {
			*out = *res
		}
		return c.run.FinishFlow(in.Snapshot, out, s, err)
	}
	k := &runtime.Child{Workflow: contract.WorkflowFlow, ID: id, Summary: fmt.Sprintf("%s · %s", c.execution.Node.ID, j.flow)}
	return c.run.AwaitFlow(ctx, k, in, "the flow "+j.flow, c.atOnce, out, s, c.execution.Journal)
}

// listen takes what was said in a flow into the conversation.
func (c *callRun) listen(j *calledFlow) {
	if j.outcome.Conversation != nil {
		c.run.Conversation.Add(j.outcome.Conversation.Messages, !j.here)
		j.outcome.Conversation = nil
	}
}

// takeOver takes over what was said in a flow, and makes its changes to the collections of the run.
func (c *callRun) takeOver(j *calledFlow) error {
	c.listen(j)
	if j.left.Kind != value.Null || len(j.outcome.Data) == 0 {
		return nil
	}
	var err error
	if j.left, err = value.Parse(j.outcome.Data); err != nil {
		return c.run.Fail(c.execution, contract.ClassInvalidValue, "", "what the flow %q left: %v", j.flow, err)
	}
	made, _ := j.left.Get(plan.ChangesPort)
	for _, change := range made.Items {
		c.stores, _ = collection.Apply(c.stores, change)
	}
	c.changes.Items = append(slices.Clip(c.changes.Items), made.Items...)
	return nil
}

// input is what a flow's run is started with.
func (c *callRun) input(j *calledFlow, rest *contract.RunSnapshot) contract.RunInput {
	in := c.run.Below()
	if c.cfg.Catch != nil {
		in.OnError = contract.OnErrorFail // the node is there for it
	}
	if rest != nil && rest.Plan != nil {
		in.Snapshot = rest
		return in
	}
	flow, src := c.run.Flow.Closure(j.flow), c.run.Source.Sub(j.flow)
	in.Flow, in.Params = contract.FlowRef{Plan: flow, Source: &src}, j.params.JSON()
	nodes := func(f plan.Flow) bool { return plan.Converse(f.Nodes) }
	if c.run.Conversation.Thread != nil && !c.cfg.Apart && (nodes(*flow) || slices.ContainsFunc(flow.Agents, nodes)) {
		in.Conversation = &contract.Conversation{Messages: transcript.Carried(c.run.Conversation.Thread.Entries)}
	}
	return in
}

// weight is what of the job the node would carry.
func (j *calledFlow) weight() int {
	n := len(j.outcome.Data) + len(j.outcome.Failure)
	if j.outcome.Conversation != nil {
		for i := range j.outcome.Conversation.Messages {
			n += len(j.outcome.Conversation.Messages[i].Raw)
		}
	}
	return n
}

// joined makes the node's values of those of its flows.
func (c *callRun) joined() (runtime.Outcome, error) {
	out := runtime.Outcome{}
	all := value.Value{Kind: value.Object}
	lists := map[string][]value.Value{}
	for _, j := range c.jobs {
		if err := c.takeOver(j); err != nil {
			return out, err
		}
		out.Branch = j.outcome.Branch
		for _, m := range j.left.Members {
			lists[m.Key] = append(lists[m.Key], m.Value)
		}
		if !c.cfg.Map {
			all.Members = append(all.Members, slices.DeleteFunc(j.left.Members, func(m value.Member) bool { return m.Key == plan.ChangesPort })...)
		}
	}
	if k := c.cfg.Catch; k != nil {
		job := c.jobs[0].outcome
		if job.Failure != "" {
			out.Branch = k.To(job.Class)
		}
		all.Members = append(all.Members, caught(k, job)...)
	}
	for _, red := range c.cfg.Reduce {
		v, ok, err := reduce(red.How, lists[red.Name])
		if err != nil {
			return out, c.run.Fail(c.execution, contract.ClassInvalidValue, "let the flow leave numbers, or append", "output %q of the flow %q: %s", red.Name, c.cfg.Flows[0], err.Error())
		}
		if ok {
			all.Members = append(all.Members, value.Member{Key: red.Name, Value: v})
		}
	}
	if c.cfg.Map || c.cfg.Apart || len(c.cfg.Flows) > 1 {
		out.Branch = ""
	}
	all.Members = append(all.Members, value.Member{Key: plan.StoresPort, Value: c.stores}, value.Member{Key: plan.ChangesPort, Value: c.changes})
	out.Value = &all
	return out, nil
}

// caught are the values that say what went wrong in a flow.
func caught(k *plan.Catch, job contract.FlowOutcome) []value.Member {
	switch {
	case job.Failure == "" && k.Class != "":
		return nil
	case job.Failure == "":
		return []value.Member{{Key: k.Info}}
	}
	out := []value.Member{{Key: k.Info, Value: value.Of(job.Failure)}}
	if k.Class != "" {
		out = append(out, value.Member{Key: k.Class, Value: value.Of(job.Class)})
	}
	return out
}

// reduce makes one value of several; ok is false where there is none of nothing.
func reduce(how string, list []value.Value) (v value.Value, ok bool, err error) {
	if how == "append" {
		return value.Value{Kind: value.Array, Items: list}, true, nil
	}
	if len(list) == 0 {
		return value.Of(0), how == "sum", nil
	}
	out, whole := list[0], true
	total, sum := 0.0, new(big.Int)
	for _, item := range list {
		if !item.IsNumber() {
			return v, false, fmt.Errorf("%s is %s, want a number", item.Brief(), item.Kind)
		}
		n, isWhole := new(big.Int).SetString(string(item.JSON()), 10)
		if whole = whole && isWhole; whole {
			sum.Add(sum, n)
		}
		total += item.Float
		if how == "max" && value.Holds(value.Exact, value.More, item, out) || how == "min" && value.Holds(value.Exact, value.Less, item, out) {
			out = item
		}
	}
	switch {
	case how == "average":
		return value.Of(total / float64(len(list))), true, nil
	case how == "sum" && whole:
		v, err = value.Parse(sum.Append(nil, 10))
		return v, true, err
	case how == "sum":
		return value.Of(total), true, nil
	}
	return out, true, nil
}

// exitBranch is the branch at which a flow's run ended.
func exitBranch(f *plan.Flow, node string) string {
	if n := f.Node(node); n != nil && n.Pass != nil {
		return n.Pass.Branch
	}
	return ""
}
