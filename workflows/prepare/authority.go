package prepare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Authorize determines a root run's grant: what the flow and the run declare, as far as the worker's policy allows it. A child run
// has the grant of its root. Inputs that the flow does not declare are rejected first.
func (p *Preparation) Authorize(in *contract.RunInput) error {
	if err := p.checkDeclared(in); err != nil {
		return err
	}
	var err error
	if p.runConnections, err = decodeConnections(in); err != nil {
		return err
	}
	if in.Depth > 0 {
		return p.checkGrant(in.Grant)
	}
	recorded := p.recorded
	p.Run.Shared.Grant = recorded.Grant
	if recorded.Refused != nil {
		return recorded.Refused
	}
	p.Run.Allow(recorded.MaxPayload)
	p.Run.Shared.Entries = recorded.Entries
	if in.MaxSteps > 0 {
		p.Run.Flow.Limits.MaxSteps = in.MaxSteps
	}
	if recorded.Bounds != nil {
		p.Run.Shared.Limited = p.Run.Flow.Bind(recorded.Bounds)
	}
	if m := recorded.BudgetLimits; m != nil {
		if b := p.Run.Shared.Budget; in.Session && (b == nil || b.Calls == 0) {
			p.Run.Shared.TurnCalls = m.Most.Calls
		}
		if !p.Run.Flow.StartsRuns() { // no limits on what the flow cannot do
			m.Most.Runs, m.Most.AtOnce, m.Most.PerSecond = 0, 0, 0
		}
		if !p.Run.Flow.DeclaresRuns() {
			m.Most.Declared = 0
		}
	}
	return p.Run.Budget.Bound(recorded.BudgetLimits)
}

// checkGrant fails if a flow that a model defined declares more than the grant allows.
func (p *Preparation) checkGrant(g *contract.Grant) error {
	if err := Unauthorized(g); err != nil || g.Within == nil {
		return err
	}
	var problems []string
	f := p.Run.Flow
	for _, of := range append([]plan.Flow{*f}, f.Agents...) {
		for i := range of.Nodes {
			for _, r := range of.Reaches(of.Nodes[i:i+1], append(slices.Clip(p.runConnections), f.Connections...)) {
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
			problems = append(problems, fmt.Sprintf("%s: the model %s is not used by the flow whose model defines the agent", p.Run.Source.At(""), m))
		}
	}
	return failureOf(problems, contract.ClassInvalidFlow, "bind the tools at the node, or ask the operator to allow them: policies: {NAME: {agent_connections: [ID]}}")
}

// Unauthorized returns the failure of a child run without a grant, else nil.
func Unauthorized(g *contract.Grant) error {
	if g != nil {
		return nil
	}
	return contract.Failf(contract.ClassBadRequest, "start a run of type "+contract.WorkflowFlow+" without depth", "the run is a child run, but has no grant from its root")
}

// authority is the recorded authority of a root run: its grant and limits, or why it was refused.
type authority struct {
	Grant  *contract.Grant `json:"grant,omitempty"`
	Bounds *plan.Bounds    `json:"bounds,omitempty"`
	// MaxPayload and BudgetLimits are copied from [Settings].
	MaxPayload int `json:"max_payload,omitempty"`
	// Entries is copied to [contract.Shared].
	Entries      bool                   `json:"entries,omitempty"`
	BudgetLimits *contract.BudgetLimits `json:"budget_limits,omitempty"`
	Refused      *contract.Failure      `json:"refused,omitempty"`
}

// newAuthority returns the authority to record for a root run. It ignores invalid connections, which Authorize rejects.
func (p *Preparation) newAuthority(in *contract.RunInput) *authority {
	runConnections, _ := decodeConnections(in)
	f, name := p.Run.Flow, ""
	if !slices.Contains(in.Supplies(), contract.SuppliesFlow) {
		name = f.Name // a document of a client can have any name
	}
	g := &contract.Grant{Root: contract.Run{Workflow: p.Run.Transcript.Workflow, Run: p.Run.Shared.FirstRun},
		Principal: in.Principal, Flow: name, Connections: f.AllReaches(runConnections),
		Models: plan.SplitModels(append(f.Models(), p.Run.Shared.Model)...), Scripts: p.Settings.Scripts, Programs: f.RunsPrograms()}
	policy, err := contract.PolicyFor(p.Settings.Policies, in.Principal, name)
	refused := contract.FailureOf(err)
	if refused == nil && p.Settings.Named {
		refused = checkSupplied(in, policy)
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

// unknownModels returns the failure of a flow whose agents name providers that the worker does not have, else nil.
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
					unknown := p.Settings.Models.CheckModel(m)
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

// checkSupplied returns the failure of a run that supplies more than the name of a flow and what the policy allows, for a worker
// that runs only the unchanged flows of its folder.
func checkSupplied(in *contract.RunInput, policy *contract.Policy) *contract.Failure {
	name := "NAME"
	var allowed []string
	if policy != nil {
		name, allowed = policy.Name, policy.Clients
	}
	supplied := slices.DeleteFunc(in.Supplies(), func(what string) bool { return slices.Contains(allowed, what) })
	if len(supplied) == 0 {
		return nil
	}
	all := strings.Join(supplied, ", ")
	f := contract.Failf(contract.ClassBadRequest, fmt.Sprintf("remove it; to allow it, set in the worker's weft.yaml: policies: {%s: {clients: [%s]}}", name, all),
		"the run supplies %s, but its worker runs only the unchanged flows of its folder (flows.accept: named)", all)
	if supplied[0] == contract.SuppliesFlow {
		f.Class, f.Remedy = contract.ClassInvalidFlow, "start the run with the name of a flow instead (set flows.accept: named for the starter, too), or ask the worker's operator to set flows.accept: any"
	}
	return f
}
