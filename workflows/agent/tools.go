package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/group"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/questions"
	"weft/workflows/runtime"
)

// call runs the tool calls of one assistant's message and appends their results in the
// order asked. Calls outside run in parallel; the interpreter's own tools take effect in
// the order asked.
func (a *agentRun) call(ctx workflow.Context, msg *contract.Message, sha string) error {
	outside := group.New(ctx)
	calls := make([]*toolCall, len(msg.Calls))
	for i := range calls {
		calls[i] = &toolCall{agentRun: a, call: &msg.Calls[i], index: i, sha: sha}
	}
	a.under = calls
	for _, c := range calls {
		c.start(outside)
		if a.cfg.Sequential && c.outside && c.wait() != nil {
			break
		}
	}
	var failed error
	for _, c := range calls {
		// What comes behind a call that yielded takes its effect when that has its answer.
		if failed = c.finish(); failed != nil {
			break
		}
	}
	if err := outside.Wait(); err != nil {
		failed = err
	}
	if failed != nil {
		return failed
	}
	if err := a.noteAll(calls); err != nil {
		return err
	}
	return a.handedOver()
}

// noteAll appends the replies of a message's calls to the thread.
func (a *agentRun) noteAll(calls []*toolCall) error {
	var last string
	for _, c := range calls {
		if err := a.note(c.call, c.reply); err != nil {
			return err
		}
		if c.reply.Failed && !c.reply.Free {
			a.state.Errors++
			last = textOf(&c.reply)
		} else if !c.reply.Failed {
			a.state.Errors = 0
		}
		if a.state.Errors == a.cfg.MaxErrors && a.result == nil {
			return a.run.Fail(a.execution, contract.ClassToolErrors, "look at the node's transcript; fix the tool or the prompt",
				"%d tool errors in a row, the last of %q: %s", a.state.Errors, c.call.Name, textutil.Cut(last, 500))
		}
	}
	a.state.Exhausted = a.state.Left == 0
	return nil
}

// toolCall is one call of an assistant's message.
type toolCall struct {
	agentRun *agentRun
	call     *contract.ToolCall
	index    int
	sha      string
	reply    contract.ToolReply
	// startNumber tells the run that the call starts from those of other calls with its id.
	startNumber int
	// outside says that the call runs beside the others; wait waits for it then.
	outside bool
	wait    func() error
	done    bool
	// args are those of a tool of the interpreter's own; condensed says that the value is
	// shortened first.
	args      builtinArgs
	condensed bool
	// server has what the call's server asks answered.
	server *questions.Call
}

// start begins a call that runs beside the others, and decides what a call is answered that is
// not made at all.
func (c *toolCall) start(outside *group.Group) {
	switch {
	case c.ends():
		return
	case c.index >= maxCalls:
		c.refuse("at most %d calls at once are made; ask again for the others", maxCalls)
		return
	case c.agentRun.state.Left == 0:
		c.settle(contract.ToolReply{Text: beyondBudget, Failed: true, Free: true})
		return
	}
	c.agentRun.state.Left--
	args, problem := arguments(c.call.Arguments)
	if problem != "" {
		c.refuse("the arguments of %s are no JSON object: %s; call it again with an object", c.call.Name, problem)
		return
	}
	run := c.handler(args)
	if run == nil {
		return
	}
	c.outside = true
	c.wait = outside.Start(func(ctx workflow.Context) error {
		reply, err := run(ctx)
		if err == nil && !c.condensed {
			c.settle(reply)
		}
		return err
	})
}

// handler finds what runs a call outside. It returns nil for the interpreter's own tools, whose
// effect comes in the order asked, and for a tool that there is not.
func (c *toolCall) handler(args json.RawMessage) func(workflow.Context) (contract.ToolReply, error) {
	for t := range c.agentRun.cfg.Tools {
		tool := &c.agentRun.cfg.Tools[t]
		if tool.As != c.call.Name {
			continue
		}
		b := resolvedConnection(c.agentRun.run, tool)
		if b.Connection.Kind == plan.ConnectionAgent {
			c.countStart()
		}
		args = value.Complete(tool.ArgumentsSchema, args)
		return func(ctx workflow.Context) (contract.ToolReply, error) { return c.bound(ctx, tool, b, args) }
	}
	switch {
	case c.agentRun.cfg.Ask != nil && c.call.Name == c.agentRun.cfg.Ask.Name:
		c.countStart()
		return func(ctx workflow.Context) (contract.ToolReply, error) { return c.ask(ctx, args) }
	case c.agentRun.cfg.Handoff != nil && c.call.Name == c.agentRun.cfg.Handoff.Name:
		return nil
	case c.call.Name == plan.BuiltinReadResource && slices.Contains(c.agentRun.builtins(), c.call.Name):
		return func(ctx workflow.Context) (contract.ToolReply, error) { return c.readResource(ctx, args) }
	case slices.Contains(c.agentRun.cfg.Builtins, c.call.Name):
		return c.builtin(args)
	case c.agentRun.cfg.NoTool != "":
		c.refuse("%s", strings.NewReplacer("{tool}", c.call.Name).Replace(c.agentRun.cfg.NoTool))
		return nil
	}
	c.refuse("there is no tool %q; there are: %s", c.call.Name, strings.Join(offered(c.agentRun), ", "))
	return nil
}

