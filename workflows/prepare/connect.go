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

// requiredConnection is a connection that tools of the flow are bound to.
type requiredConnection struct {
	resolved contract.ResolvedConnection
	// request asks for the bound tools; boundAt holds the position of each binding.
	request contract.CatalogueInput
	boundAt []string
	// toolNames are the tools for the toolboxes at toolboxAt; problem is why there are none, until it is reported.
	toolNames          []string
	toolboxAt, problem string
	// node is the first node that needs the connection.
	node *plan.Node
	// listing is the connection's tool list, listErr why there is none.
	listing contract.CatalogueResult
	listErr error
}

// loginAtStart is the change ID of waiting for an operator's login if a connection refuses the credentials when its tools are listed.
const loginAtStart = "login-at-start"

// needsLogin reports whether a connection refuses the worker's credentials.
func (w *requiredConnection) needsLogin() bool {
	return w.listErr != nil && !contract.Cancelled(w.listErr) && contract.FailureOf(w.listErr).Class == contract.ClassDenied
}

// Connect resolves the connections that the flow's tools need and lists their tools, once per run. It reports all problems
// together.
func (p *Preparation) Connect(ctx workflow.Context) error {
	required := p.requiredConnections()
	if len(required) == 0 {
		return nil
	}
	nodes := p.Run.Flow.Nodes
	problems, err := p.listAll(ctx, required, false)
	if err == nil && len(problems) > 0 && slices.ContainsFunc(required, (*requiredConnection).needsLogin) {
		// The toolboxes of a connection that needs a login may have the missing tools.
		p.Run.Flow.Nodes = nodes
		problems, err = p.listAll(ctx, required, true)
	}
	if err != nil {
		return err
	}
	return failureOf(problems, contract.ClassConnection, "bind the tools to connections that offer them, or configure the connections on the worker")
}

