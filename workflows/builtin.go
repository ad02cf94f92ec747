package workflows

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// maxKeys bounds what one get_state reads, maxDepth how deep a stored value nests: what is
// deeper cannot be decoded again inside of what carries it.
const (
	maxKeys  = 1000
	maxDepth = 100
)

// builtinArgs are the arguments of all tools of the interpreter's own.
type builtinArgs struct {
	Keys     json.RawMessage `json:"keys"`
	Key      *string         `json:"key"`
	Value    json.RawMessage `json:"value"`
	Question string          `json:"user_question"`
	Agent    json.RawMessage `json:"agent_def"`
}

// builtin finds what runs a tool of the interpreter's own outside. It returns nil where the
// tool takes effect here: see [toolCall.effect].
func (c *toolCall) builtin(raw json.RawMessage) func(workflow.Context) (toolReply, error) {
	if slices.Contains(plan.SessionTools, c.call.Name) {
		if c.call.Name == plan.SessionStart {
			c.countStart()
		}
		return func(ctx workflow.Context) (toolReply, error) { return c.orchestrate(ctx, raw) }
	}
	if err := json.Unmarshal(raw, &c.args); err != nil {
		c.refuse("the arguments of %s: %v", c.call.Name, err)
		return nil
	}
	switch {
	case c.call.Name == plan.BuiltinCallSubAgent:
		c.countStart()
		return func(ctx workflow.Context) (toolReply, error) { return c.inlineAgent(ctx, &c.args) }
	case c.call.Name == plan.BuiltinSetStateFiltered && c.args.Key != nil && len(c.args.Value) > c.flow.Limits.FilterBytes:
		c.condensed = true // the short value is written when the call's turn comes
		return c.condense
	}
	return nil
}

// effect is what a tool of the interpreter's own does to the state. It comes when the calls
// before it are answered, so that calls of one message take effect in their order.
func (c *toolCall) effect() toolReply {
	if c.cfg.Hand != nil && c.call.Name == c.cfg.Hand.Name {
		return c.hand()
	}
	switch c.call.Name {
	case plan.BuiltinGetState:
		return c.getState(&c.args)
	case plan.BuiltinSetState, plan.BuiltinSetStateFiltered:
		return c.setState(&c.args, c.args.Value)
	case plan.BuiltinListStateKeys:
		return c.listKeys()
	case plan.BuiltinGetChatHistory:
		if c.shared.Chat == nil {
			return toolReply{Text: "[]"}
		}
		return toolReply{Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: c.shared.Chat.SHA}}}}
	}
	return toolError("tool %q is unknown to this build", c.call.Name)
}

// getState reads keys; one string is one key. A key that nobody wrote is null.
func (a *agentRun) getState(args *builtinArgs) toolReply {
	var names []string
	var one string
	switch {
	case json.Unmarshal(args.Keys, &names) == nil && args.Keys != nil:
	case json.Unmarshal(args.Keys, &one) == nil && args.Keys != nil:
		names = []string{one}
	case args.Key != nil:
		names = []string{*args.Key}
	default:
		return toolReply{Text: `get_state wants {"keys": ["name", …]}`, Failed: true}
	}
	if len(names) > maxKeys {
		return toolReply{Text: fmt.Sprintf("%d keys at once, at most %d are read; ask for fewer", len(names), maxKeys), Failed: true}
	}
	// Short values stand in the reply, long ones are referred to.
	var parts []contract.Part
	text := "{"
	for i, name := range names {
		if i > 0 {
			text += ","
		}
		key, err := json.Marshal(name)
		if err != nil {
			return toolReply{Text: err.Error(), Failed: true}
		}
		text += string(unescape(key)) + ":"
		e, ok := schedule.Entry(a.view, name)
		switch {
		case !ok:
			text += "null"
		case e.SHA == "":
			text += string(unescape(e.Value))
		default:
			parts = append(parts, contract.Part{Text: text}, contract.Part{Ref: &contract.ContentRef{SHA: e.SHA}})
			text = ""
		}
	}
	text += "}"
	if parts == nil {
		return toolReply{Text: text}
	}
	return toolReply{Parts: append(parts, contract.Part{Text: text})}
}

// setState writes a key, within the state's bound.
func (a *agentRun) setState(args *builtinArgs, value json.RawMessage) toolReply {
	if args.Key == nil || *args.Key == "" || len(value) == 0 {
		return toolReply{Text: `wants {"key": "name", "value": any JSON}`, Failed: true}
	}
	if contract.Reserved(*args.Key) {
		return toolReply{Text: "keys that begin with $ are the flow's own; use another name", Failed: true}
	}
	if d := plan.Depth(value); d > maxDepth {
		return toolReply{Text: fmt.Sprintf("the value nests %d deep, at most %d are stored", d, maxDepth), Failed: true}
	}
	e, err := a.store.value(*args.Key, value, contract.Stamp{})
	if err != nil {
		return toolReply{Text: "value: " + err.Error(), Failed: true}
	}
	grown := schedule.StateBytes(a.view) + schedule.EntryBytes(&e)
	if old, ok := schedule.Entry(a.view, *args.Key); ok {
		grown -= schedule.EntryBytes(&old)
	}
	if limit := a.flow.Limits.MaxStateBytes; grown > limit {
		return toolReply{Failed: true, Text: fmt.Sprintf(
			"the state would hold %d bytes, at most %d are allowed; write less, or use set_state_filtered", grown, limit)}
	}
	e.By = schedule.NextStamp(a.view, a.strand, a.id, a.n)
	schedule.SetEntry(a.view, e)
	return toolReply{Text: "ok"}
}

// condense has a model shorten a long value to what the node needs.
func (c *toolCall) condense(ctx workflow.Context) (toolReply, error) {
	in := contract.CondenseInput{
		Model: c.shared.Model, Script: c.shared.Script, Node: c.node.ID, Step: c.n, Prompt: c.cfg.Prompt,
		Key: *c.args.Key, Call: contract.ContentRef{SHA: c.sha}, CallID: c.call.ID,
	}
	var out contract.CondenseResult
	err := c.callStep(ctx, c.journal, hashOf(*c.args.Key, string(c.args.Value)), &call{
		activity: contract.ActivityCondenseValue, id: c.id("condense"), args: []any{&in}, what: "the prompt of " + c.node.ID, at: c.execution,
		summary: fmt.Sprintf("%s · condense %s", c.node.ID, *c.args.Key), options: c.options(c.flow.Policy.ModelSeconds),
		model: &modelCall{bytes: len(c.args.Value)}, out: &out,
	})
	if err != nil {
		return toolReply{}, err
	}
	c.args.Value = out.Value
	return toolReply{}, nil
}

// listKeys lists the state's keys, which are kept sorted.
func (a *agentRun) listKeys() toolReply {
	names := []string{}
	for _, e := range a.view.State {
		if !contract.Reserved(e.Key) {
			names = append(names, e.Key)
		}
	}
	raw, err := json.Marshal(names)
	if err != nil {
		return toolError("%v", err)
	}
	return toolReply{Text: string(unescape(raw))}
}