// bound calls a tool of a connection, once a person has agreed where one must.
func (c *toolCall) bound(ctx workflow.Context, tool *plan.Tool, b *contract.ResolvedConnection, args json.RawMessage) (contract.ToolReply, error) {
	args, note, refused, err := c.confirm(ctx, tool, b, args)
	if err != nil || refused != nil {
		return orEmpty(refused), err
	}
	args = value.Complete(tool.ArgumentsSchema, args)
	reply, err := c.validate(ctx, tool, b, args)
	if err != nil || reply.Failed {
		return reply, err
	}
	switch b.Connection.Kind {
	case plan.ConnectionAgent:
		reply, err = c.subAgent(ctx, tool, b.Connection.Agent, args)
	case plan.ConnectionClient:
		reply, err = c.client(ctx, tool, b, args)
	default:
		return c.tool(ctx, tool, b, args, note)
	}
	reply.Text = note + reply.Text
	return reply, err
}

func orEmpty(r *contract.ToolReply) contract.ToolReply {
	if r == nil {
		return contract.ToolReply{}
	}
	return *r
}

// finish waits for a call, or lets one of the interpreter's own take effect.
func (c *toolCall) finish() error {
	switch {
	case c.done:
		return nil
	case c.outside:
		if err := c.wait(); err != nil || c.done {
			return err
		}
	}
	c.settle(c.effect())
	return nil
}

func (c *toolCall) settle(r contract.ToolReply) { c.reply, c.done = r, true }

// refuse answers a call that cannot be made.
func (c *toolCall) refuse(format string, args ...any) {
	c.settle(contract.ToolReply{Text: fmt.Sprintf(format, args...), Failed: true})
}

// id is that of the call's activity of a kind.
func (c *toolCall) id(kind string) string {
	return fmt.Sprintf("%s/%s/%d.%d", c.agentRun.execution.ID, kind, c.agentRun.state.Turn, c.index+1)
}

// declared is the content that has a tool as the flow declares it, or else as its connection does.
func (c *toolCall) declared(t *plan.Tool, b *contract.ResolvedConnection) (*contract.ContentRef, error) {
	if len(t.ArgumentsSchema) == 0 || b.Connection.Kind == plan.ConnectionClient {
		return b.Catalogue, nil
	}
	raw, err := json.Marshal(contract.Catalogue{Tools: []contract.ToolSpec{{Name: t.Name, Schema: t.ArgumentsSchema}}})
	if err != nil {
		return nil, err
	}
	ref := c.agentRun.run.Transcript.Keep(raw)
	return &ref, nil
}

// validate checks the arguments of a call that CallTool does not make, and gives a failed reply for those that
// the flow does not declare.
func (c *toolCall) validate(ctx workflow.Context, t *plan.Tool, b *contract.ResolvedConnection, args json.RawMessage) (contract.ToolReply, error) {
	outside := b.ExternalActivity != nil || b.Connection.Kind == plan.ConnectionClient || b.Connection.Kind == plan.ConnectionAgent
	if len(t.ArgumentsSchema) == 0 || !outside {
		return contract.ToolReply{}, nil
	}
	id, in := c.id("validate"), contract.ValidateAnswerInput{Name: t.Name, Arguments: args, Schema: t.ArgumentsSchema}
	return c.toolStep(ctx, id, runtime.HashOf(t.Name, string(args)), func(s *journal.Step, reply *contract.ToolReply) error {
		var out contract.ValidateAnswerResult
		err := c.agentRun.run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityValidateAnswer, Args: []any{&in}, What: "the arguments of " + c.call.Name, At: c.agentRun.execution, ID: id,
			Summary: "check the arguments of " + c.call.Name, Options: runtime.CheckOptions, Local: runtime.LocalBytes, Waiting: &s.JournalStep, Journal: c.agentRun.execution.Journal, Out: &out})
		switch {
		case err != nil || len(out.Errors) == 0:
		case byNode(c):
			err = contract.UnfitArguments(t.Name, out.Errors)
		default:
			*reply = contract.ToolReply{Text: contract.WrongArguments(c.call.Name, out.Errors), Failed: true}
		}
		return err
	})
}