// listAll lists the tools of all connections, or lists again those that need a login, and applies the lists. It returns missing
// tools as problems.
func (p *Preparation) listAll(ctx workflow.Context, required []*requiredConnection, relist bool) (problems []string, _ error) {
	calls := group.New(ctx)
	for _, w := range required {
		calls.Start(func(ctx workflow.Context) error {
			if !relist {
				p.listTools(ctx, w, len(required), nil)
			}
			if relist || len(w.request.Names) > 0 {
				p.awaitLogin(ctx, w, len(required))
			}
			return nil
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	p.Run.Shared.Connections = nil
	for _, w := range required {
		found, err := p.applyListing(w)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
		p.Run.Shared.Connections = append(p.Run.Shared.Connections, w.resolved)
	}
	p.updateAgents(func(s plan.TeamAgent) { problems = append(problems, p.expandToolboxes(s, required)...) })
	return problems, nil
}

// listTools lists the tools of one of several connections. waiting, if not nil, holds a failure that an operator must resolve first.
func (p *Preparation) listTools(ctx workflow.Context, w *requiredConnection, together int, waiting *contract.JournalStep) {
	w.listing = contract.CatalogueResult{}
	request, local := w.request, 0
	if request.Connection.ID == "" || request.Connection.Kind != plan.ConnectionMCP {
		local = runtime.LocalBytes // no server is involved
	}
	w.listErr = p.Run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityListTools, Args: []any{&request}, What: "the tools bound to connection " + w.resolved.ID,
		ID: "tools/" + contract.EscapeID(w.resolved.ID), Summary: "list tools · " + w.resolved.ID, Options: p.listOptions(request.Connection.Retry),
		At: &runtime.Execution{Run: p.Run, Node: w.node, ID: w.node.ID}, Waiting: waiting,
		Result: runtime.ResultSize{Together: together, Share: &request.MaxResultBytes}, Local: local, Out: &w.listing})
}

// listAttempts is the number of attempts, within about half a minute, to list tools in a run that does not wait for an operator:
// it fails early, because no work can be lost yet.
const listAttempts = 7

// listOptions returns the options for listing tools: those of any call, retried by the connection's own policy if it has one. A run
// that does not wait for an operator makes few attempts.
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

// callsNoTools reports whether no model of the run calls tools, because the script model has no script, and the run does not wait
// for an operator: then agents do without missing tools.
func (p *Preparation) callsNoTools() bool {
	return p.Run.Shared.Model == contract.ScriptModel && p.Run.Shared.Script == nil && p.Run.Shared.OnError == contract.OnErrorFail
}

// dropTools removes tools of a connection from the flow's agents if no model calls tools. It reports whether no node needs them.
func (p *Preparation) dropTools(id string, names []string) bool {
	if !p.callsNoTools() {
		return false
	}
	dropped := func(t plan.Tool) bool { return t.BoundTo() == id && slices.Contains(names, t.Name) }
	p.updateAgents(func(s plan.TeamAgent) { s.Agent.Tools = slices.DeleteFunc(slices.Clone(s.Agent.Tools), dropped) })
	return !slices.ContainsFunc(p.Run.Flow.Nodes, func(n plan.Node) bool { return n.Tool != nil && dropped(*n.Tool) })
}

// awaitLogin waits for an operator if a connection refuses the worker's credentials, and then lists its tools. The run does not
// yield meanwhile, because it has no state yet with which it could resume.
func (p *Preparation) awaitLogin(ctx workflow.Context, w *requiredConnection, together int) {
	if w.needsLogin() && p.Run.Shared.OnError != contract.OnErrorFail && workflow.GetVersion(ctx, loginAtStart, workflow.DefaultVersion, 1) == 1 {
		p.listTools(ctx, w, together, &contract.JournalStep{Attempts: 1, Failure: contract.FailureOf(w.listErr)})
	}
}

// requiredConnections returns the connections of the flow's bound tools, in order, and then those of its toolboxes.
func (p *Preparation) requiredConnections() []*requiredConnection {
	var out []*requiredConnection
	for i := range p.Run.Flow.Nodes {
		n := &p.Run.Flow.Nodes[i]
		for _, named := range n.BoundTools() {
			tool := named.Tool
			w := p.require(&out, n, tool.BoundTo(), tool.Connection)
			r := &w.request
			if len(tool.ArgumentsSchema) > 0 && tool.Connection != "" {
				if r.ArgumentSchemas == nil {
					r.ArgumentSchemas = map[string]json.RawMessage{}
				}
				r.ArgumentSchemas[tool.Name] = tool.ArgumentsSchema
			}
			if !slices.Contains(r.Names, tool.Name) {
				r.Names, w.boundAt = append(r.Names, tool.Name), append(w.boundAt, p.Run.Source.At(plan.ToolPath(named.Of, named.Index)))
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
				w := p.require(&out, n, id, id)
				w.request.All, w.toolboxAt = true, cmp.Or(w.toolboxAt, p.Run.Source.At(plan.NodePath(s.ID)))
			}
		}
	}
	return out
}

// require returns the connection with an id, or adds it for a node as declared by the run's input or the flow. A connection that
// neither declares is left to the worker's configuration.
func (p *Preparation) require(all *[]*requiredConnection, n *plan.Node, id, connection string) *requiredConnection {
	k := slices.IndexFunc(*all, func(w *requiredConnection) bool { return w.resolved.ID == id })
	if k < 0 {
		c := plan.Connection{ID: connection, Kind: plan.ConnectionMCP}
		if i := slices.IndexFunc(p.Run.Flow.Connections, func(c plan.Connection) bool { return c.ID == connection && connection != "" }); i >= 0 {
			c = p.Run.Flow.Connections[i]
		}
		k = len(*all)
		*all = append(*all, &requiredConnection{node: n, resolved: contract.ResolvedConnection{ID: id, Connection: c}, request: contract.CatalogueInput{Connection: c}})
	}
	return (*all)[k]
}

// applyListing applies a connection's catalogue, or the error of listing it. It returns problems with their positions.
func (p *Preparation) applyListing(w *requiredConnection) (problems []string, _ error) {
	out, err, at := &w.listing, w.listErr, w.toolboxAt
	if len(w.boundAt) > 0 {
		at = w.boundAt[0] // the first binding
	}
	if c := w.resolved.Connection; c.Kind == plan.ConnectionAgent && p.Run.Flow.SubFlow(c.Agent) == nil {
		problems = append(problems, fmt.Sprintf("%s: connection %q runs the agent %q, which the document does not define [V9]", at, w.resolved.ID, c.Agent))
	}
	if err != nil {
		fail := contract.FailureOf(err)
		switch {
		case contract.Cancelled(err):
			return nil, err
		case p.dropTools(w.resolved.ID, w.request.Names):
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
	w.resolved.Connection, w.resolved.CallRules = out.Resolved, out.CallRules
	if sessions, server := p.Run.Shared.Sessions(), w.resolved.Server(); out.Queue != "" && sessions[server].Queue == "" {
		sessions[server] = contract.ServerSession{Queue: out.Queue}
	}
	if out.SHA != "" {
		ref := p.Run.Transcript.Keep(out.Catalogue)
		w.resolved.Catalogue, w.toolNames = &ref, toolNames(out.Catalogue)
	}
	if !p.dropTools(w.resolved.ID, out.Missing) {
		for _, name := range out.Missing {
			problems = append(problems, fmt.Sprintf("%s: tool %q is not offered by %q; it offers: %s [V10]",
				w.boundAt[slices.Index(w.request.Names, name)], name, w.resolved.ID, textutil.ListNames(out.Offered)))
		}
	}
	for _, problem := range out.Wrong {
		problems = append(problems, fmt.Sprintf("%s: %s [V10]", at, problem))
	}
	return problems, nil
}

// toolNames returns the names of a catalogue's tools.
func toolNames(raw json.RawMessage) (names []string) {
	var c contract.Catalogue
	_ = json.Unmarshal(raw, &c) // the activity's encoding is valid
	for i := range c.Tools {
		names = append(names, c.Tools[i].Name)
	}
	return names
}

// updateAgents changes all agents, in a copy of the plan's nodes.
func (p *Preparation) updateAgents(change func(plan.TeamAgent)) {
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

// expandToolboxes replaces an agent's toolboxes with the tools that they offer, in the run's plan. It returns missing tools as
// problems.
func (p *Preparation) expandToolboxes(s plan.TeamAgent, required []*requiredConnection) []string {
	var problems []string
	toolboxes := s.Agent.Toolboxes
	if toolboxes == nil {
		return nil
	}
	s.Agent.Tools = slices.Clone(s.Agent.Tools)
	missing, offered := addToolboxTools(s.Agent, required)
	s.Agent.Toolboxes = nil
	if missing == nil && !toolboxes.All && !toolboxes.Lenient {
		return nil // a connection that could not be listed matters only if tools are missing
	}
	for _, id := range toolboxes.Connections {
		for _, w := range required {
			if w.resolved.ID == id && w.problem != "" {
				problems = append(problems, w.problem)
				w.problem = ""
			}
		}
	}
	for _, name := range missing {
		if !toolboxes.Lenient && !p.callsNoTools() {
			problems = append(problems, fmt.Sprintf("%s: the tool %q of node %q is offered by none of its connections %s; they offer: %s [V10]",
				p.Run.Source.At(plan.NodePath(s.ID)), name, s.ID, strings.Join(toolboxes.Connections, ", "), textutil.ListNames(offered)))
		}
	}
	return problems
}

// addToolboxTools adds the selected tools to the agent's. It returns the names that it did not find, and all offered names.
func addToolboxTools(a *plan.Agent, required []*requiredConnection) (missing, offered []string) {
	found, byModelName := map[string]bool{}, map[string]string{} // the name that models use -> the tool's name
	for _, id := range a.Toolboxes.Connections {
		k := slices.IndexFunc(required, func(w *requiredConnection) bool { return w.resolved.ID == id })
		for _, name := range required[k].toolNames {
			offered = append(offered, name)
			as := safeName(name)
			if other := byModelName[as]; other != "" && other != name {
				as = hashedName(as, name)
			}
			if !a.Toolboxes.All && !slices.Contains(a.Toolboxes.Names, name) || a.HasTool(as) {
				continue
			}
			found[name], byModelName[as] = true, name
			a.Tools = append(a.Tools, plan.Tool{Name: name, As: as, Connection: id, Confirm: slices.Contains(a.Toolboxes.Confirm, id)})
		}
	}
	for _, name := range a.Toolboxes.Names {
		if !found[name] && !a.HasTool(name) {
			missing = append(missing, name)
		}
	}
	return missing, offered
}

// maxToolName is the longest tool name that all providers accept.
const maxToolName = 64

// unsafeChars matches the characters that not all providers accept in tool names.
var unsafeChars = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// safeName returns a tool's name in a form that all providers accept.
func safeName(s string) string {
	s = unsafeChars.ReplaceAllString(s, "_")
	if len(s) > maxToolName {
		return hashedName(s, s)
	}
	return s
}

// hashedName returns a safe name that is unique to the original name.
func hashedName(safe, name string) string {
	return safe[:min(len(safe), maxToolName-9)] + "_" + contract.SHA([]byte(name))[:8]
}
