// Package prepare determines what a run needs before its first node: plan and model, inputs, the initial state, and
// the tools that its connections offer.
package prepare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// Prepare settles plan and model. Where the input has both, and declares no inputs, no activity
// is needed.
func (p *Preparation) Prepare(ctx workflow.Context, in *contract.RunInput) error {
	if in.V != contract.Version {
		return contract.WrongVersion(in.V)
	}
	p.Run.Flow, p.Run.Shared.Model, p.Run.Shared.Depth, p.Run.Shared.Budget = in.Flow.Plan, in.Model, in.Depth, in.Budget
	if in.Flow.Plan != nil {
		p.Run.Shared.Model = cmp.Or(in.Model, in.Flow.Plan.Model)
	}
	p.Run.Shared.Grant, p.Run.Shared.ServerSessions, p.Run.Shared.Entries, p.Run.Shared.Script = in.Grant, in.ServerSessions, in.Entries, in.ScriptRef
	if len(in.Script) > 0 {
		ref := p.Run.Transcript.Keep(in.Script)
		p.Run.Shared.Script = &ref
	}
	if in.Flow.Source != nil {
		p.Run.Source = *in.Flow.Source
	}
	declared := ""
	if p.begins() {
		var err error
		if declared, err = p.Run.Flow.Hash(); err != nil {
			return err
		}
	}
	if p.Run.Flow == nil || p.Run.Shared.Model == "" || declared != "" {
		if err := p.inquire(ctx, in); err != nil {
			return err
		}
	}
	err := p.check(ctx, in.MaxPayload)
	p.Run.Hash = cmp.Or(declared, p.Run.Hash) // what the inputs make of the flow is the same flow
	return err
}

// inquire has an activity compile, begin, and choose a model, as far as the input leaves it open.
func (p *Preparation) inquire(ctx workflow.Context, in *contract.RunInput) error {
	request := contract.CompileFlowInput{Flow: in.Flow, Model: in.Model}
	var raw json.RawMessage
	c := &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the document", Options: CompileOptions, Local: runtime.LocalCompile,
		ID: "prepare", Summary: "compile the flow, choose the model", Out: &raw}
	switch {
	case p.begins():
		request = contract.CompileFlowInput{Flow: contract.FlowRef{Plan: p.Run.Flow}, Model: p.Run.Shared.Model, Params: in.Params, Scope: in.Scope, Input: in.Input, Unchecked: in.Unchecked}
		if p.Run.Hash != "" {
			c.ID, c.Summary = "begin", "check the inputs"
		}
	case p.Run.Flow != nil:
		request.Flow = contract.FlowRef{}
	}
	if in.Depth == 0 {
		request.Root = startFacts(ctx)
	}
	if err := p.Run.Invoke(ctx, c); err != nil {
		return err
	}
	out, err := contract.ReadPrepared(raw)
	if err != nil {
		return err
	}
	p.Run.Shared.Model, p.Public = out.Model, out.Publish
	if p.Run.Flow == nil {
		p.Run.Flow, p.Run.Source, p.Run.Hash = out.Plan, out.Source, out.Hash
		if p.begins() {
			// Only now is it known that the flow wants what the run was given.
			return p.inquire(ctx, in)
		}
		return nil
	}
	if out.Plan != nil {
		p.Run.Flow = out.Plan
	}
	if out.Input != nil {
		in.Input = *out.Input
	}
	return nil
}

// CompileOptions are those of the activity that compiles: short, because nothing else can
// happen before.
var CompileOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    time.Minute,
	ScheduleToCloseTimeout: 10 * time.Minute,
	HeartbeatTimeout:       time.Duration(plan.DefaultPolicy.HeartbeatSeconds) * time.Second,
	WaitForCancellation:    true,
	RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
}

// begins reports whether the flow declares inputs, so that what the run is given makes its text.
func (p *Preparation) begins() bool {
	return p.Run.Flow != nil && p.Run.Flow.Inputs != nil && p.Run.Flow.Version <= plan.Version
}