// byNode reports whether a node makes a call, and no model.
func byNode(c *toolCall) bool { return c.agentRun.execution.Node.Tool != nil }

// client has a client of the run execute a tool.
func (c *toolCall) client(ctx workflow.Context, tool *plan.Tool, b *contract.ResolvedConnection, args json.RawMessage) (contract.ToolReply, error) {
	limit := plan.Seconds(0)
	for i := range b.Connection.Tools {
		if b.Connection.Tools[i].Name == tool.Name {
			limit = b.Connection.Tools[i].Timeout
		}
	}
	req := contract.Request{
		ID: c.id("client"), Kind: contract.RequestToolResult, Hash: contract.SHA(append([]byte(tool.Name+"\n"), args...)),
		Text: fmt.Sprintf("run %s%s", tool.Name, inWords(args)), Catalogue: b.Catalogue, Timeout: limit,
	}
	describeCall(c, &req, tool, args)
	reply, err := c.agentRun.run.Requests.Ask(ctx, c.agentRun.execution, req)
	switch {
	case err != nil:
		return contract.ToolReply{}, err
	case reply.ToolResult == nil:
		return contract.ToolReply{Text: fmt.Sprintf("no client ran the tool within %d seconds", limit), Failed: true}, nil
	case reply.ToolResult.Error != "":
		return contract.ToolReply{Text: reply.ToolResult.Error, Failed: true}, nil
	}
	var text string
	if json.Unmarshal(reply.ToolResult.Result, &text) == nil {
		return contract.ToolReply{Text: text}, nil
	}
	return contract.ToolReply{Text: string(textutil.Unescape(reply.ToolResult.Result))}, nil
}

// maxCalls is how many calls of one message are made; the server refuses more than 2,000
// activities under way.
const maxCalls = 500

// textOf is a reply's text.
func textOf(r *contract.ToolReply) string {
	if r.Message == nil {
		return r.Text
	}
	m, err := contract.DecodeMessage(r.Message)
	if err != nil {
		return ""
	}
	return m.Text
}

// note appends a reply to the thread.
func (a *agentRun) note(c *contract.ToolCall, reply contract.ToolReply) error {
	if reply.Message != nil {
		a.run.Transcript.Record(a.thread, reply.Message)
		return nil
	}
	m := contract.Message{Role: contract.RoleTool, Text: reply.Text, Parts: reply.Parts, CallID: c.ID, Name: c.Name, Error: reply.Failed}
	if n, err := runtime.Size(m); err != nil || n > a.run.Sizes.Limit()/2 {
		m.Text, m.Parts, m.Error = fmt.Sprintf("the result is %d bytes, at most %d fit; ask for less", n, a.run.Sizes.Limit()/2), nil, true
	}
	_, err := a.run.Transcript.Write(a.thread, &m)
	return err
}

// offered lists the names of the node's tools.
func offered(a *agentRun) []string {
	names := append([]string{}, a.builtins()...)
	for i := range a.cfg.Tools {
		names = append(names, a.cfg.Tools[i].As)
	}
	for _, k := range Contacts(a.cfg) {
		names = append(names, k.Name)
	}
	return names
}

// arguments reads what a model wrote as a tool's arguments. Nothing at all means none.
func arguments(text string) (json.RawMessage, string) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return json.RawMessage("{}"), ""
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, err.Error()
	}
	return json.RawMessage(text), ""
}

// tool calls a tool outside, as an activity.
func (c *toolCall) tool(ctx workflow.Context, t *plan.Tool, b *contract.ResolvedConnection, args json.RawMessage, note string) (contract.ToolReply, error) {
	in := contract.ToolInput{Connection: b.Connection, Name: t.Name, Arguments: args, CallID: c.call.ID, As: t.As, Note: note, Schema: t.ArgumentsSchema, ByNode: byNode(c), Outputs: outputNames(c.agentRun.execution.Node)}
	if len(args) > runtime.MaxInline && note == "" {
		// History has them already, in the message that asks for the call; the activity adds the defaults.
		in.Arguments, in.Call = nil, &contract.ContentRef{SHA: c.sha}
	}
	if b.ExternalActivity != nil {
		return c.callExternal(ctx, b, args, note)
	}
	in.AsTask, c.server = slices.Contains(b.AsTasks, t.Name), c.questions(t, args)
	reply, err := c.callTool(ctx, t, b, in, args, c.id("tool"))
	for n := 1; err == nil && reply.Input != nil && n <= questions.MaxRounds; n++ {
		var refused *contract.ToolReply
		if in.Input, refused, err = c.server.Answer(ctx, reply.Input, n); refused != nil {
			return *refused, err
		}
		if err == nil {
			reply, err = c.callTool(ctx, t, b, in, args, fmt.Sprintf("%s~%d", c.id("tool"), n+1))
		}
	}
	if err == nil && reply.Task != nil {
		return awaitTask(ctx, c, t, b, in, args, reply)
	}
	return reply, err
}

