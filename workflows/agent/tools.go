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

// call runs the tool calls of one assistant's message. Calls outside run in parallel; the interpreter's own tools take effect, and
// results are appended, in the order asked.
func (a *agentRun) call(ctx workflow.Context, ans *answer) error {
	outside := group.New(ctx)
	var calls []*toolCall
	for i := range ans.msg.Calls {
		c := &toolCall{agent: a, answer: ans, call: &ans.msg.Calls[i], index: i}
		calls = append(calls, c)
		c.start(outside)
		if a.cfg.Sequential && c.wait != nil && c.wait() != nil {
			break
		}
	}
	for _, c := range calls {
		if c.wait != nil && c.wait() != nil {
			break // what comes behind a call that yielded takes its effect when that has its answer
		}
		if c.effect != nil {
			c.reply = c.effect()
		}
	}
	if err := outside.Wait(); err != nil {
		return err
	}
	if err := a.noteAll(calls); err != nil || a.next == "" {
		return err
	}
	a.speakAs(a.next)
	a.next = ""
	a.describe()
	return nil
}

// noteAll appends the replies of a message's calls to the thread.
func (a *agentRun) noteAll(calls []*toolCall) error {
	for _, c := range calls {
		a.note(c.call, c.reply)
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
			return a.run.Fail(a.execution, contract.ClassToolErrors, "look at the node's transcript; fix the tool or the prompt",
				"%d tool errors in a row, the last of %q: %s", a.state.Errors, c.call.Name, textutil.Cut(text, 500))
		}
	}
	a.state.Exhausted = a.state.Left == 0
	return nil
}

// toolCall is one call of an assistant's message.
type toolCall struct {
	agent  *agentRun
	answer *answer
	call   *contract.ToolCall
	index  int
	args   json.RawMessage
	// tool and conn are those of a tool of a connection. note says what a person has changed.
	tool *plan.Tool
	conn *contract.ResolvedConnection
	note string
	// heldQuestions counts what the call's server asked while it held the call.
	heldQuestions int
	// runID is the workflow id of the run that the call starts, if it may start one.
	runID string
	reply contract.ToolReply
	// run, if set, makes the call beside the others, and wait waits for it. effect, if set, then gives the reply.
	run    func(workflow.Context) (contract.ToolReply, error)
	wait   func() error
	effect func() contract.ToolReply
}

// start begins a call that runs beside the others, and answers one that is not made at all.
func (c *toolCall) start(outside *group.Group) {
	if err := c.admit(); err != nil {
		c.reply, _ = replies.Result(c.reply, err)
	} else if c.run != nil {
		c.wait = outside.Start(func(ctx workflow.Context) (err error) {
			c.reply, err = replies.Result(c.run(ctx))
			return err
		})
	}
}

// admit refuses a call that is not made, or finds what makes it.
func (c *toolCall) admit() (err error) {
	a := c.agent
	switch {
	case a.cfg.Finish != nil && c.call.Name == a.cfg.Finish.Name:
		c.effect = c.end
		return nil
	case c.index >= maxCalls:
		return replies.Refuse("at most %d calls at once are made; ask again for the others", maxCalls)
	case a.state.Left == 0:
		return &replies.Refused{Reply: contract.ToolReply{Text: beyondBudget, Failed: true, Free: true}}
	}
	a.state.Left--
	if c.args, err = arguments(c.call.Arguments); err != nil {
		return replies.Refuse("the arguments of %s are no JSON object: %v; call it again with an object", c.call.Name, err)
	}
	return c.choose()
}

// choose finds what makes a call beside the others, or what effect it has in the order asked.
func (c *toolCall) choose() error {
	a, name := c.agent, c.call.Name
	if i := slices.IndexFunc(a.cfg.Tools, func(t plan.Tool) bool { return t.As == name }); i >= 0 {
		c.tool = &a.cfg.Tools[i]
		c.conn = resolvedConnection(a.run, c.tool)
		if c.conn.Connection.Kind == plan.ConnectionAgent {
			c.nameRun()
		}
		c.args, c.run = value.Complete(c.tool.ArgumentsSchema, c.args), c.bound
		return nil
	}
	switch {
	case a.cfg.Ask != nil && name == a.cfg.Ask.Name:
		c.nameRun()
		c.run = c.ask
	case a.cfg.Handoff != nil && name == a.cfg.Handoff.Name:
		c.effect = c.hand
	case name == plan.BuiltinReadResource && slices.Contains(a.builtins(), name):
		c.run = c.readResource
	case slices.Contains(a.cfg.Builtins, name):
		return c.builtin()
	case a.cfg.NoTool != "":
		return replies.Refuse("%s", strings.ReplaceAll(a.cfg.NoTool, "{tool}", name))
	default:
		return replies.Refuse("there is no tool %q; there are: %s", name, strings.Join(offered(a), ", "))
	}
	return nil
}

