package agent

import (
	"cmp"
	"encoding/json"
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
	"weft/workflows/replies"
	"weft/workflows/runtime"
)

// call runs the tool calls of one assistant message. External calls run in parallel; built-in tools take effect, and results are
// appended, in the order of the calls.
func (a *agentRun) call(ctx workflow.Context, ans *answer) error {
	external := group.New(ctx)
	var calls []*toolCall
	for i := range ans.msg.Calls {
		c := &toolCall{agent: a, answer: ans, call: &ans.msg.Calls[i], index: i}
		calls = append(calls, c)
		c.start(external)
		if a.cfg.Sequential && c.wait != nil && c.wait() != nil {
			break
		}
	}
	for _, c := range calls {
		if c.wait != nil && c.wait() != nil {
			break // calls after one that yielded take effect once it has completed
		}
		if c.effect != nil {
			c.reply = c.effect()
		}
	}
	if err := external.Wait(); err != nil {
		return err
	}
	if err := a.appendReplies(calls); err != nil || a.handoffTo == "" {
		return err
	}
	a.speakAs(a.handoffTo)
	a.handoffTo = ""
	a.describe()
	return nil
}

// appendReplies appends the replies of a message's calls to the thread.
func (a *agentRun) appendReplies(calls []*toolCall) error {
	for _, c := range calls {
		a.appendReply(c.call, c.reply)
		switch {
		case !c.reply.Failed:
			a.state.Errors = 0
		case c.reply.Free:
		default:
			a.state.Errors++
			if a.state.Errors < a.cfg.MaxErrors || a.result != nil {
				continue
			}
			text := c.reply.Text
			if m, err := contract.DecodeMessage(c.reply.Message); err == nil {
				text = m.Text
			}
			return a.run.Fail(a.execution, contract.ClassToolErrors, "check the node's transcript; fix the tool or the prompt",
				"%d tool errors in a row, the last of %q: %s", a.state.Errors, c.call.Name, textutil.Cut(text, 500))
		}
	}
	a.state.Exhausted = a.state.Left == 0
	return nil
}

// toolCall is one call of an assistant message.
type toolCall struct {
	agent  *agentRun
	answer *answer
	call   *contract.ToolCall
	index  int
	args   json.RawMessage
	// tool and conn are set for a tool of a connection. note describes a user's changes, for the model.
	tool *plan.Tool
	conn *contract.ResolvedConnection
	note string
	// serverQuestions counts the questions that the server asked during the call.
	serverQuestions int
	// runID is the workflow id of the run that the call starts, if it may start one.
	runID string
	reply contract.ToolReply
	// run, if set, executes the call in parallel with others, and wait waits for it. effect, if set, then returns the reply.
	run    func(workflow.Context) (contract.ToolReply, error)
	wait   func() error
	effect func() contract.ToolReply
}

// start starts a call that runs in parallel with others, or replies to a refused one.
func (c *toolCall) start(external *group.Group) {
	if err := c.admit(); err != nil {
		c.reply, _ = replies.Result(c.reply, err)
	} else if c.run != nil {
		c.wait = external.Start(func(ctx workflow.Context) (err error) {
			c.reply, err = replies.Result(c.run(ctx))
			return err
		})
	}
}

// admit validates the call and selects its executor; it returns a [*replies.Refused] if the call must not be made.
func (c *toolCall) admit() (err error) {
	a := c.agent
	switch {
	case a.cfg.Finish != nil && c.call.Name == a.cfg.Finish.Name:
		c.effect = c.finish
		return nil
	case c.index >= maxCalls:
		return replies.Refuse("at most %d calls of one message are executed; repeat the others", maxCalls)
	case a.state.Left == 0:
		return &replies.Refused{Reply: contract.ToolReply{Text: budgetExceeded, Failed: true, Free: true}}
	}
	a.state.Left--
	if c.args, err = arguments(c.call.Arguments); err != nil {
		return replies.Refuse("arguments of %s must be a JSON object: %v; call it again with an object", c.call.Name, err)
	}
	return c.selectExecutor()
}