// questions has what the server of a call asks answered.
func (c *toolCall) questions(t *plan.Tool, args json.RawMessage) *questions.Call {
	a := c.agentRun
	req := contract.Request{ID: c.id("input")}
	describeCall(c, &req, t, args)
	// Conversations with the model are named like those with members.
	return &questions.Call{Run: a.run, Execution: a.execution, Tool: t, Request: req,
		Thread:  fmt.Sprintf("%s:%s~%d.%d.", a.execution.ID, contract.EscapeID(t.As), a.state.Turn, c.index+1),
		Profile: contract.Profile{Model: modelRef(a), Node: a.who(), Script: a.run.Shared.Script, Home: a.run.Home(), Params: a.cfg.Params}}
}

// callTool makes one call of a tool as a step.
func (c *toolCall) callTool(ctx workflow.Context, t *plan.Tool, b *contract.ResolvedConnection, in contract.ToolInput, args json.RawMessage, id string) (contract.ToolReply, error) {
	reply, err := c.toolStep(ctx, id, runtime.HashOf(t.Name, string(args), in.Note), func(s *journal.Step, reply *contract.ToolReply) error {
		var out contract.ToolResult
		in.Repeat = b.Repeats(t.Name)
		call := c.invocation(b, &in, id, &out)
		call.Waiting = &s.JournalStep
		err := c.agentRun.run.Invoke(ctx, call)
		if err == nil {
			*reply = replied(c.agentRun, b, &out)
			if out.Task != nil {
				now := workflow.Now(ctx)
				reply.Started = &now
			}
			return nil
		}
		*reply, err = c.agentRun.toolFailed(call, err)
		return err
	})
	serve(c.agentRun, b, reply.Session)
	return reply, err
}

// invocation is the activity that makes a call of a tool.
func (c *toolCall) invocation(b *contract.ResolvedConnection, in *contract.ToolInput, id string, out *contract.ToolResult) *runtime.Call {
	run, x := c.agentRun.run, c.agentRun.execution
	session := c.agentRun.servedBy(b)
	in.Session = session.Sealed
	call := &runtime.Call{
		Activity: contract.ActivityCallTool, Args: []any{in}, What: "the call of " + c.call.Name, At: x, ID: id,
		Summary: fmt.Sprintf("%s · %s", x.Node.ID, c.call.Name), Options: runtime.Retrying(run.Options(run.Flow.Policy.ToolSeconds), b.Connection.Retry),
		Once: !in.Repeat, AskUnknown: b.AskUnknown, Queue: session.Queue, Result: runtime.ResultSize{Together: len(c.agentRun.under), Share: &in.MaxResultBytes}, Journal: x.Journal, Out: out,
	}
	if b.IsPure(in.Name) {
		call.Local = runtime.LocalBytes
	}
	if hold := time.Duration(b.HoldSeconds) * time.Second; hold > 0 {
		// The activity itself bounds its attempts: the time in which its server waits for a person does not count.
		in.TimeoutMillis, call.Held = call.Options.StartToCloseTimeout.Milliseconds(), questions.Held{Call: c.server}
		call.Options.StartToCloseTimeout += hold
		call.Options.ScheduleToCloseTimeout += hold
	}
	return call
}

// toolStep makes a call of a tool as a step.
func (c *toolCall) toolStep(ctx workflow.Context, id, hash string, do func(*journal.Step, *contract.ToolReply) error) (contract.ToolReply, error) {
	var reply contract.ToolReply
	err := c.agentRun.run.RunStep(ctx, c.agentRun.execution.Journal, id, hash, &reply, func(s *journal.Step) error { return do(s, &reply) })
	return reply, err
}

// toolFailed decides what a failed tool call means: something that the model can fix goes
// back to it as a reply; what an operator must fix stays an error.
func (a *agentRun) toolFailed(call *runtime.Call, err error) (contract.ToolReply, error) {
	if contract.Cancelled(err) || errors.Is(err, runtime.ErrYield) {
		return contract.ToolReply{}, err
	}
	f := contract.FailureOf(err)
	switch f.Class {
	case contract.ClassTooLarge, contract.ClassBadRequest, contract.ClassSchema, contract.ClassRefused:
		return contract.ToolReply{Text: f.Error(), Failed: true}, nil
	}
	if call.OutcomeUnknown(f) {
		return contract.ToolReply{Text: "outcome unknown: " + f.Text +
			"; the call may have taken effect and is not repeated: find out whether it has before you make it again", Failed: true}, nil
	}
	return contract.ToolReply{}, err
}
