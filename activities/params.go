package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/workflows/plan"
)

// options turns a node's parameters, and the tool by which it ends, into a call's. What is unset is not sent.
func options(p *plan.Params, finish *plan.Finish, call *llm.Call, messages []contract.Message, noTools bool) []llms.CallOption {
	var opts []llms.CallOption
	if noTools {
		opts = append(opts, llms.WithToolChoice(plan.ChoiceNone))
	}
	if finish != nil {
		call.Finish = finish.Name
	}
	p = cmp.Or(p, &plan.Params{})
	if c := choiceOf(p.ToolChoice, finish, messages); c != nil && !noTools {
		opts = append(opts, llms.WithToolChoice(c))
	}
	call.Parallel, call.Effort, call.Extra, call.API = p.Parallel, p.Effort, p.Extra, p.API
	if p.Temperature != nil {
		opts = append(opts, llms.WithTemperature(*p.Temperature))
	}
	if p.TopP != nil {
		opts = append(opts, llms.WithTopP(*p.TopP))
	}
	if p.Seed != nil {
		opts = append(opts, llms.WithSeed(*p.Seed))
	}
	return append(opts, llms.WithTopK(p.TopK), llms.WithMaxTokens(p.MaxTokens), llms.WithStopWords(p.Stop),
		llms.WithFrequencyPenalty(p.Frequency), llms.WithPresencePenalty(p.Presence))
}

// choiceOf is the tool choice of one call. A forced choice ends when a tool has answered: otherwise the model
// would never finish. With a finish tool some call is always required.
func choiceOf(choice string, finish *plan.Finish, messages []contract.Message) any {
	always := any(nil)
	if finish != nil && !finish.Free {
		always = plan.ChoiceRequired
	}
	switch choice {
	case "":
		return always
	case plan.ChoiceAuto, plan.ChoiceNone:
		return choice
	}
	for i := range messages {
		if messages[i].Role == contract.RoleTool {
			return always
		}
	}
	if choice == plan.ChoiceRequired {
		return choice
	}
	return llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: choice}}
}

// checkEnd validates the arguments of a call of the finish tool, if the profile wants that.
func checkEnd(ctx context.Context, p *contract.Profile, in *contract.ModelInput, out *contract.ModelResult, m *contract.Message) error {
	if p.Finish == nil || !p.Finish.Checked || in.NoTools {
		return nil
	}
	for i := range m.Calls {
		if m.Calls[i].Name != p.Finish.Name {
			continue
		}
		var err error
		args := firstKey(m.Calls[i].Arguments, p.Finish.Keys)
		out.Checked, err = checkFit(ctx, &plan.Output{Schema: p.Finish.Schema, Fit: p.Finish.Fit}, json.RawMessage(args), args)
		return err
	}
	return nil
}

// firstKey renames an argument that is given under an alias to the first of keys, which the schema has.
func firstKey(args string, keys []string) string {
	var given map[string]json.RawMessage
	if len(keys) < 2 || json.Unmarshal([]byte(args), &given) != nil || len(given) != 1 {
		return args
	}
	for _, key := range keys[1:] {
		if inner, ok := given[key]; ok {
			return fmt.Sprintf("{%q:%s}", keys[0], inner)
		}
	}
	return args
}
