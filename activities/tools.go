package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/activities/schema"
	"weft/activities/tool"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// listTools lists the tools of a connection that a flow binds. The run keeps using the result, even if the server
// later offers others.
func (a *Activities) listTools(ctx context.Context, in *contract.CatalogueInput, _ *heartbeats) (*contract.CatalogueResult, error) {
	out := &contract.CatalogueResult{Resolved: in.Connection}
	if in.Connection.Kind == plan.ConnectionAgent {
		// The agent's flow is in the plan; the worker only adds its rules.
		var named []contract.ToolSpec
		for _, name := range in.Names {
			named = append(named, contract.ToolSpec{Name: name})
		}
		out.CallRules = a.deps.Tools.Rules(out.Resolved, named)
		return out, nil
	}
	if err := a.mayList(ctx, in); err != nil {
		return nil, err
	}
	specs, err := a.specs(ctx, in, out)
	if err != nil {
		return nil, err
	}
	var c contract.Catalogue
	for _, s := range specs {
		if in.All || slices.Contains(in.Names, s.Name) {
			c.Tools = append(c.Tools, s)
		}
		out.Offered = append(out.Offered, s.Name)
	}
	rules := a.deps.Tools.Rules(out.Resolved, c.Tools)
	rules.ExternalActivity = out.ExternalActivity
	out.CallRules, out.Queue = rules, a.queueOf(out.Resolved)
	for _, name := range in.Names {
		if !slices.Contains(out.Offered, name) {
			out.Missing = append(out.Missing, name)
		}
	}
	if len(out.Missing) == 0 {
		out.Offered = nil
	}
	out.Wrong = signatureMismatches(c.Tools, in.ArgumentSchemas)
	if out.Catalogue, err = json.Marshal(c); err != nil {
		return nil, err
	}
	out.SHA = contract.SHA(out.Catalogue)
	a.cache.keep(out.SHA, out.Catalogue)
	var large *contract.Failure
	if err = a.checkRoom("the tool catalogue", out, in.MaxResultBytes); errors.As(err, &large) {
		large.Text = fmt.Sprintf("connection %q: %s", in.Connection.ID, large.Text)
		large.Remedy = "shorten the descriptions of the connection's tools, bind fewer tools and connections, or give the workers a store (store.dir) before the run starts"
	}
	return out, err
}

// specs returns the tools that a connection lists, or that the flow or the run describes. It sets out.Resolved.
func (a *Activities) specs(ctx context.Context, in *contract.CatalogueInput, out *contract.CatalogueResult) ([]contract.ToolSpec, error) {
	if in.Connection.Kind == plan.ConnectionClient {
		return clientTools(&in.Connection)
	}
	first := ""
	if len(in.Names) > 0 {
		first = in.Names[0]
	}
	var err error
	if out.Resolved, err = a.deps.Tools.Resolve(in.Connection, first); err != nil {
		return nil, err
	}
	switch kind := out.Resolved.Kind; {
	case in.Connection.Kind == plan.ConnectionHTTP:
		var specs []contract.ToolSpec
		for i := range in.Connection.Requests {
			q := &in.Connection.Requests[i]
			specs = append(specs, contract.ToolSpec{Name: q.Name, Description: q.Description, Schema: q.Schema, Repeatable: tool.Repeatable(q)})
		}
		return specs, nil
	case kind == plan.ConnectionActivity:
		how, spec, err := a.deps.Tools.ExternalActivity(first)
		out.ExternalActivity = how
		return []contract.ToolSpec{spec}, err
	case isLocal(ctx) && kind != plan.ConnectionLocal && kind != plan.ConnectionDatabase:
		return nil, errNotLocal
	}
	specs, err := a.deps.Tools.List(ctx, out.Resolved)
	a.maskToolSpecs(specs)
	return specs, err
}