// check refuses a plan that the interpreter cannot run. The verdict is recorded, so that a
// stricter check in a later build cannot fail a run that has started. So is the worker's
// store, unless the run above has settled it (most).
func (p *Preparation) check(ctx workflow.Context, most int) error {
	var problems []string
	if p.Run.Hash == "" {
		var v verdict
		recorded := workflow.SideEffect(ctx, func(workflow.Context) any { return p.judgePlan(ctx) })
		if err := recorded.Get(&v); err != nil {
			return err
		}
		problems = v.Problems
		if p.Public == nil {
			p.Public = v.Publish
		}
	}
	if most > 0 {
		p.Run.Allow(most)
	}
	if later := LaterPlan(p.Run.Flow); later != nil {
		return later
	}
	if len(problems) > 0 {
		return &contract.Failure{Class: contract.ClassInvalidFlow, Text: strings.Join(problems, "; "), Diagnostics: problems,
			Remedy: "make the plan with the starter or the adapter of this build"}
	}
	if p.Run.Hash == "" {
		var err error
		if p.Run.Hash, err = p.Run.Flow.Hash(); err != nil {
			return err
		}
	}
	own := *p.Run.Flow
	p.Run.Flow, p.Run.Graph = &own, schedule.NewGraph(&own)
	return nil
}

// LaterPlan is the failure of a plan of a later build, or one with such a plan in it, else nil.
func LaterPlan(f *plan.Flow) *contract.Failure {
	if f == nil {
		return nil
	}
	version := f.Version
	for i := range f.Agents {
		version = max(version, f.Agents[i].Version)
	}
	return contract.LaterPlan(version)
}

// Authorize makes the grant of a root run: what the flow and the run declare, as far as the worker's policy allows it. It is
// recorded. A run below has the grant of its tree.
func (p *Preparation) Authorize(ctx workflow.Context, in *contract.RunInput) error {
	var brought []plan.Connection
	for i := range in.DataConnections {
		c, err := in.DataConnections[i].Connection()
		if err != nil {
			return nil // [Preparation.Accept] says so
		}
		brought = append(brought, c)
	}
	if in.Depth > 0 {
		return p.exceeds(in.Grant, brought)
	}
	root := contract.Run{Workflow: p.Run.Transcript.Workflow, Run: p.Run.Shared.FirstRun}
	var made authority
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return p.authority(in, root, brought) }).Get(&made); err != nil {
		return err
	}
	p.Run.Shared.Grant = made.Grant
	if made.Refused != nil {
		return made.Refused
	}
	p.Run.Allow(made.MaxPayload)
	p.Run.Shared.Entries = made.Entries
	if in.MaxSteps > 0 {
		p.Run.Flow.Limits.MaxSteps = in.MaxSteps
	}
	if made.Bounds != nil {
		p.Run.Shared.Limited = p.Run.Flow.Bind(made.Bounds)
	}
	if m := made.BudgetLimits; m != nil { // without limits of what the flow cannot do
		if !p.Run.Flow.StartsRuns() {
			m.Most.Runs, m.Most.AtOnce, m.Most.PerSecond = 0, 0, 0
		}
		if !p.Run.Flow.DeclaresRuns() {
			m.Most.Declared = 0
		}
	}
	if b := p.Run.Shared.Budget; in.Session && made.BudgetLimits != nil && (b == nil || b.Calls == 0) {
		p.Run.Shared.TurnCalls = made.BudgetLimits.Most.Calls
	}
	return p.Run.Budget.Bound(made.BudgetLimits)
}

