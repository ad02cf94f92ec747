package activities

import (
	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/workflows/plan"
)

// options turns a node's parameters into a call's. What is unset is not sent.
func options(p *plan.Params, call *llm.Call, messages []contract.Message, noTools bool) []llms.CallOption {
	var opts []llms.CallOption
	if noTools {
		opts = append(opts, llms.WithToolChoice(plan.ChoiceNone))
	}
	if p == nil {
		return opts
	}
	call.Parallel, call.Effort, call.Extra = p.Parallel, p.Effort, p.Extra
	if choice := choiceOf(p.ToolChoice, messages); choice != nil && !noTools {
		opts = append(opts, llms.WithToolChoice(choice))
	}
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

// choiceOf is the tool choice of one call. A call is forced only until a tool has answered:
// a model that must always call a tool never comes to an end.
func choiceOf(choice string, messages []contract.Message) any {
	switch choice {
	case "":
		return nil
	case plan.ChoiceAuto, plan.ChoiceNone:
		return choice
	}
	for i := range messages {
		if messages[i].Role == contract.RoleTool {
			return nil
		}
	}
	if choice == plan.ChoiceRequired {
		return choice
	}
	return llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: choice}}
}