// clientTools returns the tools that a client of the run executes, as the flow or the run declares them.
func clientTools(c *plan.Connection) ([]contract.ToolSpec, error) {
	var out []contract.ToolSpec
	for i := range c.Tools {
		s := contract.ClientTool(&c.Tools[i])
		for field, rules := range map[string]json.RawMessage{"schema": s.Schema, "result": s.Result} {
			if len(rules) == 0 {
				continue
			}
			if err := schema.Usable(rules); err != nil {
				return nil, &contract.Failure{Class: contract.ClassBadRequest,
					Text:   fmt.Sprintf("tool %q of connection %q: its %s is not a JSON Schema: %v", s.Name, c.ID, field, err),
					Remedy: "correct the tool's declaration"}
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// validateAnswer validates an answer to a request against the tool's declaration.
func (a *Activities) validateAnswer(ctx context.Context, in *contract.ValidateAnswerInput, _ *heartbeats) (*contract.ValidateAnswerResult, error) {
	schema, value := in.Schema, cmp.Or(string(in.Arguments), string(in.Result))
	if len(schema) == 0 {
		spec, err := a.spec(ctx, in.Catalogue, in.Name)
		if err != nil {
			return nil, err
		}
		if schema = spec.Result; len(in.Arguments) > 0 {
			schema = spec.Schema
		}
	}
	if len(schema) == 0 {
		return &contract.ValidateAnswerResult{}, nil
	}
	checked, err := check(ctx, schema, value)
	if err != nil {
		return nil, err
	}
	return &contract.ValidateAnswerResult{Errors: checked.Errors}, nil
}

// callTool calls one tool. An error that the tool reports is a result, for the model.
func (a *Activities) callTool(ctx context.Context, in *contract.ToolInput, beats *heartbeats) (*contract.ToolResult, error) {
	if in.Call != nil {
		args, err := a.argumentsOf(ctx, *in.Call, in.CallID)
		if err != nil {
			return nil, err
		}
		in.Arguments = args
	}
	if problem, err := a.declared(ctx, in); err != nil || problem != "" {
		return a.toolMessage(ctx, in, tool.Result{Text: problem, Failed: true}, err)
	}
	if err := a.mayCall(ctx, in.Connection, in.Name, tool.CalledURL(*in)); err != nil {
		return nil, err
	}
	repeated := earlierSent(ctx)
	if repeated && !in.Repeat {
		return nil, lostAttempt(ctx, "the call of "+in.As)
	}
	calling, span := startTool(ctx, in)
	result, err := a.deps.Tools.Call(calling, *in, tool.Meta{IdempotencyKey: in.IdempotencyKey, Caller: conversation(ctx), Session: a.openSession(ctx, in.Connection.ID, in.Session), Repeated: repeated, Ask: a.askRun(ctx), Progress: beats.progress, Panicked: func(value any, stack []byte) {
		activity.GetLogger(ctx).Error("tool panicked", "tool", in.Name, "panic", fmt.Sprint(value), "stack", string(stack))
	}})
	if result.Failed {
		span.SetAttributes(semconv.ErrorTypeOther)
		span.SetStatus(codes.Error, "the tool reported an error")
	}
	end(span, err)
	if err != nil {
		err = beats.outcome(err, in.Repeat)
	}
	return a.toolMessage(ctx, in, result, err)
}

// toolMessage returns the result of a call as a message, or err.
func (a *Activities) toolMessage(ctx context.Context, in *contract.ToolInput, result tool.Result, err error) (*contract.ToolResult, error) {
	if err != nil {
		return nil, err
	}
	m := contract.Message{Role: contract.RoleTool, Text: in.Note + a.deps.Mask.Text(result.Text), CallID: in.CallID, Name: in.As, Error: result.Failed, Media: result.Media}
	for _, uri := range result.Links {
		if a.deps.Mask.Text(uri) == uri {
			m.Links = append(m.Links, uri)
		}
	}
	out, err := a.toolResult(&m, result.Failed, in.MaxResultBytes)
	if err != nil {
		return nil, err
	}
	out.Input, out.Task = result.Input, result.Task
	out.Session = contract.ServerSession{Sealed: cmp.Or(a.sealSession(ctx, in.Connection.ID, result.Session), in.Session), Queue: a.queueOf(in.Connection)}
	a.cache.keep(contract.SHA(out.Message), out.Message)
	return out, nil
}

// declared sets defaults that the flow declares in a call's arguments, and returns the problems of arguments that do not match
// the declaration.
func (a *Activities) declared(ctx context.Context, in *contract.ToolInput) (problem string, _ error) {
	if len(in.Schema) == 0 {
		return "", nil
	}
	in.Arguments = value.Complete(in.Schema, in.Arguments)
	checked, err := check(ctx, in.Schema, string(in.Arguments))
	if err != nil || len(checked.Errors) == 0 {
		return "", err
	}
	if in.ByNode {
		return "", contract.InvalidArguments(in.Name, checked.Errors)
	}
	return contract.WrongArguments(in.As, checked.Errors), nil
}

// conversation returns the id of the node's execution whose model calls a tool.
func conversation(ctx context.Context) string {
	info := activity.GetInfo(ctx)
	exec, _, _ := strings.Cut(info.ActivityID, "/tool/")
	return info.WorkflowExecution.ID + "/" + exec
}

// toolResult encodes a tool's message. Files that do not fit are dropped, the last ones first; the text then
// mentions them.
func (a *Activities) toolResult(m *contract.Message, failed bool, room int) (*contract.ToolResult, error) {
	text := m.Text
	for left := 0; ; left++ {
		raw, err := m.Encode()
		if err != nil {
			return nil, err
		}
		out := &contract.ToolResult{Message: raw, Error: failed}
		err = a.checkRoom("the result of "+m.Name, out, room)
		if err == nil || len(m.Media) == 0 {
			return out, err
		}
		m.Media = m.Media[:len(m.Media)-1]
		m.Text = fmt.Sprintf("%s\n(the last %d files were dropped: %s)", text, left+1, contract.FailureOf(err).Text)
	}
}

// argumentsOf finds the arguments of a call in the message that contains it.
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
	return nil, hashMismatch(fmt.Sprintf("the message with call %q", id))
}

// runProgram runs a program of a trusted folder. A non-zero exit code is a result; a program that may not run, or
// prints too much, is an error.
func (a *Activities) runProgram(ctx context.Context, in *contract.ProgramInput, _ *heartbeats) (*contract.ProgramResult, error) {
	if err := a.mayRun(ctx); err != nil {
		return nil, err
	}
	out, err := a.deps.Tools.Programs.Run(ctx, &in.Program, in.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	out.Stdout, out.Stderr, out.Data = a.deps.Mask.Text(out.Stdout), a.deps.Mask.Text(out.Stderr), a.deps.Mask.JSON(out.Data)
	return out, a.checkSize("what the program printed", out)
}

type signature struct {
	Properties map[string]struct {
		Type json.RawMessage `json:"type"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// signatureMismatches compares tools with their declarations in the flow: arguments that the tool does not have, that have
// another type, or that it requires. Complex types are not compared.
func signatureMismatches(tools []contract.ToolSpec, takes map[string]json.RawMessage) []string {
	var out []string
	for i := range tools {
		t := &tools[i]
		var declared, actual signature
		if takes[t.Name] == nil || json.Unmarshal(takes[t.Name], &declared) != nil || json.Unmarshal(t.Schema, &actual) != nil {
			continue
		}
		for name, p := range declared.Properties {
			r, ok := actual.Properties[name]
			switch {
			case !ok:
				out = append(out, fmt.Sprintf("tool %q has no parameter %q, which the flow declares as its input", t.Name, name))
			case len(p.Type) > 0 && len(r.Type) > 0 && string(p.Type) != string(r.Type) && (string(p.Type) != `"integer"` || string(r.Type) != `"number"`):
				out = append(out, fmt.Sprintf("tool %q declares %q as %s, but the flow declares it as %s", t.Name, name, r.Type, p.Type))
			}
		}
		for _, name := range actual.Required {
			if _, ok := declared.Properties[name]; !ok {
				out = append(out, fmt.Sprintf("tool %q requires %q, which the flow does not declare as its input", t.Name, name))
			}
		}
	}
	slices.Sort(out)
	return out
}
