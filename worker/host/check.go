package host

import (
	"context"

	"go.temporal.io/sdk/worker"

	"weft/activities/llm"
	"weft/activities/tool"
	"weft/activities/webhook"
	"weft/worker/config"
	"weft/worker/observe"
)

// parts are what a worker is made of besides its connection to Temporal.
type parts struct {
	models *llm.Models
	tools  *tool.Tools
	hooks  *webhook.Hooks
	how    worker.Options
	// seen knows who watches calls; it is among how.
	seen *Audience
}

// assemble makes a worker's parts of its settings, without any network. model is the default model,
// and why says why there is none. The problems are all that is wrong.
func assemble(cfg *config.Config, model, why string, functions []tool.Function) (p parts, problems config.Problems) {
	note := func(err error) { problems = append(problems, listed(err)...) }
	note(checkFlows(cfg.Flows))
	if cfg.Budget.CostMicros > 0 && len(cfg.Prices) == 0 {
		note(config.Problems{"budget.cost_micros bounds what runs cost, and there are no prices to count it by; set prices, or budget.calls or budget.tokens instead"})
	}
	var err error
	p.models, err = openModels(cfg, model, why)
	note(err)
	settings, err := cfg.Tool()
	note(err)
	settings.Functions = functions
	p.tools, err = tool.Open(settings)
	note(err)
	p.hooks, err = cfg.Hooks()
	note(err)
	p.seen = NewAudience()
	p.how, err = options(cfg, p.seen)
	note(err)
	return p, problems
}

// check says all that would keep a worker of these settings from starting, as far as that can be
// known without Temporal, without a network and without a change to any disk.
func check(ctx context.Context, cfg *config.Config, functions []tool.Function) error {
	p, problems := assemble(cfg, cfg.Model, "", functions)
	if p.tools != nil {
		p.tools.Close()
	}
	_, err := cfg.OpenCodec()
	problems = append(problems, listed(err)...)
	problems = append(problems, listed(cfg.CheckStore())...)
	traces, err := observe.NewTraces(ctx, cfg.Env())
	problems = append(problems, listed(err)...)
	if traces != nil {
		traces.Close()
	}
	if len(problems) > 0 {
		return cfg.Placed(problems)
	}
	return nil
}
