package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"
	"weft/workflows/values"
)

// follow processes a message of the model, and reports whether the model is called again.
func (a *agentRun) follow(ctx workflow.Context, ans *answer) (again bool, err error) {
	res, msg := ans.res, ans.msg
	switch {
	case a.state.Think:
		a.endThought(msg)
		return true, nil
	case len(msg.Calls) > 0 && !a.state.Exhausted:
		if err := a.call(ctx, ans); err != nil || a.result != nil {
			return false, err
		}
		return true, a.finishRound(len(msg.Calls))
	case a.cfg.Chat != nil && !a.state.Exhausted && (!a.cfg.Chat.WhenAsked || res.Asks):
		return true, nil
	case a.cfg.Finish != nil:
		return true, a.remind()
	}
	return a.repair(ctx, ans)
}

// finishRound counts a round of tool calls, and has the model think if that is due.
func (a *agentRun) finishRound(calls int) error {
	if c := a.execution.Node.Cost; c != nil {
		if err := a.execution.Spend(c.Round); err != nil {
			return err
		}
	}
	react, before := a.cfg.React, a.state.Results
	if react == nil {
		return nil
	}
	if a.state.Results += calls; a.state.Results/react.Interval == before/react.Interval {
		return nil
	}
	a.state.Think = true
	a.appendUser(react.Prompt)
	return nil
}

// endThought ends a thought, and has the model act again. Tools that it called in the thought are not executed.
func (a *agentRun) endThought(msg *contract.Message) {
	a.state.Think = false
	replyUnrun(a, msg, "tools are not executed while you think; call the tool afterwards")
	if a.cfg.React.Act != "" {
		a.appendUser(a.cfg.React.Act)
	}
}

// appendUser appends a user message to the thread.
func (a *agentRun) appendUser(text string) {
	a.run.Transcript.Write(a.thread, &contract.Message{Role: contract.RoleUser, Text: text})
}

// remind replies to a model that called no tool although it must call one.
func (a *agentRun) remind() error {
	f := a.cfg.Finish
	key := a.execution.ID
	if f.PerRun {
		key = a.execution.Node.ID
	}
	if a.run.Conversation.Remind(key) >= f.Reminders {
		return a.run.Fail(a.execution, contract.ClassNoFinish, "use a model that obeys tool_choice, or say in the task how to end", "%s", f.Failure)
	}
	if c := a.execution.Node.Cost; c != nil {
		if err := a.execution.Spend(c.Remind); err != nil {
			return err
		}
	}
	a.appendUser(f.Reminder)
	return nil
}

// finish replies to a call of the node's finish tool, and sets the node's result. It does so again if the run resumes within a message.
func (c *toolCall) finish() contract.ToolReply {
	if c.agent.result != nil {
		return contract.ToolReply{Text: "the node has its result already", Free: true}
	}
	args, err := arguments(c.call.Arguments)
	var v value.Value
	if err == nil {
		v, err = c.finishValue(args)
	}
	if err != nil {
		return contract.ToolReply{Text: strings.ReplaceAll(c.agent.cfg.Finish.InvalidReply, "{error}", err.Error()), Failed: true}
	}
	c.agent.result = &v
	return contract.ToolReply{Text: string(args)}
}

// finishValue reads the value from a finish tool's arguments.
func (c *toolCall) finishValue(args json.RawMessage) (value.Value, error) {
	f := c.agent.cfg.Finish
	if problems := c.answer.checked.Errors; len(problems) > 0 {
		return value.Value{}, errors.New(contract.ErrorList(problems, "; "))
	}
	v, err := value.Parse(args)
	if err != nil {
		return v, err
	}
	if c.agent.execution.Node.Ports != nil {
		v = value.Fit(f.Schema, v)
		return v, checkPorts(c.agent, v)
	}
	if f.Critique {
		return critique(c.agent, v)
	}
	for _, key := range f.Keys {
		if inner, ok := v.Get(key); ok && len(v.Members) == 1 {
			if f.Only && !f.Checked && inner.IsTagged() {
				return value.Reread(value.Tagged, inner)
			}
			return value.Reread(f.Read, inner)
		}
	}
	if _, tagged := v.Get("data"); tagged && len(v.Members) == 2 && f.Only {
		return value.Reread(value.Tagged, v)
	}
	if f.Only {
		return v, fmt.Errorf("expected {%q: the result}, got %s", f.Keys[0], v.Brief())
	}
	return value.Reread(f.Read, v)
}

// critique builds a verification's result from the arguments and the node's input value.
func critique(a *agentRun, v value.Value) (value.Value, error) {
	correct, ok := v.Get("isCorrect")
	if !ok || correct.Kind != value.Bool {
		return v, fmt.Errorf("Field 'isCorrect' is required and is a boolean, got %s", v.Brief())
	}
	feedback, ok := v.Get("feedback")
	if feedback.Kind != value.String && (ok && feedback.Kind != value.Null || !a.cfg.Finish.Checked) {
		return v, fmt.Errorf("Field 'feedback' is required and is a string, got %s", v.Brief())
	}
	input, err := values.ValueAt(a.run, a.execution.View, contract.ValueKey)
	if err != nil {
		return v, err
	}
	return value.Critique(correct.True, feedback.Text, input), nil
}

// opening returns the message with which an agent begins.
func (a *agentRun) opening() (*contract.Message, error) {
	m := &contract.Message{Role: contract.RoleUser}
	var before contract.StateEntry
	if a.run.Flow.Values != nil && !a.run.Flow.Values.Named {
		before, _ = schedule.Entry(a.execution.View, contract.ValueKey)
	}
	for _, p := range a.cfg.Opening {
		var parts []contract.Part
		switch p.From {
		case "":
			parts = []contract.Part{{Text: p.Text}}
		case plan.FromInput:
			parts = []contract.Part{a.run.Shared.InputPart()}
		case plan.FromOutputs:
			parts = a.outputs(before.By.Exec)
		case plan.FromPorts:
			// A single value is sent as its text, several as a JSON object.
			text := a.ports.Spaced()
			if len(a.ports.Members) == 1 {
				text = a.ports.Members[0].Value.Spaced()
			}
			parts = []contract.Part{{Text: cmp.Or(text, p.Text)}}
		case plan.FromValue:
			if before.By.Exec == plan.Start {
				continue
			}
			v, err := values.ValueAt(a.run, a.execution.View, contract.ValueKey)
			if err != nil {
				return nil, err
			}
			parts = []contract.Part{values.TextPart(a.run, v.Words())}
		}
		if len(parts) > 0 {
			m.Parts = append(m.Parts, contract.Part{Text: p.Before})
			m.Parts = append(append(m.Parts, parts...), contract.Part{Text: p.After})
		}
	}
	return m, nil
}