// bound calls a tool of a connection, once a person has agreed where one must.
func (c *toolCall) bound(ctx workflow.Context) (contract.ToolReply, error) {
	if err := c.confirm(ctx); err != nil {
		return contract.ToolReply{}, err
	}
	c.args = value.Complete(c.tool.ArgumentsSchema, c.args)
	run, note := c.callExternal, ""
	switch {
	case c.conn.Connection.Kind == plan.ConnectionAgent:
		run, note = c.subAgent, c.note
	case c.conn.Connection.Kind == plan.ConnectionClient:
		run, note = c.client, c.note
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

// id is that of the call's activity of a kind.
func (c *toolCall) id(kind string) string {
	return fmt.Sprintf("%s/%s/%d.%d", c.agent.execution.ID, kind, c.agent.state.Turn, c.index+1)
}

// validate refuses arguments that the flow does not declare, for a call that CallTool does not make.
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
			return contract.ToolReply{}, contract.UnfitArguments(c.tool.Name, out.Errors)
		}
		return contract.ToolReply{Text: contract.WrongArguments(c.call.Name, out.Errors), Failed: true}, nil
	})
	if err == nil && reply.Failed {
		return &replies.Refused{Reply: reply}
	}
	return err
}

// byNode reports whether a node makes a call, and no model.
func (c *toolCall) byNode() bool { return c.agent.execution.Node.Tool != nil }

// client has a client of the run execute a tool.
func (c *toolCall) client(ctx workflow.Context) (contract.ToolReply, error) {
	req := contract.Request{Kind: contract.RequestToolResult, Text: fmt.Sprintf("run %s%s", c.tool.Name, inWords(c.args)), Catalogue: c.conn.Catalogue}
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
	return contract.ToolReply{Text: Said(reply.ToolResult.Result)}, nil
}

// callExternal calls a tool that is an activity of another worker. That worker knows nothing of
// Weft, nor of the store: it gets the arguments, and what it returns or fails with is the model's to read.
func (c *toolCall) callExternal(ctx workflow.Context) (contract.ToolReply, error) {
	r, e, id := c.agent.run, c.conn.ExternalActivity, c.id("tool")
	given := []any{c.args}
	if e.IdempotencyKey {
		given = append(given, contract.CallKey{IdempotencyKey: r.IdempotencyKey(id)})
	}
	if n, err := contract.Size(given); err == nil && n > contract.MaxPayload {
		return replies.Error("the call of %s is %d bytes, at most %d reach the worker that has it; "+
			"pass less, or a reference to data that is kept elsewhere", c.call.Name, n, contract.MaxPayload), nil
	}
	return c.step(ctx, id, contract.HashOf(e.Activity, string(c.args), c.note), func(s *journal.Step) (contract.ToolReply, error) {
		var out json.RawMessage
		call := c.activity(e.Activity, s, c.args, &out)
		call.Options, call.Once, call.Remote, call.Result = elsewhereOptions(r, e), e.Attempts == 1, e, runtime.ResultSize{Bytes: contract.MaxPayload}
		err := r.Invoke(ctx, call)
		if err == nil {
			return contract.ToolReply{Text: c.note + Said(out)}, nil
		}
		if text, ok := e.ErrorText(err); ok && !contract.Cancelled(err) {
			return contract.ToolReply{Text: text, Failed: true}, nil
		}
		return contract.ToolReply{}, asReply(call, err)
	})
}

// Said is what an activity of another worker returned, as the model reads it: a text as it is, anything else as JSON.
func Said(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(textutil.Unescape(raw))
}

