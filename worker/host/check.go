package host

import (
	"context"
	"fmt"
	"os"

	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/activities/webhook"
	"weft/worker/config"
	"weft/worker/observe"
)

// parts holds the components of a worker other than its connection to Temporal.
type parts struct {
	models   *llm.Models
	tools    *tool.Tools
	hooks    *webhook.Hooks
	keys     []contract.SealKey
	options  worker.Options
	audience *Audience
}

// assemble creates a worker's parts from its settings, without network access. model is the default model;
// why explains why there is none. The problems are all errors in the settings.
func assemble(cfg *config.Config, model, why string, functions []tool.Function) (p parts, problems config.Problems) {
	add := func(err error) { problems = append(problems, problemsOf(err)...) }
	add(checkFlows(cfg.Flows))
	if cfg.Budget.CostMicros > 0 && len(cfg.Prices) == 0 {
		add(config.Problems{"budget.cost_micros limits the cost of runs, but no prices are set; set prices, or use budget.calls or budget.tokens"})
	}
	var err error
	p.models, err = openModels(cfg, model, why)
	add(err)
	settings, err := cfg.Tool()
	add(err)
	settings.Functions = functions
	p.tools, err = tool.Open(settings)
	add(err)
	p.hooks, err = cfg.Hooks()
	add(err)
	p.keys, err = cfg.SealKeys()
	add(err)
	p.audience = &Audience{}
	p.options, err = options(cfg, p.audience)
	add(err)
	return p, problems
}

// check reports everything that would prevent a worker with these settings from starting, as far as that
// can be determined without network access and without writing to disk.
func check(ctx context.Context, cfg *config.Config, functions []tool.Function) error {
	p, problems := assemble(cfg, cfg.Model, "", functions)
	if p.tools != nil {
		p.tools.Close()
	}
	_, codecErr := cfg.OpenCodec()
	traces, tracesErr := observe.NewTraces(ctx, cfg.Env())
	if traces != nil {
		traces.Close()
	}
	for _, err := range []error{codecErr, cfg.CheckStore(), tracesErr} {
		problems = append(problems, problemsOf(err)...)
	}
	if len(problems) > 0 {
		return cfg.Placed(problems)
	}
	return nil
}

func checkFlows(f config.Flows) error {
	if f.Dir == "" {
		if f.Accept == config.AcceptNamed {
			return config.Problems{"flows.accept is named, but flows.dir is not set; set it"}
		}
		return nil
	}
	switch info, err := os.Stat(f.Dir); {
	case err != nil:
		return config.Problems{fmt.Sprintf("flows.dir: %v; set the directory of the flows, or remove it", err)}
	case !info.IsDir():
		return config.Problems{fmt.Sprintf("flows.dir: %s is not a directory", f.Dir)}
	}
	return nil
}
