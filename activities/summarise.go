package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/activities/llm"
)

// summariseConversation summarises messages of a thread, which the summary then replaces. It fails as callModel does.
func (a *Activities) summariseConversation(ctx context.Context, in *contract.SummariseInput, beats *heartbeats) (*contract.SummariseResult, error) {
	of := &contract.ModelInput{Base: in.Base, Tail: in.Tail}
	messages, err := a.transcript(ctx, of, runsOf(in.Home, baseRun(ctx, of)))
	if err != nil {
		return nil, err
	}
	if in.From < 0 || in.From > in.To || in.To > len(messages) {
		return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("cannot summarise messages %d to %d of %d", in.From, in.To, len(messages))}
	}
	call := newCall(ctx, llm.KindCondense, in.IdempotencyKey, in.Node, in.Step, 1, beats)
	call.System = in.Instructions
	call.Messages = []contract.Message{{Role: contract.RoleUser, Text: asText(in.Before, messages[in.From:in.To])}}
	call.Options = llm.Options(options(in.Params, nil, call, nil, false)...)
	answer, err := a.generate(ctx, modelCall{model: in.Model, script: in.Script, call: call, beats: beats})
	if err != nil {
		return nil, err
	}
	out := &contract.SummariseResult{Text: answer.Message.Text, Usage: answer.Usage, Fallbacks: answer.Fallbacks}
	return fitting(a, "the summary", out, answer.Usage)
}

func asText(predecessor string, messages []contract.Message) string {
	var b strings.Builder
	if predecessor != "" {
		fmt.Fprintf(&b, "<earlier>\n%s\n</earlier>\n", predecessor)
	}
	for i := range messages {
		m := &messages[i]
		if m.Aside {
			continue
		}
		fmt.Fprintf(&b, "<message role=%q>\n%s\n", m.Role, m.Text)
		for _, c := range m.Calls {
			fmt.Fprintf(&b, "calls %s with %s\n", c.Name, c.Arguments)
		}
		b.WriteString("</message>\n")
	}
	return b.String()
}

// messagesSent returns the messages of a conversation that are sent to the model.
func messagesSent(messages []contract.Message, s *contract.Sent) []contract.Message {
	if s == nil || s.Skip > len(messages) {
		return messages
	}
	out := append([]contract.Message{}, messages...)
	for _, t := range s.Texts {
		if t.Index >= 0 && t.Index < len(out) {
			out[t.Index].Text, out[t.Index].Media = t.Text, nil
		}
	}
	if s.Skip == 0 {
		return out
	}
	return append([]contract.Message{{Role: contract.RoleUser, Text: s.Note}}, out[s.Skip:]...)
}

const condenseSystem = `You condense a value before it is stored for later steps of a workflow. Keep everything that the
task needs, with exact names and numbers; drop the rest. Answer with the condensed value alone, as JSON if it was JSON.`

// condenseValue shortens a value that a model wants to store to what the node's task needs.
func (a *Activities) condenseValue(ctx context.Context, in *contract.CondenseInput, beats *heartbeats) (*contract.CondenseResult, error) {
	raw, err := a.argumentsOf(ctx, in.Call, in.CallID)
	if err != nil {
		return nil, err
	}
	var args struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("arguments of call %q: %w", in.CallID, err)
	}
	call := newCall(ctx, llm.KindCondense, in.IdempotencyKey, in.Node, in.Step, 1, beats)
	call.System = condenseSystem
	call.Messages = []contract.Message{{Role: contract.RoleUser, Text: fmt.Sprintf(
		"<task>\n%s\n</task>\n\n<value key=%q>\n%s\n</value>", in.Prompt, in.Key, args.Value)}}
	answer, err := a.generate(ctx, modelCall{model: in.Model, script: in.Script, call: call, beats: beats})
	if err != nil {
		return nil, err
	}
	out := &contract.CondenseResult{Value: parseOnly(answer.Message.Text), Usage: answer.Usage, Fallbacks: answer.Fallbacks}
	if out.Value == nil {
		if out.Value, err = json.Marshal(answer.Message.Text); err != nil {
			return nil, err
		}
	}
	return fitting(a, "the condensed value", out, answer.Usage)
}