// exceeds is the failure of a flow that a model defined and that declares what the grant does not have.
func (p *Preparation) exceeds(g *contract.Grant, brought []plan.Connection) error {
	if err := Unauthorized(g); err != nil || g.Within == nil {
		return err
	}
	var problems []string
	add := func(path, format string, args ...any) {
		problems = append(problems, p.Run.Source.At(path)+": "+fmt.Sprintf(format, args...))
	}
	f := p.Run.Flow
	for _, of := range append([]plan.Flow{*f}, f.Agents...) {
		for i := range of.Nodes {
			for _, r := range of.Reaches(of.Nodes[i:i+1], append(slices.Clip(brought), f.Connections...)) {
				for _, tool := range append(r.Tools, "")[:max(1, len(r.Tools))] {
					if !g.Covers(r.ID, r.Address, tool) {
						add(plan.NodePath(of.Nodes[i].ID), "tool %q of connection %q is not bound by the node whose model defines the agent", tool, r.ID)
					}
				}
			}
		}
	}
	for _, m := range f.Models() {
		if g.MissingModel(m) != "" {
			add("", "the model %s is none of the flow whose model defines the agent", m)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &contract.Failure{Class: contract.ClassInvalidFlow, Text: strings.Join(problems, "; "), Diagnostics: problems,
		Remedy: "bind what it needs at the node, or have the operator allow it: policies: {NAME: {agent_connections: [ID]}}"}
}

// Unauthorized is the failure of a run below another that has no grant, else nil.
func Unauthorized(g *contract.Grant) error {
	if g != nil {
		return nil
	}
	return contract.Failf(contract.ClassBadRequest, "start a run of type "+contract.WorkflowFlow+" without depth", "the run is below another, and has no grant of it")
}

// authority is what is recorded of a run's authority: the grant, or why there is none, and what bounds the flow.
type authority struct {
	Grant  *contract.Grant `json:"grant,omitempty"`
	Bounds *plan.Bounds    `json:"bounds,omitempty"`
	// MaxPayload and BudgetLimits are those of [Settings].
	MaxPayload int `json:"max_payload,omitempty"`
	// Entries is that of [contract.Shared].
	Entries      bool                   `json:"entries,omitempty"`
	BudgetLimits *contract.BudgetLimits `json:"budget_limits,omitempty"`
	Refused      *contract.Failure      `json:"refused,omitempty"`
}

func (p *Preparation) authority(in *contract.RunInput, root contract.Run, brought []plan.Connection) authority {
	who := in.Principal
	f, name := p.Run.Flow, ""
	if !slices.Contains(in.Brings(), contract.BringsFlow) {
		name = f.Name // what a client brings can have any name
	}
	g := &contract.Grant{Root: root, Principal: who, Flow: name, Connections: f.AllReaches(brought),
		Models: plan.SplitModels(append(f.Models(), p.Run.Shared.Model)...), Scripts: p.Settings.Scripts, Programs: f.RunsPrograms()}
	policy, err := contract.PolicyFor(p.Settings.Policies, who, name)
	if err != nil {
		return authority{Refused: contract.FailureOf(err)}
	}
	if refused := refusedInput(in, policy); p.Settings.Named && refused != nil {
		return authority{Refused: refused}
	}
	if policy != nil {
		g.Connections, g.Agents = policy.Allowed(g.Connections), policy.Agents
		g.Scripts, g.Programs = policy.Scripts, g.Programs && policy.Programs
	}
	if refused := p.unknownModels(); refused != nil {
		return authority{Refused: refused}
	}
	g.SealWith(p.Settings.Keys)
	return authority{Grant: g, Bounds: p.Settings.Bounds, MaxPayload: p.Settings.MaxPayload, Entries: true, BudgetLimits: p.Settings.BudgetLimits}
}

// unknownModels is the failure of a flow whose agents name providers that the worker does not have: no call of theirs can succeed.
func (p *Preparation) unknownModels() (refused *contract.Failure) {
	if p.Settings.Models == nil || contract.ScriptedAll(p.Run.Shared.Model) {
		return nil
	}
	path := ""
	for k, f := range append([]plan.Flow{*p.Run.Flow}, p.Run.Flow.Agents...) {
		if k > 0 {
			path = plan.AgentPath(f.ID)
		}
		for i := range f.Nodes {
			for _, a := range f.Nodes[i].TeamAgents() {
				for _, m := range plan.SplitModels(cmp.Or(a.Agent.Model, p.Run.Shared.Model)) {
					unknown := p.Settings.Models.Unknown(m)
					if unknown == nil || a.Agent.Remote != nil {
						continue
					}
					unknown.Node, unknown.At = f.Nodes[i].ID, p.Run.Source.At(path+plan.NodePath(f.Nodes[i].ID))
					refused = cmp.Or(refused, unknown)
					refused.Diagnostics = append(refused.Diagnostics, cmp.Or(unknown.At, unknown.Node)+": "+unknown.Text)
				}
			}
		}
	}
	return refused
}

// refusedInput is the failure of a run that brings more than the name of a flow, where its worker runs the flows of its
// folder alone, as they are; nil where the policy allows what it brings.
func refusedInput(in *contract.RunInput, policy *contract.Policy) *contract.Failure {
	name := "NAME"
	var allowed []string
	if policy != nil {
		name, allowed = policy.Name, policy.Clients
	}
	brought := slices.DeleteFunc(in.Brings(), func(what string) bool { return slices.Contains(allowed, what) })
	if len(brought) == 0 {
		return nil
	}
	all := strings.Join(brought, ", ")
	f := contract.Failf(contract.ClassBadRequest, fmt.Sprintf("leave it out; to allow it set in the worker's weft.yaml: policies: {%s: {clients: [%s]}}", name, all),
		"the run brings %s, but its worker runs the flows of its folder alone, as they are (flows.accept: named)", all)
	if brought[0] == contract.BringsFlow {
		f.Class, f.Remedy = contract.ClassInvalidFlow, "start the run with the name of a flow instead, as starter does with flows.accept: named in its own settings, or ask the worker's operator to set flows.accept: any"
	}
	return f
}

// judgePlan gives what is recorded of the plan.
func (p *Preparation) judgePlan(ctx workflow.Context) verdict {
	if p.Run.Flow == nil {
		return verdict{Problems: []string{"there is no plan"}}
	}
	v := verdict{Problems: p.Run.Flow.Check()}
	if p.Public == nil && p.Run.Shared.Depth == 0 {
		v.Publish = &contract.Publish{Attributes: startFacts(ctx).Attributes, Webhooks: p.Settings.Webhooks}
	}
	return v
}

// Inputs refuses params that the flow does not declare, and values of placeholders that it does
// not replace.
func (p *Preparation) Inputs(in *contract.RunInput) error {
	f := p.Run.Flow
	given := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	refuse := func(what, remedy string) error {
		return contract.Failf(contract.ClassBadRequest, remedy, "the run brings %s, but the flow %q, of the dialect %s, declares no inputs", what, f.Name, f.Dialect)
	}
	switch {
	case f.Inputs != nil:
		return nil
	case given(in.Scope):
		return refuse("a scope", "leave the scope out")
	case given(in.Params) && (f.Values == nil || !f.Values.Named):
		return refuse("params", "give the text with input, and values for the nodes with state")
	}
	return nil
}

// bring puts the run's own connections before the flow's.
func (p *Preparation) bring(connections []contract.DataConnection) error {
	var own []plan.Connection
	for i := range connections {
		c, err := connections[i].Connection()
		if err != nil {
			remedy := "correct the run's input"
			if errors.Is(err, contract.ErrSecret) {
				remedy = contract.InHistory + "; " + remedy
			}
			return contract.Failf(contract.ClassBadRequest, remedy, "%v", err)
		}
		if i := slices.IndexFunc(p.Run.Flow.Connections, func(its plan.Connection) bool { return its.ID == c.ID }); i >= 0 {
			c.WholeResults = p.Run.Flow.Connections[i].WholeResults // what its agents see is the flow's
		}
		own = append(own, c)
	}
	p.Run.Flow.Connections = append(own, p.Run.Flow.Connections...)
	return nil
}

// Accept stores what the run was given, and makes the view with which it begins.
func (p *Preparation) Accept(in *contract.RunInput) (*contract.View, error) {
	if err := p.bring(in.DataConnections); err != nil {
		return nil, err
	}
	text, given, err := p.inputOf(in)
	if err != nil {
		return nil, err
	}
	if err = p.SetInput("input", contract.InputMessage(text, in.Media)); err != nil {
		return nil, err
	}
	p.Run.Shared.MaxEvents = in.MaxEvents
	if len(in.History) > 0 {
		raw, err := json.Marshal(in.History)
		if err != nil {
			return nil, err
		}
		chat, err := p.Run.Transcript.Write(p.Run.Transcript.Open("chat"), &contract.Message{Role: contract.RoleUser, Text: string(raw)})
		if err != nil {
			return nil, err
		}
		p.Run.Shared.Chat = &chat
	}
	first := &contract.View{}
	if err := p.writeInput(first, in, given); err != nil {
		return nil, err
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if d := plan.Depth(in.State[key]); d > runtime.MaxDepth {
			return nil, contract.Failf(contract.ClassBadRequest, "", "the input's state key %q nests %d deep, at most %d are stored", key, d, runtime.MaxDepth)
		}
		e, err := p.Run.Transcript.Value(key, in.State[key], contract.Stamp{Exec: plan.Start})
		if err != nil {
			return nil, err
		}
		schedule.SetEntry(first, e)
	}
	if n, limit := schedule.StateBytes(first), p.Run.Flow.Limits.MaxStateBytes; n > limit {
		return nil, &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the input's state holds %d bytes, at most %d are allowed", n, limit),
			Remedy: "shorten its values, or raise limits.max_state_bytes in weft.yaml"}
	}
	return first, nil
}

// SetInput makes a message the run's input, under a thread's name. A long one, or one with files, is read by reference.
func (p *Preparation) SetInput(thread string, m *contract.Message) (err error) {
	p.Run.Shared.Text = ""
	p.Run.Shared.Input, err = p.Run.Transcript.Write(p.Run.Transcript.Open(thread), m)
	if err == nil && len(m.Text) <= runtime.MaxInline && len(m.Media) == 0 {
		p.Run.Shared.Text = m.Text
	}
	return err
}

// Preparation settles what a run needs before its entry.
type Preparation struct {
	Run *runtime.Run
	// Settings are for [workflow.SideEffect] alone.
	Settings Settings
	// Public is what a root run publishes.
	Public *contract.Publish
}

// startFacts are what the start request has set. The server leaves out attributes that were
// removed since, so that only what is recorded of this may decide anything.
func startFacts(ctx workflow.Context) *contract.StartFacts {
	info := workflow.GetInfo(ctx)
	_, named := info.Memo.GetFields()[contract.MemoFlow]
	_, hashed := info.Memo.GetFields()[contract.MemoHash]
	out := &contract.StartFacts{Memo: named && hashed}
	set := workflow.GetTypedSearchAttributes(ctx)
	for _, name := range contract.Attributes {
		if set.ContainsKey(temporal.NewSearchAttributeKeyKeyword(name)) {
			out.Attributes = append(out.Attributes, name)
		}
	}
	return out
}

// verdict is what is recorded of a plan that came with the input: what is wrong with it, and
// what the run publishes.
type verdict struct {
	Problems []string          `json:"problems,omitempty"`
	Publish  *contract.Publish `json:"publish,omitempty"`
}

// Settings are what a worker says to the runs that start on it. Each run records them, so
// that it goes on with them on any worker.
type Settings struct {
	// MaxPayload is the largest payload in bytes that the worker's store takes; 0 means that
	// there is none.
	MaxPayload int
	// BudgetLimits is what runs may spend; absent: unlimited.
	BudgetLimits *contract.BudgetLimits
	// Named has the worker run the flows of its own folder alone, as they are.
	Named bool
	// Webhooks are told of root runs.
	Webhooks []contract.Webhook
	// Keys seal what runs may reach, the first of them; Policies bound it. Scripts allows, where there are no policies,
	// models that clients script.
	Keys []contract.SealKey
	// Bounds, if set, bind the flows of root runs.
	Bounds   *plan.Bounds
	Policies []contract.Policy
	Scripts  bool
	// Models, if set, knows the providers of the worker.
	Models Models
}

// Models are those that a worker can call.
type Models interface {
	// Unknown returns the failure of a model whose provider there is not, nil for any other.
	Unknown(ref string) *contract.Failure
}

// MendThread answers tool calls in whose middle a turn or a flow ended: no provider takes a
// conversation without their results.
func MendThread(r *runtime.Run) error {
	t := r.Conversation.Thread
	if t == nil {
		return nil
	}
	answered := map[string]bool{}
	for i := len(t.Entries) - 1; i >= 0; i-- {
		m, err := contract.DecodeMessage(t.Entries[i].Raw)
		if err != nil {
			return err
		}
		if m.Role == contract.RoleTool {
			answered[m.CallID] = true
			continue
		}
		for _, c := range m.Calls {
			if answered[c.ID] {
				continue
			}
			lost := contract.Message{Role: contract.RoleTool, Text: "the flow ended before the call had its result", CallID: c.ID, Name: c.Name, Error: true}
			if _, err := r.Transcript.Write(t, &lost); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}
