package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"weft/activities/contract"
	"weft/activities/tool"
)

// ListTools lists the tools of a connection that a flow binds. The result is what the run
// uses from then on, whatever the server offers later.
func (a *Activities) ListTools(ctx context.Context, in contract.CatalogueInput) (*contract.CatalogueResult, error) {
	_, stop := beat(ctx)
	defer stop()
	out, err := a.list(ctx, &in)
	return out, leave(ctx, err)
}

func (a *Activities) list(ctx context.Context, in *contract.CatalogueInput) (*contract.CatalogueResult, error) {
	first := ""
	if len(in.Names) > 0 {
		first = in.Names[0]
	}
	resolved, err := a.deps.Tools.Resolve(in.Connection, first)
	if err != nil {
		return nil, err
	}
	specs, err := a.deps.Tools.List(ctx, resolved)
	if err != nil {
		return nil, err
	}
	out := &contract.CatalogueResult{Resolved: resolved, RetryNever: a.deps.Tools.RetryNever(resolved)}
	var c contract.Catalogue
	for _, s := range specs {
		if slices.Contains(in.Names, s.Name) {
			c.Tools = append(c.Tools, s)
		}
		out.Offered = append(out.Offered, s.Name)
	}
	for _, name := range in.Names {
		if !slices.Contains(out.Offered, name) {
			out.Missing = append(out.Missing, name)
		}
	}
	if len(out.Missing) == 0 {
		out.Offered = nil
	}
	if out.Catalogue, err = json.Marshal(c); err != nil {
		return nil, err
	}
	out.SHA = contract.SHA(out.Catalogue)
	a.cache.keep(out.SHA, out.Catalogue)
	return out, a.bounded("the tool catalogue", out)
}

// Tool calls one tool. What the tool itself reports as an error is a result, for the model.
func (a *Activities) Tool(ctx context.Context, in contract.ToolInput) (*contract.ToolResult, error) {
	tell, stop := beat(ctx)
	defer stop()
	out, err := a.tool(ctx, &in, tell)
	return out, leave(ctx, err)
}

func (a *Activities) tool(ctx context.Context, in *contract.ToolInput, tell func(string)) (*contract.ToolResult, error) {
	if in.Call != nil {
		args, err := a.argumentsOf(ctx, *in.Call, in.CallID)
		if err != nil {
			return nil, err
		}
		in.Arguments = args
	}
	text, failed, err := a.deps.Tools.Call(ctx, *in, tool.Meta{IdempotencyKey: key(ctx), Progress: tell})
	if err != nil {
		return nil, err
	}
	m := contract.Message{Role: contract.RoleTool, Text: text, CallID: in.CallID, Name: in.As, Error: failed}
	raw, err := m.Encode()
	if err != nil {
		return nil, err
	}
	out := &contract.ToolResult{Message: raw, SHA: contract.SHA(raw), Error: failed}
	if err := a.bounded("the result of "+in.As, out); err != nil {
		return nil, err
	}
	a.cache.keep(out.SHA, raw)
	return out, nil
}

// argumentsOf finds the arguments of a call in the message that asks for it.
func (a *Activities) argumentsOf(ctx context.Context, ref contract.ContentRef, id string) (json.RawMessage, error) {
	raw, err := a.content(ctx, ref)
	if err != nil {
		return nil, err
	}
	m, err := contract.DecodeMessage(raw)
	if err != nil {
		return nil, err
	}
	for _, c := range m.Calls {
		if c.ID == id {
			return json.RawMessage(c.Arguments), nil
		}
	}
	return nil, damaged(fmt.Sprintf("the message with call %q", id))
}
