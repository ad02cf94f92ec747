package workflows

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
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

// builtin runs a tool of the interpreter's own. What it does to the state happens when its
// reply is waited for, so that calls of one message take effect in their order.
func (a *agentRun) builtin(ctx workflow.Context, c *contract.ToolCall, i int, raw json.RawMessage, sha string) (func() (toolReply, error), error) {
	var args builtinArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return toolError("the arguments of %s: %v", c.Name, err), nil
	}
	switch c.Name {
	case plan.BuiltinGetState:
		return func() (toolReply, error) { return a.getState(&args), nil }, nil
	case plan.BuiltinSetState:
		return func() (toolReply, error) { return a.setState(&args, args.Value), nil }, nil
	case plan.BuiltinSetStateFiltered:
		return a.setFiltered(ctx, c, i, &args, sha)
	case plan.BuiltinListStateKeys:
		return func() (toolReply, error) { return a.listKeys() }, nil
	case plan.BuiltinGetChatHistory:
		if a.shared.Chat == nil {
			return answered(toolReply{text: "[]"}), nil
		}
		return answered(toolReply{parts: []contract.Part{{Ref: &contract.ContentRef{SHA: a.shared.Chat.SHA}}}}), nil
	case plan.BuiltinCallSubAgent:
		return a.inlineAgent(ctx, c, &args, raw)
	}
	return toolError("tool %q is unknown to this build", c.Name), nil
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
		return toolReply{text: `get_state wants {"keys": ["name", …]}`, failed: true}
	}
	if len(names) > maxKeys {
		return toolReply{text: fmt.Sprintf("%d keys at once, at most %d are read; ask for fewer", len(names), maxKeys), failed: true}
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
			return toolReply{text: err.Error(), failed: true}
		}
		text += string(unescape(key)) + ":"
		e, ok := get(a.view, name)
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
		return toolReply{text: text}
	}
	return toolReply{parts: append(parts, contract.Part{Text: text})}
}

// setState writes a key, within the state's bound.
func (a *agentRun) setState(args *builtinArgs, value json.RawMessage) toolReply {
	if args.Key == nil || *args.Key == "" || len(value) == 0 {
		return toolReply{text: `wants {"key": "name", "value": any JSON}`, failed: true}
	}
	if d := contract.Depth(value); d > maxDepth {
		return toolReply{text: fmt.Sprintf("the value nests %d deep, at most %d are stored", d, maxDepth), failed: true}
	}
	e, err := a.store.value(*args.Key, value, contract.Stamp{})
	if err != nil {
		return toolReply{text: "value: " + err.Error(), failed: true}
	}
	grown := stateBytes(a.view) + entryBytes(&e)
	if old, ok := get(a.view, *args.Key); ok {
		grown -= entryBytes(&old)
	}
	if limit := a.flow.Limits.MaxStateBytes; grown > limit {
		return toolReply{failed: true, text: fmt.Sprintf(
			"the state would hold %d bytes, at most %d are allowed; write less, or use set_state_filtered", grown, limit)}
	}
	e.By = tick(a.view, a.strand, a.id, a.n)
	set(a.view, e)
	return toolReply{text: "ok"}
}

// setFiltered writes a key after a model has shortened a long value to what the node needs.
func (a *agentRun) setFiltered(ctx workflow.Context, c *contract.ToolCall, i int, args *builtinArgs, sha string) (func() (toolReply, error), error) {
	if args.Key == nil || len(args.Value) <= a.flow.Limits.FilterBytes {
		return func() (toolReply, error) { return a.setState(args, args.Value), nil }, nil
	}
	in := contract.CondenseInput{
		Model: a.shared.Model, Script: a.shared.Script, Node: a.node.ID, Step: a.n, Prompt: a.cfg.Prompt,
		Key: *args.Key, Call: a.ref(sha), CallID: c.ID,
	}
	if err := a.guard.admit(ctx, "the prompt of "+a.node.ID, in); err != nil {
		return nil, err
	}
	actx := a.options(ctx, fmt.Sprintf("%s/condense/%d.%d", a.id, a.turn, i+1),
		fmt.Sprintf("%s · condense %s", a.node.ID, *args.Key), a.flow.Policy.ModelSeconds, 0)
	future := workflow.ExecuteActivity(actx, contract.ActivityCondense, in)
	return func() (toolReply, error) {
		var out contract.CondenseResult
		if err := future.Get(ctx, &out); err != nil {
			return toolReply{}, err
		}
		a.usage.Add(out.Usage)
		return a.setState(args, out.Value), nil
	}, nil
}

// listKeys lists the state's keys, which are kept sorted.
func (a *agentRun) listKeys() (toolReply, error) {
	names := []string{}
	for _, e := range a.view.State {
		names = append(names, e.Key)
	}
	raw, err := json.Marshal(names)
	return toolReply{text: string(unescape(raw))}, err
}
