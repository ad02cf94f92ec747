package agent

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/replies"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/subsession"
	"weft/workflows/transcript"
	"weft/workflows/values"
)

// maxKeys limits the keys of one get_state.
const maxKeys = 1000

// builtinArgs are the arguments of all built-in tools.
type builtinArgs struct {
	Keys     json.RawMessage `json:"keys"`
	Key      *string         `json:"key"`
	Value    json.RawMessage `json:"value"`
	Question string          `json:"user_question"`
	Agent    json.RawMessage `json:"agent_def"`
}

// builtins returns the built-in tools that the agent's model has: those of the flow, and read_resource if the settings of a
// connection allow it.
func (a *agentRun) builtins() []string {
	own := func(t plan.Tool) bool { return t.As == plan.BuiltinReadResource }
	reads := func(t plan.Tool) bool { return resolvedConnection(a.run, &t).Resources }
	if slices.ContainsFunc(a.cfg.Tools, own) || !slices.ContainsFunc(a.cfg.Tools, reads) {
		return a.cfg.Builtins
	}
	return append(slices.Clip(a.cfg.Builtins), plan.BuiltinReadResource)
}

// builtin is [toolCall.selectExecutor] for a built-in tool.
func (c *toolCall) builtin() error {
	a, name := c.agent, c.call.Name
	if slices.Contains(plan.SessionTools, name) {
		if name == plan.SessionStart {
			c.setRunID()
		}
		c.run = c.sessionTool
		return nil
	}
	var args builtinArgs
	if err := json.Unmarshal(c.args, &args); err != nil {
		return replies.Refuse("invalid arguments of %s: %v", name, err)
	}
	switch name {
	case plan.BuiltinCallSubAgent:
		c.setRunID()
		c.run = func(ctx workflow.Context) (contract.ToolReply, error) { return c.inlineAgent(ctx, &args) }
	case plan.BuiltinGetState:
		c.effect = func() contract.ToolReply { return getState(a.execution.View, &args) }
	case plan.BuiltinSetState, plan.BuiltinSetStateFiltered:
		c.effect = func() contract.ToolReply { return setState(a.run, a.execution, &args) }
		if name == plan.BuiltinSetStateFiltered && args.Key != nil && len(args.Value) > a.run.Flow.Limits.FilterBytes {
			c.run = func(ctx workflow.Context) (contract.ToolReply, error) { return c.condense(ctx, &args) }
		}
	case plan.BuiltinListStateKeys:
		c.effect = func() contract.ToolReply { return listKeys(a.execution.View) }
	case plan.BuiltinGetChatHistory:
		c.reply = contract.ToolReply{Text: "[]"}
		if chat := a.run.Shared.Chat; chat != nil {
			c.reply = contract.ToolReply{Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: chat.SHA}}}}
		}
	default:
		return replies.Refuse("tool %q is not supported by this build", name)
	}
	return nil
}

// getState reads keys; a single string is one key. A key that was never written is null.
func getState(v *contract.View, args *builtinArgs) contract.ToolReply {
	var names []string
	var one string
	switch {
	case json.Unmarshal(args.Keys, &names) == nil:
	case json.Unmarshal(args.Keys, &one) == nil:
		names = []string{one}
	case args.Key != nil:
		names = []string{*args.Key}
	default:
		return replies.Error(`get_state expects {"keys": ["name", …]}`)
	}
	if len(names) > maxKeys {
		return replies.Error("%d keys requested, at most %d are allowed; request fewer", len(names), maxKeys)
	}
	// The reply contains short values, and references to long ones.
	var parts []contract.Part
	text, comma := "{", ""
	for _, name := range names {
		key, _ := textutil.JSON(name) // a string always has JSON
		text, comma = text+comma+string(key)+":", ","
		e, ok := schedule.Entry(v, name)
		switch {
		case !ok:
			text += "null"
		case e.SHA == "":
			text += string(textutil.Unescape(e.Value))
		default:
			parts = append(parts, contract.Part{Text: text}, contract.Part{Ref: &contract.ContentRef{SHA: e.SHA}})
			text = ""
		}
	}
	text += "}"
	if parts == nil {
		return contract.ToolReply{Text: text}
	}
	return contract.ToolReply{Parts: append(parts, contract.Part{Text: text})}
}

