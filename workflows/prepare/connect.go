package prepare

import (
	"encoding/json"
	"fmt"
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
	// names are the tools bound to it; at says where each binding was written.
	names []string
	at    []string
	// takes are the schemas that the flow knows tools by.
	takes map[string]json.RawMessage
	// all takes all tools, for boxes at boxedAt; offered are those, problem is why there are
	// none.
	all              bool
	boxedAt, problem string
	offered          []string
}

// Connect finds the connections that the flow's tools need and lists their tools, once per
// run. Everything that is missing is reported together.
func (p *Preparation) Connect(ctx workflow.Context) error {
	wants := p.withToolboxes(p.wanted())
	results := make([]contract.CatalogueResult, len(wants))
	failed := make([]error, len(wants))
	calls := group.New(ctx)
	for i, w := range wants {
		request := contract.CatalogueInput{Connection: w.bound.Connection, Names: w.names, All: w.all, Takes: w.takes}
		local := 0
		if w.bound.Connection.ID == "" || w.bound.Connection.Kind != plan.ConnectionMCP {
			local = runtime.LocalBytes // no server lists them
		}
		calls.Start(func(ctx workflow.Context) error {
			failed[i] = p.Run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityListTools, Args: []any{&request}, What: "the tools bound to connection " + w.bound.ID,
				ID: "tools/" + contract.EscapeID(w.bound.ID), Summary: "list tools · " + w.bound.ID, Options: runtime.Retrying(p.Run.Options(p.Run.Flow.Policy.ToolSeconds), w.bound.Connection.Retry),
				Result: runtime.ResultSize{Together: len(wants), Share: &request.MaxResultBytes}, Local: local, Out: &results[i]})
			return nil
		})
	}
	if err := calls.Wait(); err != nil {
		return err
	}
	var problems []string
	for i := range wants {
		found, err := p.list(&wants[i], &results[i], failed[i])
		if err != nil {
			return err
		}
		problems = append(problems, found...)
		p.Run.Shared.Connections = append(p.Run.Shared.Connections, wants[i].bound)
	}
	problems = append(problems, p.expandToolboxes(wants)...)
	if len(problems) > 0 {
		return &contract.Failure{Class: contract.ClassConnection, Text: strings.Join(problems, "; "), Diagnostics: problems,
			Remedy: "bind the tools to connections that have them, or configure the connections on the worker"}
	}
	return nil
}

// wanted lists the connections that the flow's tools name, in order.
func (p *Preparation) wanted() []want {
	var out []want
	for i := range p.Run.Flow.Nodes {
		n := &p.Run.Flow.Nodes[i]
		for _, named := range n.BoundTools() {
			tool, t := named.Tool, named.Index
			id := tool.BoundTo()
			k := slices.IndexFunc(out, func(w want) bool { return w.bound.ID == id })
			if k < 0 {
				k = len(out)
				out = append(out, want{bound: contract.ResolvedConnection{ID: id, Connection: p.connection(tool.Connection)}})
			}
			if len(tool.ArgumentsSchema) > 0 && tool.Connection != "" {
				if out[k].takes == nil {
					out[k].takes = map[string]json.RawMessage{}
				}
				out[k].takes[tool.Name] = tool.ArgumentsSchema
			}
			if !slices.Contains(out[k].names, tool.Name) {
				out[k].names = append(out[k].names, tool.Name)
				out[k].at = append(out[k].at, p.Run.Source.At(plan.ToolPath(named.Of, t)))
			}
		}
	}
	return out
}

// connection is what the run's input or the flow says of a connection. What neither knows
// is left to the worker's configuration.
func (p *Preparation) connection(id string) plan.Connection {
	for _, c := range p.Run.Flow.Connections {
		if c.ID == id && id != "" {
			return c
		}
	}
	return plan.Connection{ID: id, Kind: plan.ConnectionMCP}
}

// list takes over a connection's catalogue, or why there is none. What is wrong with the connection or its
// tools is returned as problems, with places.
func (p *Preparation) list(w *want, out *contract.CatalogueResult, err error) (problems []string, _ error) {
	if c := w.bound.Connection; c.Kind == plan.ConnectionAgent && p.Run.Flow.SubFlow(c.Agent) == nil {
		problems = append(problems, fmt.Sprintf("%s: connection %q runs the agent %q, which the document does not hold [V9]", w.at[0], w.bound.ID, c.Agent))
	}
	if err != nil {
		if contract.Cancelled(err) {
			return nil, err
		}
		fail := contract.FailureOf(err)
		if len(w.names) == 0 {
			w.problem = fmt.Sprintf("%s: %s [V9]", w.boxedAt, fail.Error())
			return nil, nil
		}
		if fail.Class == contract.ClassConnection {
			return []string{fmt.Sprintf("%s: %s [V9]", w.at[0], fail.Error())}, nil
		}
		fail.At = w.at[0]
		return nil, fail
	}
	w.bound.Connection, w.bound.CallRules = out.Resolved, out.CallRules
	if sessions, server := p.Run.Shared.Sessions(), w.bound.Server(); out.Queue != "" && sessions[server].Queue == "" {
		sessions[server] = contract.ServerSession{Queue: out.Queue}
	}
	if out.SHA != "" {
		ref := p.Run.Transcript.Keep(out.Catalogue)
		w.bound.Catalogue = &ref
		w.offered = names(out.Catalogue)
	}
	for _, name := range out.Missing {
		at := w.at[slices.Index(w.names, name)]
		problems = append(problems, fmt.Sprintf("%s: tool %q is not offered by %q; it offers: %s [V10]",
			at, name, w.bound.ID, textutil.Some(out.Offered)))
	}
	for _, wrong := range out.Wrong {
		problems = append(problems, fmt.Sprintf("%s: %s [V10]", w.at[0], wrong))
	}
	return problems, nil
}
