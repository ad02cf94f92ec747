package prepare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/group"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// want is a connection that tools of the flow name.
type want struct {
	bound contract.ResolvedConnection
	// request is for the tools that are bound to it, at says where each binding was written.
	request contract.CatalogueInput
	at      []string
	// offered are the tools for the boxes at boxedAt, problem is why there are none, until it is reported.
	offered          []string
	boxedAt, problem string
	// node is the first that needs the connection.
	node *plan.Node
	// listed is what the connection's list gave, failed why there is none.
	listed contract.CatalogueResult
	failed error
}

// loginAtStart is the version of a run that waits where a connection has no valid login when its tools are listed.
const loginAtStart = "login-at-start"

// needsLogin reports whether a connection refuses the worker's credentials.
func (w *want) needsLogin() bool {
	return w.failed != nil && !contract.Cancelled(w.failed) && contract.FailureOf(w.failed).Class == contract.ClassDenied
}

// Connect finds the connections that the flow's tools need and lists their tools, once per run. All that is missing is
// reported together.
func (p *Preparation) Connect(ctx workflow.Context) error {
	wants := p.wanted()
	if len(wants) == 0 {
		return nil
	}
	nodes := p.Run.Flow.Nodes
	problems, err := p.listAll(ctx, wants, false)
	if err == nil && len(problems) > 0 && slices.ContainsFunc(wants, (*want).needsLogin) {
		// Boxes may have what is missing.
		p.Run.Flow.Nodes = nodes
		problems, err = p.listAll(ctx, wants, true)
	}
	if err != nil {
		return err
	}
	return failureOf(problems, contract.ClassConnection, "bind the tools to connections that have them, or configure the connections on the worker")
}

