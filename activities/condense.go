package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/activities/llm"
)

const condenseSystem = `You condense a value before it is stored for later steps of a workflow. Keep everything that the
task needs, with exact names and numbers; drop the rest. Answer with the condensed value alone, as JSON if it was JSON.`

// CondenseValue shortens a value that a model wants to store to what the node's task needs.
func (a *Activities) CondenseValue(ctx context.Context, in contract.CondenseInput) (*contract.CondenseResult, error) {
	beats := a.heartbeat(ctx)
	defer beats.stop()
	out, err := a.condense(ctx, &in, beats)
	return out, a.toActivityError(ctx, err)
}

func (a *Activities) condense(ctx context.Context, in *contract.CondenseInput, beats *heartbeats) (*contract.CondenseResult, error) {
	value, err := a.valueOf(ctx, in)
	if err != nil {
		return nil, err
	}
	answer, err := a.generate(ctx, modelCall{
		model: in.Model, script: in.Script, system: condenseSystem,
		messages: []contract.Message{{Role: contract.RoleUser, Text: fmt.Sprintf(
			"<task>\n%s\n</task>\n\n<value key=%q>\n%s\n</value>", in.Prompt, in.Key, value)}},
		call: &llm.Call{
			IdempotencyKey: in.IdempotencyKey, Attempt: activity.GetInfo(ctx).Attempt, Kind: llm.KindCondense,
			Node: in.Node, Step: in.Step, Turn: 1, Partial: beats.progress, Waiting: beats.waiting,
		},
	})
	if err != nil {
		return nil, err
	}
	out := &contract.CondenseResult{Value: parseWhole(answer.Message.Text), Usage: answer.Usage, Fallbacks: answer.Fallbacks}
	if out.Value == nil {
		if out.Value, err = json.Marshal(answer.Message.Text); err != nil {
			return nil, err
		}
	}
	if err := a.checkSize("the condensed value", out); err != nil {
		return nil, contract.Spent(err, answer.Usage)
	}
	return out, nil
}

// valueOf finds the value in the message that asked to store it.
func (a *Activities) valueOf(ctx context.Context, in *contract.CondenseInput) (json.RawMessage, error) {
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
	return args.Value, nil
}