// selectExecutor selects the function that executes the call in parallel, or its effect in the order of the calls.
func (c *toolCall) selectExecutor() error {
	a, name := c.agent, c.call.Name
	if i := slices.IndexFunc(a.cfg.Tools, func(t plan.Tool) bool { return t.As == name }); i >= 0 {
		c.tool = &a.cfg.Tools[i]
		c.conn = resolvedConnection(a.run, c.tool)
		if c.conn.Connection.Kind == plan.ConnectionAgent {
			c.setRunID()
		}
		c.args, c.run = value.Complete(c.tool.ArgumentsSchema, c.args), c.callConnection
		return nil
	}
	switch {
	case a.cfg.Ask != nil && name == a.cfg.Ask.Name:
		c.setRunID()
		c.run = c.ask
	case a.cfg.Handoff != nil && name == a.cfg.Handoff.Name:
		c.effect = c.handOver
	case name == plan.BuiltinReadResource && slices.Contains(a.builtins(), name):
		c.run = c.readResource
	case slices.Contains(a.cfg.Builtins, name):
		return c.builtin()
	case a.cfg.NoTool != "":
		return replies.Refuse("%s", strings.ReplaceAll(a.cfg.NoTool, "{tool}", name))
	default:
		return replies.Refuse("unknown tool %q; available tools: %s", name, strings.Join(toolNames(a), ", "))
	}
	return nil
}

// callConnection calls a tool of a connection, after a user's approval if that is required.
func (c *toolCall) callConnection(ctx workflow.Context) (contract.ToolReply, error) {
	if err := c.confirm(ctx); err != nil {
		return contract.ToolReply{}, err
	}
	c.args = value.Complete(c.tool.ArgumentsSchema, c.args)
	run, note := c.callExternal, ""
	switch {
	case c.conn.Connection.Kind == plan.ConnectionAgent:
		run, note = c.subAgent, c.note
	case c.conn.Connection.Kind == plan.ConnectionClient:
		run, note = c.callClient, c.note
	case c.conn.ExternalActivity == nil:
		return c.callServer(ctx)
	}
	if err := c.validate(ctx); err != nil {
		return contract.ToolReply{}, err
	}
	reply, err := replies.Result(run(ctx))
	reply.Text = note + reply.Text
	return reply, err
}

// id returns the id of the call's step of a kind.
func (c *toolCall) id(kind string) string {
	return fmt.Sprintf("%s/%s/%d.%d", c.agent.execution.ID, kind, c.agent.state.Turn, c.index+1)
}

// validate validates the arguments against the flow's schema, for calls that the activity CallTool does not validate.
func (c *toolCall) validate(ctx workflow.Context) error {
	if len(c.tool.ArgumentsSchema) == 0 {
		return nil
	}
	in := contract.ValidateAnswerInput{Name: c.tool.Name, Arguments: c.args, Schema: c.tool.ArgumentsSchema}
	reply, err := c.step(ctx, c.id("validate"), contract.HashOf(c.tool.Name, string(c.args)), func(s *journal.Step) (contract.ToolReply, error) {
		var out contract.ValidateAnswerResult
		call := c.activity(contract.ActivityValidateAnswer, s, &in, &out)
		call.What, call.Summary = "the arguments of "+c.call.Name, "check the arguments of "+c.call.Name
		call.Options, call.Local = runtime.CheckOptions, runtime.LocalBytes
		err := c.agent.run.Invoke(ctx, call)
		switch {
		case err != nil || len(out.Errors) == 0:
			return contract.ToolReply{}, err
		case c.byNode():
			return contract.ToolReply{}, contract.InvalidArguments(c.tool.Name, out.Errors)
		}
		return contract.ToolReply{Text: contract.WrongArguments(c.call.Name, out.Errors), Failed: true}, nil
	})
	if err == nil && reply.Failed {
		return &replies.Refused{Reply: reply}
	}
	return err
}

