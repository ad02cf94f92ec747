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
	// Reserve reports whether many runs of the flow, n of them at once, may run in r, and reserves capacity for their calls until
	// release is called.
	Reserve(r *runtime.Run, flow *plan.Flow, many, n int) (release func(), ok bool)
	// Run runs a flow in r like a child run with the id, with the same result. The size of what it would carry over is added to j.
	Run(ctx workflow.Context, r *runtime.Run, id string, in *contract.RunInput, j *journal.Journal) (*contract.RunResult, error)
}

// call runs nodes of kind call.
type call struct{ flows Flows }

// Visit runs each of the node's flows, or one flow for each element of lists, as a child run. Elements that make few calls run in
// this run.
func (k call) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Inputs(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	c := callRun{run: r, execution: x, cfg: x.Node.Call}
	x.Below = true
	if err := c.makeJobs(in); err != nil {
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
	if err := c.runAll(ctx); err != nil {
		x.State.Map = &contract.MapState{}
		for _, j := range c.jobs {
			x.State.Map.Flows = append(x.State.Map.Flows, j.outcome)
			if !errors.Is(err, runtime.ErrYield) {
				c.addMessages(j)
			}
		}
		return runtime.Outcome{}, err
	}
	out, err := c.joinResults()
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
	jobs      []*job
	// atOnce is the number of jobs that run at once, next the index of the first that has not begun.
	atOnce, next int
	// flows runs the jobs in this run; nil if each is a child run.
	flows Flows
	// stores are the collections of the run, with the changes of the flows whose results have been applied; changes are all
	// changes of this run so far.
	stores, changes value.Value
}

// job is one run of a flow.
type job struct {
	outcome contract.FlowOutcome
	flow    string
	params  value.Value
	// result is the flow's result once [callRun.applyResult] has applied it; else null.
	result value.Value
	// inThisRun is set if the flow ended in this run, not in a child.
	inThisRun bool
}

// makeJobs makes the jobs from the node's inputs.
func (c *callRun) makeJobs(in value.Value) error {
	c.stores, _ = in.Get(plan.StoresPort)
	c.changes, _ = in.Get(plan.ChangesPort)
	if !c.cfg.Map {
		for _, id := range c.cfg.Flows {
			c.jobs = append(c.jobs, &job{flow: id, params: values.SelectInputs(c.run.Flow.SubFlow(id), in)})
		}
		return nil
	}
	count, first, lists := 1, "", map[string][]value.Value{}
	for _, name := range c.cfg.Over {
		v, _ := in.Get(name)
		if len(c.cfg.Unpack) > 0 && v.Kind == value.Object {
			v = entries(v)
		}
		if v.Kind != value.Array {
			return c.run.Fail(c.execution, contract.ClassInvalidValue, "provide a list", "the node iterates over its input %q, which is %s", name, v.Kind)
		}
		if first != "" && len(v.Items) != count {
			return c.run.Fail(c.execution, contract.ClassInvalidValue, "provide lists of the same length", "the node iterates over %q with %d elements and %q with %d", first, count, name, len(v.Items))
		}
		count, first = len(v.Items), name
		lists[name] = v.Items
	}
	for i := range count {
		params := value.Value{Kind: value.Object}
		for _, m := range in.Members {
			if items, ok := lists[m.Key]; ok {
				m.Value = items[i]
			}
			params.Members = append(params.Members, m)
		}
		if err := c.unpack(&params); err != nil {
			return err
		}
		c.jobs = append(c.jobs, &job{flow: c.cfg.Flows[0], params: values.SelectInputs(c.run.Flow.SubFlow(c.cfg.Flows[0]), params)})
	}
	return nil
}

// unpack adds parts of a job's element to its params.
func (c *callRun) unpack(params *value.Value) error {
	for _, u := range c.cfg.Unpack {
		v, _ := params.Get(c.cfg.Over[0])
		for _, key := range u.Path {
			if v.Kind != value.Object && v.Kind != value.Null {
				return c.run.Fail(c.execution, contract.ClassInvalidValue, "provide a list of objects", "an element has no member %q: it is %s", key, v.Kind)
			}
			v, _ = v.Get(key)
		}
		params.Members = append(params.Members, value.Member{Key: u.Name, Value: v})
	}
	return nil
}

// entries returns an object as the list of its members.
func entries(v value.Value) value.Value {
	out := value.Value{Kind: value.Array}
	for _, m := range v.Members {
		out.Items = append(out.Items, value.Value{Kind: value.Object, Members: []value.Member{{Key: "_key", Value: value.Of(m.Key)}, {Key: "_value", Value: m.Value}}})
	}
	return out
}

// runAll runs the jobs, atOnce at a time.
func (c *callRun) runAll(ctx workflow.Context) error {
	g := group.New(ctx)
	for range c.atOnce {
		g.Start(func(ctx workflow.Context) error {
			for c.next < len(c.jobs) {
				j := c.jobs[c.next]
				c.next++
				if err := c.runJob(ctx, j, c.next); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// runJob runs or resumes the n-th job. Its outcome is part of the node's state from then on, so that the journal holds only jobs
// that have not ended.
func (c *callRun) runJob(ctx workflow.Context, j *job, n int) error {
	if j.outcome.Done {
		return c.applyResultInOrder(j)
	}
	for k := range j.params.Members {
		if m := &j.params.Members[k]; m.Key == plan.StoresPort {
			m.Value = c.stores
		}
	}
	id := fmt.Sprintf("%s/%s:%d", c.run.Root, c.execution.ID, n)
	var out contract.RunResult
	err := c.run.RunStep(ctx, c.execution.Journal, id, "", &out, func(s *journal.Step) error { return c.runFlow(ctx, j, id, s, &out) })
	if j.inThisRun = c.flows != nil; !c.cfg.Apart {
		j.outcome.Conversation = out.Conversation
	}
	f := contract.FailureOf(err)
	switch {
	case f == nil:
		j.outcome.Branch = exitBranch(c.run.Flow.SubFlow(j.flow), out.ResultNode)
		if j.outcome.Data, err = c.retainedData(out.ResultData); err != nil {
			return c.run.Fail(c.execution, contract.ClassInvalidValue, "", "invalid result of the flow %q: %v", j.flow, err)
		}
	case runtime.Interrupted(err) || c.cfg.Catch == nil || c.cfg.Catch.To(f.Class) == "":
		return err
	default:
		j.outcome.Failure, j.outcome.Class = f.Text, f.Class
	}
	j.outcome.Done = true
	c.execution.Journal.Drop(id)
	err = c.applyResultInOrder(j)
	c.execution.Journal.Grow(j.weight())
	return err
}

// applyResultInOrder applies the result at once if jobs run one after the other; else [callRun.joinResults] does.
func (c *callRun) applyResultInOrder(j *job) error {
	if c.cfg.AtOnce > 1 {
		return nil
	}
	return c.applyResult(j)
}

// retainedData returns the part of a flow's result that the node uses: for a map, the values that it reduces.
func (c *callRun) retainedData(data json.RawMessage) (json.RawMessage, error) {
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

// runFlow runs a flow, or resumes it from its snapshot.
func (c *callRun) runFlow(ctx workflow.Context, j *job, id string, s *journal.Step, out *contract.RunResult) error {
	if limit := c.run.Flow.Limits.MaxDepth; c.run.Shared.Depth >= limit {
		return c.run.Fail(c.execution, contract.ClassStepLimit, "reduce the nesting, or raise limits.max_depth in weft.yaml", "flows can nest at most %d deep", limit)
	}
	if s.Run == nil && s.Held == nil {
		if err := c.run.Budget.Declare(c.execution); err != nil {
			return err
		}
	}
	in := c.input(j, s.Run)
	share, release := c.run.Budget.Share(in.Snapshot, c.atOnce)
	defer release()
	in.Budget = share
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

// addMessages adds a flow's messages to the conversation.
func (c *callRun) addMessages(j *job) {
	if j.outcome.Conversation != nil {
		c.run.Conversation.Add(j.outcome.Conversation.Messages, !j.inThisRun)
		j.outcome.Conversation = nil
	}
}

// applyResult adds a flow's messages to the conversation and applies its changes to the run's collections, once.
func (c *callRun) applyResult(j *job) error {
	c.addMessages(j)
	if j.result.Kind != value.Null || len(j.outcome.Data) == 0 {
		return nil
	}
	var err error
	if j.result, err = value.Parse(j.outcome.Data); err != nil {
		return c.run.Fail(c.execution, contract.ClassInvalidValue, "", "invalid result of the flow %q: %v", j.flow, err)
	}
	changes, _ := j.result.Get(plan.ChangesPort)
	for _, change := range changes.Items {
		c.stores, _ = collection.Apply(c.stores, change)
	}
	c.changes.Items = append(slices.Clip(c.changes.Items), changes.Items...)
	return nil
}

// input returns the input of a flow's run.
func (c *callRun) input(j *job, snapshot *contract.RunSnapshot) contract.RunInput {
	in := c.run.ChildInput()
	if c.cfg.Catch != nil {
		in.OnError = contract.OnErrorFail // the node handles failures itself
	}
	if snapshot != nil && snapshot.Plan != nil {
		in.Snapshot = snapshot
		return in
	}
	flow, src := c.run.Flow.Closure(j.flow), c.run.Source.Sub(j.flow)
	in.Flow, in.Params = contract.FlowRef{Plan: flow, Source: &src}, j.params.JSON()
	converses := func(f plan.Flow) bool { return plan.Converse(f.Nodes) }
	if c.run.Conversation.Thread != nil && !c.cfg.Apart && (converses(*flow) || slices.ContainsFunc(flow.Agents, converses)) {
		in.Conversation = &contract.Conversation{Messages: transcript.ThreadMessages(c.run.Conversation.Thread.Entries)}
	}
	return in
}

// weight returns how many bytes of the job the node would carry over.
func (j *job) weight() int {
	n := len(j.outcome.Data) + len(j.outcome.Failure)
	if j.outcome.Conversation != nil {
		for i := range j.outcome.Conversation.Messages {
			n += len(j.outcome.Conversation.Messages[i].Raw)
		}
	}
	return n
}

// joinResults makes the node's outcome from the results of its flows.
func (c *callRun) joinResults() (runtime.Outcome, error) {
	out := runtime.Outcome{}
	members := value.Value{Kind: value.Object}
	lists := map[string][]value.Value{}
	for _, j := range c.jobs {
		if err := c.applyResult(j); err != nil {
			return out, err
		}
		out.Branch = j.outcome.Branch
		for _, m := range j.result.Members {
			lists[m.Key] = append(lists[m.Key], m.Value)
		}
		if !c.cfg.Map {
			members.Members = append(members.Members, slices.DeleteFunc(j.result.Members, func(m value.Member) bool { return m.Key == plan.ChangesPort })...)
		}
	}
	if k := c.cfg.Catch; k != nil {
		job := c.jobs[0].outcome
		if job.Failure != "" {
			out.Branch = k.To(job.Class)
		}
		members.Members = append(members.Members, catchMembers(k, job)...)
	}
	for _, reduction := range c.cfg.Reduce {
		v, ok, err := reduce(reduction.How, lists[reduction.Name])
		if err != nil {
			return out, c.run.Fail(c.execution, contract.ClassInvalidValue, "let the flow return numbers, or append", "output %q of the flow %q: %s", reduction.Name, c.cfg.Flows[0], err.Error())
		}
		if ok {
			members.Members = append(members.Members, value.Member{Key: reduction.Name, Value: v})
		}
	}
	if c.cfg.Map || c.cfg.Apart || len(c.cfg.Flows) > 1 {
		out.Branch = ""
	}
	members.Members = append(members.Members, value.Member{Key: plan.StoresPort, Value: c.stores}, value.Member{Key: plan.ChangesPort, Value: c.changes})
	out.Value = &members
	return out, nil
}

// catchMembers returns the values that describe a flow's failure.
func catchMembers(k *plan.Catch, job contract.FlowOutcome) []value.Member {
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

// reduce reduces a list to one value; ok is false if an empty list has none.
func reduce(how string, list []value.Value) (v value.Value, ok bool, err error) {
	if how == "append" {
		return value.Value{Kind: value.Array, Items: list}, true, nil
	}
	if len(list) == 0 {
		return value.Of(0), how == "sum", nil
	}
	out, integers := list[0], true
	total, sum := 0.0, new(big.Int)
	for _, item := range list {
		if !item.IsNumber() {
			return v, false, fmt.Errorf("%s is %s, expected a number", item.Brief(), item.Kind)
		}
		n, isInteger := new(big.Int).SetString(string(item.JSON()), 10)
		if integers = integers && isInteger; integers {
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
	case how == "sum" && integers:
		v, err = value.Parse(sum.Append(nil, 10))
		return v, true, err
	case how == "sum":
		return value.Of(total), true, nil
	}
	return out, true, nil
}

// exitBranch returns the branch of the node at which a flow's run ended.
func exitBranch(f *plan.Flow, node string) string {
	if n := f.Node(node); n != nil && n.Pass != nil {
		return n.Pass.Branch
	}
	return ""
}
