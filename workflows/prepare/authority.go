package prepare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Authorize gives a root run its grant: what the flow and the run declare, as far as the worker's policy allows it. A run below
// has the grant of its tree. Inputs that the flow does not declare are refused first.
func (p *Preparation) Authorize(in *contract.RunInput) error {
	if err := p.undeclared(in); err != nil {
		return err
	}
	var err error
	if p.brought, err = broughtConnections(in); err != nil {
		return err
	}
	if in.Depth > 0 {
		return p.exceeds(in.Grant)
	}
	made := p.recorded
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
	if m := made.BudgetLimits; m != nil {
		if b := p.Run.Shared.Budget; in.Session && (b == nil || b.Calls == 0) {
			p.Run.Shared.TurnCalls = m.Most.Calls
		}
		if !p.Run.Flow.StartsRuns() { // without limits of what the flow cannot do
			m.Most.Runs, m.Most.AtOnce, m.Most.PerSecond = 0, 0, 0
		}
		if !p.Run.Flow.DeclaresRuns() {
			m.Most.Declared = 0
		}
	}
	return p.Run.Budget.Bound(made.BudgetLimits)
}

// exceeds is the failure of a flow that a model defined and that declares what the grant does not have.
func (p *Preparation) exceeds(g *contract.Grant) error {
	if err := Unauthorized(g); err != nil || g.Within == nil {
		return err
	}
	var problems []string
	f := p.Run.Flow
	for _, of := range append([]plan.Flow{*f}, f.Agents...) {
		for i := range of.Nodes {
			for _, r := range of.Reaches(of.Nodes[i:i+1], append(slices.Clip(p.brought), f.Connections...)) {
				for _, tool := range append(r.Tools, "")[:max(1, len(r.Tools))] {
					if !g.Covers(r.ID, r.Address, tool) {
						problems = append(problems, fmt.Sprintf("%s: tool %q of connection %q is not bound by the node whose model defines the agent",
							p.Run.Source.At(plan.NodePath(of.Nodes[i].ID)), tool, r.ID))
					}
				}
			}
		}
	}
	for _, m := range f.Models() {
		if g.MissingModel(m) != "" {
			problems = append(problems, fmt.Sprintf("%s: the model %s is none of the flow whose model defines the agent", p.Run.Source.At(""), m))
		}
	}
	return failureOf(problems, contract.ClassInvalidFlow, "bind what it needs at the node, or have the operator allow it: policies: {NAME: {agent_connections: [ID]}}")
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

// authority gives what is recorded of a root run's authority. Connections that cannot be read are refused before it counts.
func (p *Preparation) authority(in *contract.RunInput) *authority {
	brought, _ := broughtConnections(in)
	f, name := p.Run.Flow, ""
	if !slices.Contains(in.Brings(), contract.BringsFlow) {
		name = f.Name // what a client brings can have any name
	}
	g := &contract.Grant{Root: contract.Run{Workflow: p.Run.Transcript.Workflow, Run: p.Run.Shared.FirstRun},
		Principal: in.Principal, Flow: name, Connections: f.AllReaches(brought),
		Models: plan.SplitModels(append(f.Models(), p.Run.Shared.Model)...), Scripts: p.Settings.Scripts, Programs: f.RunsPrograms()}
	policy, err := contract.PolicyFor(p.Settings.Policies, in.Principal, name)
	refused := contract.FailureOf(err)
	if refused == nil && p.Settings.Named {
		refused = refusedInput(in, policy)
	}
	if refused = cmp.Or(refused, p.unknownModels()); refused != nil {
		return &authority{Refused: refused}
	}
	if policy != nil {
		g.Connections, g.Agents = policy.Allowed(g.Connections), policy.Agents
		g.Scripts, g.Programs = policy.Scripts, g.Programs && policy.Programs
	}
	g.SealWith(p.Settings.Keys)
	return &authority{Grant: g, Bounds: p.Settings.Bounds, MaxPayload: p.Settings.MaxPayload, Entries: true, BudgetLimits: p.Settings.BudgetLimits}
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
		"the run supplies %s, but its worker runs the flows of its folder alone, as they are (flows.accept: named)", all)
	if brought[0] == contract.BringsFlow {
		f.Class, f.Remedy = contract.ClassInvalidFlow, "start the run with the name of a flow instead, as starter does with flows.accept: named in its own settings, or ask the worker's operator to set flows.accept: any"
	}
	return f
}