// elsewhereOptions are those of an activity of another worker.
func elsewhereOptions(r *runtime.Run, e *contract.ExternalActivity) workflow.ActivityOptions {
	o := r.Options(cmp.Or(e.TimeoutSeconds, r.Flow.Policy.ToolSeconds))
	o.RetryPolicy.MaximumAttempts = e.Attempts
	o.TaskQueue = e.TaskQueue
	o.ScheduleToStartTimeout = time.Duration(e.StartSeconds) * time.Second
	o.ScheduleToCloseTimeout = max(o.ScheduleToCloseTimeout, o.ScheduleToStartTimeout+o.StartToCloseTimeout)
	o.HeartbeatTimeout = time.Duration(e.HeartbeatSeconds) * time.Second
	o.WaitForCancellation = false // it may never hear of it
	return o
}

// request asks somebody outside about the call.
func (c *toolCall) request(ctx workflow.Context, kind string, req contract.Request) (*contract.Reply, error) {
	req.ID, req.Hash = c.id(kind), contract.SHA(append([]byte(c.tool.Name+"\n"), c.args...))
	c.describe(&req)
	return c.agent.run.Requests.Ask(ctx, c.agent.execution, req)
}

// describe says in a request which call it is about.
func (c *toolCall) describe(req *contract.Request) {
	req.Tool, req.Name, req.Connection = c.tool.As, c.tool.Name, c.tool.BoundTo()
	if len(c.args) <= contract.MaxShown {
		req.Arguments = c.args
		return
	}
	req.Call = new(c.agent.run.Transcript.Ref(c.answer.sha))
}

// declared stores what a request shows of a tool.
func (c *toolCall) declared(spec contract.ToolSpec) *contract.ContentRef {
	raw, _ := json.Marshal(contract.Catalogue{Tools: []contract.ToolSpec{spec}}) // schemas came as JSON
	return new(c.agent.run.Transcript.Keep(raw))
}

// maxCalls is how many calls of one message are made; the server refuses more than 2,000 activities under way.
const maxCalls = 500

// note appends a reply to the thread.
func (a *agentRun) note(c *contract.ToolCall, reply contract.ToolReply) {
	if reply.Message != nil {
		a.run.Transcript.Record(a.thread, reply.Message)
		return
	}
	m := contract.Message{Role: contract.RoleTool, Text: reply.Text, Parts: reply.Parts, CallID: c.ID, Name: c.Name, Error: reply.Failed}
	if n, err := contract.Size(m); err != nil || n > a.run.Sizes.Limit()/2 {
		m.Text, m.Parts, m.Error = fmt.Sprintf("the result is %d bytes, at most %d fit; ask for less", n, a.run.Sizes.Limit()/2), nil, true
	}
	a.run.Transcript.Write(a.thread, &m)
}

// offered lists the names of the node's tools.
func offered(a *agentRun) []string {
	names := slices.Clone(a.builtins())
	for i := range a.cfg.Tools {
		names = append(names, a.cfg.Tools[i].As)
	}
	for _, k := range Contacts(a.cfg) {
		names = append(names, k.Name)
	}
	return names
}

// arguments reads what a model wrote as a tool's arguments. Nothing at all means none.
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

// activity is an activity that makes the call in a step.
func (c *toolCall) activity(name string, s *journal.Step, in, out any) *runtime.Call {
	x := c.agent.execution
	return &runtime.Call{Activity: name, Args: []any{in}, What: "the call of " + c.call.Name, At: x, ID: s.ID,
		Summary: fmt.Sprintf("%s · %s", x.Node.ID, c.call.Name), Waiting: &s.JournalStep, Journal: x.Journal, Out: out}
}

// step does what gives a call its reply as a step.
func (c *toolCall) step(ctx workflow.Context, id, hash string, do func(*journal.Step) (contract.ToolReply, error)) (reply contract.ToolReply, err error) {
	err = c.agent.run.RunStep(ctx, c.agent.execution.Journal, id, hash, &reply, func(s *journal.Step) (err error) {
		reply, err = replies.Result(do(s))
		return err
	})
	return reply, err
}

// asReply is the error of a failed tool call: what the model can fix is a reply to it; what an operator must fix stays an error.
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
		return replies.Refuse("outcome unknown: %s; the call may have taken effect and is not repeated: find out whether it has before you make it again", f.Text)
	}
	return err
}
