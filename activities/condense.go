package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"weft/activities/contract"
	"weft/activities/llm"
)

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
	answer, err := a.generate(ctx, modelCall{
		model: in.Model, script: in.Script, system: condenseSystem,
		messages: []contract.Message{{Role: contract.RoleUser, Text: fmt.Sprintf(
			"<task>\n%s\n</task>\n\n<value key=%q>\n%s\n</value>", in.Prompt, in.Key, args.Value)}},
		call: newCall(ctx, llm.KindCondense, in.IdempotencyKey, in.Node, in.Step, 1, beats),
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
	return fitting(a, "the condensed value", out, answer.Usage)
}