// listAll lists the tools of all connections, or again of those that need a login, and takes over what they have. What is
// missing is returned as problems.
func (p *Preparation) listAll(ctx workflow.Context, wants []*want, again bool) (problems []string, _ error) {
	calls := group.New(ctx)
	for _, w := range wants {
		calls.Start(func(ctx workflow.Context) error {
			if !again {
				p.listTools(ctx, w, len(wants), nil)
			}
			if again || len(w.request.Names) > 0 {
				p.awaitLogin(ctx, w, len(wants))
			}
			return nil
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	p.Run.Shared.Connections = nil
	for _, w := range wants {
		found, err := p.takeOver(w)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
		p.Run.Shared.Connections = append(p.Run.Shared.Connections, w.bound)
	}
	p.ownAgents(func(s plan.TeamAgent) { problems = append(problems, p.expandToolboxes(s, wants)...) })
	return problems, nil
}

// listTools lists the tools of a connection, one of several. waiting, if not nil, is what an operator is asked about.
func (p *Preparation) listTools(ctx workflow.Context, w *want, several int, waiting *contract.JournalStep) {
	w.listed = contract.CatalogueResult{}
	request, local := w.request, 0
	if request.Connection.ID == "" || request.Connection.Kind != plan.ConnectionMCP {
		local = runtime.LocalBytes // no server lists them
	}
	w.failed = p.Run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityListTools, Args: []any{&request}, What: "the tools bound to connection " + w.bound.ID,
		ID: "tools/" + contract.EscapeID(w.bound.ID), Summary: "list tools · " + w.bound.ID, Options: p.listOptions(request.Connection.Retry),
		At: &runtime.Execution{Run: p.Run, Node: w.node, ID: w.node.ID}, Waiting: waiting,
		Result: runtime.ResultSize{Together: several, Share: &request.MaxResultBytes}, Local: local, Out: &w.listed})
}

// listAttempts is how often tools are listed, within about half a minute, where nobody is to bring the server up: the run has
// done nothing yet that its failure could lose.
const listAttempts = 7

// listOptions are those of listing tools: repeated as the connection's author wants, else like any call, but that a run that
// fails instead of waiting for an operator fails soon.
func (p *Preparation) listOptions(retry *plan.Retry) workflow.ActivityOptions {
	o := runtime.Retrying(p.Run.Options(p.Run.Flow.Policy.ToolSeconds), retry)
	switch {
	case p.callsNoTools():
		o.RetryPolicy.MaximumAttempts = 1
	case retry == nil && p.Run.Shared.OnError == contract.OnErrorFail:
		o.RetryPolicy.MaximumAttempts = listAttempts
	}
	return o
}

// callsNoTools reports whether no model of the run calls a tool, as the model script does not without a script, and nobody
// waits for the tools: then agents go without those that are not there.
func (p *Preparation) callsNoTools() bool {
	return p.Run.Shared.Model == contract.ScriptModel && p.Run.Shared.Script == nil && p.Run.Shared.OnError == contract.OnErrorFail
}

// leaveOut removes tools of a connection from the flow's agents, if they can do without, and reports whether nothing needs them.
func (p *Preparation) leaveOut(id string, names []string) bool {
	if !p.callsNoTools() {
		return false
	}
	lacks := func(t plan.Tool) bool { return t.BoundTo() == id && slices.Contains(names, t.Name) }
	p.ownAgents(func(s plan.TeamAgent) { s.Agent.Tools = slices.DeleteFunc(slices.Clone(s.Agent.Tools), lacks) })
	return !slices.ContainsFunc(p.Run.Flow.Nodes, func(n plan.Node) bool { return n.Tool != nil && lacks(*n.Tool) })
}

// awaitLogin waits for an operator where a connection refuses the worker's credentials, and lists its tools then. The run
// does not yield meanwhile: it has done nothing yet that it could go on with.
func (p *Preparation) awaitLogin(ctx workflow.Context, w *want, several int) {
	if w.needsLogin() && p.Run.Shared.OnError != contract.OnErrorFail && workflow.GetVersion(ctx, loginAtStart, workflow.DefaultVersion, 1) == 1 {
		p.listTools(ctx, w, several, &contract.JournalStep{Attempts: 1, Failure: contract.FailureOf(w.failed)})
	}
}

// wanted lists the connections that the flow's tools name, in order, and behind them those of its boxes.
func (p *Preparation) wanted() []*want {
	var out []*want
	for i := range p.Run.Flow.Nodes {
		n := &p.Run.Flow.Nodes[i]
		for _, named := range n.BoundTools() {
			tool := named.Tool
			w := p.want(&out, n, tool.BoundTo(), tool.Connection)
			r := &w.request
			if len(tool.ArgumentsSchema) > 0 && tool.Connection != "" {
				if r.Takes == nil {
					r.Takes = map[string]json.RawMessage{}
				}
				r.Takes[tool.Name] = tool.ArgumentsSchema
			}
			if !slices.Contains(r.Names, tool.Name) {
				r.Names, w.at = append(r.Names, tool.Name), append(w.at, p.Run.Source.At(plan.ToolPath(named.Of, named.Index)))
			}
		}
	}
	for i := range p.Run.Flow.Nodes {
		n := &p.Run.Flow.Nodes[i]
		for _, s := range n.TeamAgents() {
			if s.Agent.Toolboxes == nil {
				continue
			}
			for _, id := range s.Agent.Toolboxes.Connections {
				w := p.want(&out, n, id, id)
				w.request.All, w.boxedAt = true, cmp.Or(w.boxedAt, p.Run.Source.At(plan.NodePath(s.ID)))
			}
		}
	}
	return out
}

// want finds the one with an id among others, or adds it for a node with what the run's input or the flow says of the
// connection. What neither knows is left to the worker's configuration.
func (p *Preparation) want(all *[]*want, n *plan.Node, id, connection string) *want {
	k := slices.IndexFunc(*all, func(w *want) bool { return w.bound.ID == id })
	if k < 0 {
		c := plan.Connection{ID: connection, Kind: plan.ConnectionMCP}
		if i := slices.IndexFunc(p.Run.Flow.Connections, func(c plan.Connection) bool { return c.ID == connection && connection != "" }); i >= 0 {
			c = p.Run.Flow.Connections[i]
		}
		k = len(*all)
		*all = append(*all, &want{node: n, bound: contract.ResolvedConnection{ID: id, Connection: c}, request: contract.CatalogueInput{Connection: c}})
	}
	return (*all)[k]
}

// takeOver takes over a connection's catalogue, or why there is none. What is wrong is returned as problems, with places.
func (p *Preparation) takeOver(w *want) (problems []string, _ error) {
	out, err, at := &w.listed, w.failed, w.boxedAt
	if len(w.at) > 0 {
		at = w.at[0] // where the flow names the connection first
	}
	if c := w.bound.Connection; c.Kind == plan.ConnectionAgent && p.Run.Flow.SubFlow(c.Agent) == nil {
		problems = append(problems, fmt.Sprintf("%s: connection %q runs the agent %q, which the document does not hold [V9]", at, w.bound.ID, c.Agent))
	}
	if err != nil {
		fail := contract.FailureOf(err)
		switch {
		case contract.Cancelled(err):
			return nil, err
		case p.leaveOut(w.bound.ID, w.request.Names):
			return problems, nil
		case len(w.request.Names) == 0:
			w.problem = fmt.Sprintf("%s: %s [V9]", at, fail.Error())
			return problems, nil
		case fail.Class == contract.ClassConnection:
			return append(problems, fmt.Sprintf("%s: %s [V9]", at, fail.Error())), nil
		}
		fail.At = at
		return nil, fail
	}
	w.problem = ""
	w.bound.Connection, w.bound.CallRules = out.Resolved, out.CallRules
	if sessions, server := p.Run.Shared.Sessions(), w.bound.Server(); out.Queue != "" && sessions[server].Queue == "" {
		sessions[server] = contract.ServerSession{Queue: out.Queue}
	}
	if out.SHA != "" {
		ref := p.Run.Transcript.Keep(out.Catalogue)
		w.bound.Catalogue, w.offered = &ref, toolNames(out.Catalogue)
	}
	if !p.leaveOut(w.bound.ID, out.Missing) {
		for _, name := range out.Missing {
			problems = append(problems, fmt.Sprintf("%s: tool %q is not offered by %q; it offers: %s [V10]",
				w.at[slices.Index(w.request.Names, name)], name, w.bound.ID, textutil.Some(out.Offered)))
		}
	}
	for _, wrong := range out.Wrong {
		problems = append(problems, fmt.Sprintf("%s: %s [V10]", at, wrong))
	}
	return problems, nil
}

// toolNames are the names of a catalogue's tools.
func toolNames(raw json.RawMessage) (names []string) {
	var c contract.Catalogue
	_ = json.Unmarshal(raw, &c) // the activity has encoded it
	for i := range c.Tools {
		names = append(names, c.Tools[i].Name)
	}
	return names
}

// ownAgents changes agents in the run's own copy of the plan.
func (p *Preparation) ownAgents(change func(plan.TeamAgent)) {
	p.Run.Flow.Nodes = slices.Clone(p.Run.Flow.Nodes)
	for i := range p.Run.Flow.Nodes {
		n := &p.Run.Flow.Nodes[i]
		if n.Agent == nil {
			continue
		}
		own := *n.Agent
		own.Members = slices.Clone(own.Members)
		n.Agent = &own
		for _, s := range n.TeamAgents() {
			change(s)
		}
	}
}

// expandToolboxes makes tools of an agent of what its boxes offer, if it has some, in the plan that the run carries, and says what
// is missing.
func (p *Preparation) expandToolboxes(s plan.TeamAgent, wants []*want) []string {
	var problems []string
	toolboxes := s.Agent.Toolboxes
	if toolboxes == nil {
		return nil
	}
	s.Agent.Tools = slices.Clone(s.Agent.Tools)
	left, offered := takeTools(s.Agent, wants)
	s.Agent.Toolboxes = nil
	if left == nil && !toolboxes.All && !toolboxes.Lenient {
		return nil // a connection that could not be listed matters only where something is missing
	}
	for _, id := range toolboxes.Connections {
		for _, w := range wants {
			if w.bound.ID == id && w.problem != "" {
				problems = append(problems, w.problem)
				w.problem = ""
			}
		}
	}
	for _, name := range left {
		if !toolboxes.Lenient && !p.callsNoTools() {
			problems = append(problems, fmt.Sprintf("%s: the tool %q of node %q is offered by none of its connections %s; they offer: %s [V10]",
				p.Run.Source.At(plan.NodePath(s.ID)), name, s.ID, strings.Join(toolboxes.Connections, ", "), textutil.Some(offered)))
		}
	}
	return problems
}

// takeTools adds the wanted tools to an agent's own. It returns the names that it did not find, and what there is.
func takeTools(a *plan.Agent, wants []*want) (left, offered []string) {
	found, names := map[string]bool{}, map[string]string{} // the latter by what models call them
	for _, id := range a.Toolboxes.Connections {
		k := slices.IndexFunc(wants, func(w *want) bool { return w.bound.ID == id })
		for _, name := range wants[k].offered {
			offered = append(offered, name)
			as := safeName(name)
			if other := names[as]; other != "" && other != name {
				as = hashedName(as, name)
			}
			if !a.Toolboxes.All && !slices.Contains(a.Toolboxes.Names, name) || a.HasTool(as) {
				continue
			}
			found[name], names[as] = true, name
			a.Tools = append(a.Tools, plan.Tool{Name: name, As: as, Connection: id, Confirm: slices.Contains(a.Toolboxes.Confirm, id)})
		}
	}
	for _, name := range a.Toolboxes.Names {
		if !found[name] && !a.HasTool(name) {
			left = append(left, name)
		}
	}
	return left, offered
}

// maxToolName is the longest name of a tool that all providers take.
const maxToolName = 64

// unsafeChars are the characters of names that not all providers take.
var unsafeChars = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// safeName is a tool's name as all providers take it.
func safeName(s string) string {
	s = unsafeChars.ReplaceAllString(s, "_")
	if len(s) > maxToolName {
		return hashedName(s, s)
	}
	return s
}

// hashedName is a safe name that only one name has.
func hashedName(safe, name string) string {
	return safe[:min(len(safe), maxToolName-9)] + "_" + contract.SHA([]byte(name))[:8]
}
