package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// call runs the tool calls of one assistant's message and appends their results in the
// order asked. Calls outside run in parallel; the interpreter's own tools take effect in
// the order asked.
func (a *agentRun) call(ctx workflow.Context, msg *contract.Message, sha string) error {
	waits := make([]func() (toolReply, error), len(msg.Calls))
	for i := range msg.Calls {
		c := &msg.Calls[i]
		if i >= maxCalls {
			waits[i] = toolError("at most %d calls at once are made; ask again for the others", maxCalls)
			continue
		}
		if a.left == 0 {
			waits[i] = func() (toolReply, error) {
				return toolReply{text: "max_iterations reached", failed: true, free: true}, nil
			}
			continue
		}
		a.left--
		wait, err := a.start(ctx, c, i, sha)
		if err != nil {
			return err
		}
		waits[i] = wait
	}
	var last string
	for i := range msg.Calls {
		reply, err := waits[i]()
		if err != nil {
			return err
		}
		if err := a.note(&msg.Calls[i], reply); err != nil {
			return err
		}
		if reply.failed && !reply.free {
			a.errors++
			last = reply.said()
		} else if !reply.failed {
			a.errors = 0
		}
		if a.errors == a.cfg.MaxErrors {
			return a.fail(a.step, contract.ClassToolErrors, "look at the node's transcript; mend the tool or the prompt",
				"%d tool errors in a row, the last of %q: %s", a.errors, msg.Calls[i].Name, cut(last, 500))
		}
	}
	a.exhausted = a.left == 0
	return nil
}

// maxCalls is how many calls of one message are made; the server refuses more than 2,000
// activities under way.
const maxCalls = 500

// toolReply is what a tool call gives: a message that an activity made, or text.
type toolReply struct {
	raw  json.RawMessage
	sha  string
	text string
	// parts, if set, are the text instead.
	parts []contract.Part
	// failed marks an error for the model to see; free, one that does not count.
	failed, free bool
}

// said is a reply's text.
func (r *toolReply) said() string {
	if r.raw == nil {
		return r.text
	}
	m, err := contract.DecodeMessage(r.raw)
	if err != nil {
		return ""
	}
	return m.Text
}

func toolError(format string, args ...any) func() (toolReply, error) {
	return answered(toolReply{text: fmt.Sprintf(format, args...), failed: true})
}

func answered(r toolReply) func() (toolReply, error) {
	return func() (toolReply, error) { return r, nil }
}

// note appends a reply to the thread.
func (a *agentRun) note(c *contract.ToolCall, reply toolReply) error {
	if reply.raw != nil {
		a.store.record(a.thread, reply.raw, reply.sha)
		return nil
	}
	m := contract.Message{Role: contract.RoleTool, Text: reply.text, Parts: reply.parts, CallID: c.ID, Name: c.Name, Error: reply.failed}
	if n, err := size(m); err != nil || n > a.guard.limit()/2 {
		m.Text, m.Parts, m.Error = fmt.Sprintf("the result is %d bytes, at most %d fit; ask for less", n, a.guard.limit()/2), nil, true
	}
	_, err := a.store.write(a.thread, &m)
	return err
}

// start begins one tool call and returns how to wait for its reply.
func (a *agentRun) start(ctx workflow.Context, c *contract.ToolCall, i int, sha string) (func() (toolReply, error), error) {
	args, problem := arguments(c.Arguments)
	if problem != "" {
		return toolError("the arguments of %s are no JSON object: %s; call it again with an object", c.Name, problem), nil
	}
	for t := range a.cfg.Tools {
		if tool := &a.cfg.Tools[t]; tool.As == c.Name {
			if b := a.bound(tool); b.Connection.Kind == plan.ConnectionAgent {
				return a.subAgent(ctx, c, b.Connection.Agent, args)
			}
			return a.tool(ctx, c, tool, i, args, sha)
		}
	}
	for _, b := range a.cfg.Builtins {
		if b == c.Name {
			return a.builtin(ctx, c, i, args, sha)
		}
	}
	return toolError("there is no tool %q; there are: %s", c.Name, strings.Join(a.offered(), ", ")), nil
}

// offered lists the names of the node's tools.
func (a *agentRun) offered() []string {
	names := append([]string{}, a.cfg.Builtins...)
	for i := range a.cfg.Tools {
		names = append(names, a.cfg.Tools[i].As)
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
func (a *agentRun) tool(ctx workflow.Context, c *contract.ToolCall, t *plan.Tool, i int, args json.RawMessage, sha string) (func() (toolReply, error), error) {
	b := a.bound(t)
	in := contract.ToolInput{Connection: b.Connection, Name: t.Name, Arguments: args, CallID: c.ID, As: t.As}
	if len(args) > maxInline {
		// History has them already, in the message that asks for the call.
		ref := a.ref(sha)
		in.Arguments, in.Call = nil, &ref
	}
	if err := a.guard.admit(ctx, "the call of "+c.Name, in); err != nil {
		return nil, err
	}
	attempts := int32(0)
	if b.RetryNever {
		attempts = 1
	}
	actx := a.options(ctx, fmt.Sprintf("%s/tool/%d.%d", a.id, a.turn, i+1),
		fmt.Sprintf("%s · %s", a.node.ID, c.Name), a.flow.Policy.ToolSeconds, attempts)
	future := workflow.ExecuteActivity(actx, contract.ActivityTool, in)
	return func() (toolReply, error) {
		var out contract.ToolResult
		if err := future.Get(ctx, &out); err != nil {
			return a.toolFailed(b, err)
		}
		return toolReply{raw: out.Message, sha: out.SHA, failed: out.Error}, nil
	}, nil
}

// toolFailed decides what a failed tool call means: something that the model can mend goes
// back to it; what an operator must mend fails the node.
func (a *agentRun) toolFailed(b *contract.Bound, err error) (toolReply, error) {
	if contract.Cancelled(err) {
		return toolReply{}, err
	}
	f := contract.FailureOf(err)
	switch f.Class {
	case contract.ClassTooLarge, contract.ClassBadRequest, contract.ClassSchema, contract.ClassRefused:
		return toolReply{text: f.Error(), failed: true}, nil
	}
	if b.RetryNever && (contract.Retryable(f.Class)) {
		return toolReply{text: "outcome unknown: " + f.Text +
			"; the call may or may not have taken effect and is not repeated", failed: true}, nil
	}
	return toolReply{}, err
}

// cut shortens text for a message.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