// setState writes a key, within the state's limit.
func setState(r *runtime.Run, x *runtime.Execution, args *builtinArgs) contract.ToolReply {
	if args.Key == nil || *args.Key == "" || len(args.Value) == 0 {
		return replies.Error(`expected {"key": "name", "value": any JSON}`)
	}
	if contract.Reserved(*args.Key) {
		return replies.Error("keys that begin with $ are reserved; use another name")
	}
	if d := plan.Depth(args.Value); d > transcript.MaxDepth {
		return replies.Error("the value is nested %d levels deep, at most %d are allowed", d, transcript.MaxDepth)
	}
	switch grown, err := values.WriteState(r, x, *args.Key, args.Value); {
	case err != nil:
		return replies.Error("value: %v", err)
	case grown > 0:
		return replies.Error("the state would hold %d bytes, at most %d are allowed; write less, or use set_state_filtered", grown, r.Flow.Limits.MaxStateBytes)
	}
	return contract.ToolReply{Text: "ok"}
}

// condense has a model shorten a long value to the part that the node needs.
func (c *toolCall) condense(ctx workflow.Context, args *builtinArgs) (contract.ToolReply, error) {
	r, x := c.agent.run, c.agent.execution
	in := contract.CondenseInput{Model: r.Shared.Model, Script: r.Shared.Script, Node: x.Node.ID, Step: x.Step, Prompt: c.agent.cfg.Prompt,
		Key: *args.Key, Call: contract.ContentRef{SHA: c.answer.sha}, CallID: c.call.ID}
	var out contract.CondenseResult
	err := r.CallStep(ctx, x.Journal, contract.HashOf(*args.Key, string(args.Value)), &runtime.Call{
		Activity: contract.ActivityCondenseValue, ID: c.id("condense"), Args: []any{&in}, What: "the prompt of " + x.Node.ID, At: x,
		Summary: fmt.Sprintf("%s · condense %s", x.Node.ID, *args.Key), Options: r.Options(r.Flow.Policy.ModelSeconds),
		Model: &runtime.ModelCall{Bytes: len(args.Value)}, Out: &out,
	})
	args.Value = out.Value
	return contract.ToolReply{}, err
}

// listKeys lists the state's keys, which are sorted.
func listKeys(v *contract.View) contract.ToolReply {
	names := []string{}
	for _, e := range v.State {
		if !contract.Reserved(e.Key) {
			names = append(names, e.Key)
		}
	}
	return replies.JSON(names)
}

// sessionTool calls one of [plan.SessionTools]: the command is one step, and waiting for its outcome another.
func (c *toolCall) sessionTool(ctx workflow.Context) (contract.ToolReply, error) {
	a := c.agent
	if a.sessions == nil {
		return contract.ToolReply{Text: `{"error":"sessions cannot be started here"}`}, nil
	}
	call := subsession.Call{Tool: c.call.Name, Args: c.args, Starts: a.cfg.Starts, RunID: c.runID, ID: c.id("session")}
	var done subsession.Reply
	err := a.run.RunStep(ctx, a.execution.Journal, call.ID+"/order", contract.HashOf(call.Tool, string(c.args)), &done, func(*journal.Step) (err error) {
		done, err = a.sessions.Do(ctx, &call)
		return err
	})
	if err != nil || done.Order == nil {
		return done.Reply, err
	}
	return c.step(ctx, call.ID, "", func(*journal.Step) (contract.ToolReply, error) {
		return a.sessions.Await(ctx, *done.Order, a.execution.Journal)
	})
}