// byNode reports whether a tool node makes the call, not a model.
func (c *toolCall) byNode() bool { return c.agent.execution.Node.Tool != nil }

// callClient has a client of the run execute a tool.
func (c *toolCall) callClient(ctx workflow.Context) (contract.ToolReply, error) {
	req := contract.Request{Kind: contract.RequestToolResult, Text: fmt.Sprintf("run %s%s", c.tool.Name, describeArgs(c.args)), Catalogue: c.conn.Catalogue}
	for _, t := range c.conn.Connection.Tools {
		if t.Name == c.tool.Name {
			req.Timeout = t.Timeout
		}
	}
	reply, err := c.request(ctx, "client", req)
	switch {
	case err != nil:
		return contract.ToolReply{}, err
	case reply.ToolResult == nil:
		return replies.Error("no client ran the tool within %d seconds", req.Timeout), nil
	case reply.ToolResult.Error != "":
		return contract.ToolReply{Text: reply.ToolResult.Error, Failed: true}, nil
	}
	return contract.ToolReply{Text: ResultText(reply.ToolResult.Result)}, nil
}

// callExternal calls a tool that is an activity of another worker. That worker is not aware of Weft or of the store: it receives
// the plain arguments, and the model receives its result or error.
func (c *toolCall) callExternal(ctx workflow.Context) (contract.ToolReply, error) {
	r, e, id := c.agent.run, c.conn.ExternalActivity, c.id("tool")
	args := []any{c.args}
	if e.IdempotencyKey {
		args = append(args, contract.CallKey{IdempotencyKey: r.IdempotencyKey(id)})
	}
	if n, err := contract.Size(args); err == nil && n > contract.MaxPayload {
		return replies.Error("the call of %s is %d bytes, at most %d can be sent to the worker that runs it; "+
			"pass less, or a reference to data that is stored elsewhere", c.call.Name, n, contract.MaxPayload), nil
	}
	return c.step(ctx, id, contract.HashOf(e.Activity, string(c.args), c.note), func(s *journal.Step) (contract.ToolReply, error) {
		var out json.RawMessage
		call := c.activity(e.Activity, s, c.args, &out)
		call.Options, call.Once, call.Remote, call.Result = externalOptions(r, e), e.Attempts == 1, e, runtime.ResultSize{Bytes: contract.MaxPayload}
		err := r.Invoke(ctx, call)
		if err == nil {
			return contract.ToolReply{Text: c.note + ResultText(out)}, nil
		}
		if text, ok := e.ErrorText(err); ok && !contract.Cancelled(err) {
			return contract.ToolReply{Text: text, Failed: true}, nil
		}
		return contract.ToolReply{}, asReply(call, err)
	})
}

// ResultText formats an external activity's result for the model: a JSON string is unquoted, anything else stays JSON.
func ResultText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(textutil.Unescape(raw))
}

// externalOptions returns the options of an activity of another worker.
func externalOptions(r *runtime.Run, e *contract.ExternalActivity) workflow.ActivityOptions {
	o := r.Options(cmp.Or(e.TimeoutSeconds, r.Flow.Policy.ToolSeconds))
	o.RetryPolicy.MaximumAttempts = e.Attempts
	o.TaskQueue = e.TaskQueue
	o.ScheduleToStartTimeout = time.Duration(e.StartSeconds) * time.Second
	o.ScheduleToCloseTimeout = max(o.ScheduleToCloseTimeout, o.ScheduleToStartTimeout+o.StartToCloseTimeout)
	o.HeartbeatTimeout = time.Duration(e.HeartbeatSeconds) * time.Second
	o.WaitForCancellation = false // the worker may not receive the cancellation
	return o
}

// request sends a request about the call to a user or a client.
func (c *toolCall) request(ctx workflow.Context, kind string, req contract.Request) (*contract.Reply, error) {
	req.ID, req.Hash = c.id(kind), contract.SHA(append([]byte(c.tool.Name+"\n"), c.args...))
	c.describe(&req)
	return c.agent.run.Requests.Ask(ctx, c.agent.execution, req)
}

// describe adds the call to a request.
func (c *toolCall) describe(req *contract.Request) {
	req.Tool, req.Name, req.Connection = c.tool.As, c.tool.Name, c.tool.BoundTo()
	if len(c.args) <= contract.MaxShown {
		req.Arguments = c.args
		return
	}
	req.Call = new(c.agent.run.Transcript.Ref(c.answer.sha))
}

// storeSpec stores a catalogue with only the given tool, for a request.
func (c *toolCall) storeSpec(spec contract.ToolSpec) *contract.ContentRef {
	raw, _ := json.Marshal(contract.Catalogue{Tools: []contract.ToolSpec{spec}}) // schemas are valid JSON
	return new(c.agent.run.Transcript.Keep(raw))
}

// maxCalls is the maximum number of calls of one message that are executed; the server allows 2,000 pending activities.
const maxCalls = 500

// appendReply appends the reply to a call to the thread.
func (a *agentRun) appendReply(c *contract.ToolCall, reply contract.ToolReply) {
	if reply.Message != nil {
		a.run.Transcript.Record(a.thread, reply.Message)
		return
	}
	m := contract.Message{Role: contract.RoleTool, Text: reply.Text, Parts: reply.Parts, CallID: c.ID, Name: c.Name, Error: reply.Failed}
	if n, err := contract.Size(m); err != nil || n > a.run.Sizes.Limit()/2 {
		m.Text, m.Parts, m.Error = fmt.Sprintf("the result is %d bytes, at most %d fit; request less", n, a.run.Sizes.Limit()/2), nil, true
	}
	a.run.Transcript.Write(a.thread, &m)
}

// toolNames returns the names of all tools of the node.
func toolNames(a *agentRun) []string {
	names := slices.Clone(a.builtins())
	for i := range a.cfg.Tools {
		names = append(names, a.cfg.Tools[i].As)
	}
	for _, k := range Contacts(a.cfg) {
		names = append(names, k.Name)
	}
	return names
}

// arguments parses a tool call's arguments, which must be a JSON object. An empty text means no arguments.
func arguments(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return json.RawMessage("{}"), nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// activity returns an activity that executes the call in a step.
func (c *toolCall) activity(name string, s *journal.Step, in, out any) *runtime.Call {
	x := c.agent.execution
	return &runtime.Call{Activity: name, Args: []any{in}, What: "the call of " + c.call.Name, At: x, ID: s.ID,
		Summary: fmt.Sprintf("%s · %s", x.Node.ID, c.call.Name), Waiting: &s.JournalStep, Journal: x.Journal, Out: out}
}

// step calls do, which returns the call's reply, as a step.
func (c *toolCall) step(ctx workflow.Context, id, hash string, do func(*journal.Step) (contract.ToolReply, error)) (reply contract.ToolReply, err error) {
	err = c.agent.run.RunStep(ctx, c.agent.execution.Journal, id, hash, &reply, func(s *journal.Step) (err error) {
		reply, err = replies.Result(do(s))
		return err
	})
	return reply, err
}

// asReply turns an error of a tool call that the model can fix into a reply; it returns an error that an operator must fix.
func asReply(call *runtime.Call, err error) error {
	if runtime.Interrupted(err) {
		return err
	}
	f := contract.FailureOf(err)
	switch f.Class {
	case contract.ClassTooLarge, contract.ClassBadRequest, contract.ClassSchema, contract.ClassRefused:
		return replies.Refuse("%s", f.Error())
	}
	if call.OutcomeUnknown(f) {
		return replies.Refuse("outcome unknown: %s; the call may have taken effect and is not retried: check whether it has before you repeat it", f.Text)
	}
	return err
}
