// Package host assembles a worker: configuration and client in, a process's worker out.
//
// It is the only place that registers workflows and activities, and the only one that
// joins dialects to activities: compiling a document is handed to them as a function.
//
// Start at [New]. Whoever builds a worker with Go functions as tools starts at [Main], the
// worker command as a function; nothing else here reads the environment or makes a client.
package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/worker/config"
	"weft/workflows"
)

// Host is a worker that is ready to run.
type Host struct {
	// Model is the model of runs that name none; empty means that they fail. ModelNote
	// says why there is none, where that is worth saying.
	Model     string
	ModelNote string

	worker    worker.Worker
	tools     *tool.Tools
	functions []string
	// lacks are the models that cannot be called, each with what to do.
	lacks      []string
	attributes *activities.Attributes
}

// New makes a worker for the configured task queue, with functions as tools. It asks a local Ollama for its models
// where that decides the default; besides, it uses no network. The error lists all that is
// wrong with the settings.
func New(ctx context.Context, c client.Client, cfg *config.Config, functions ...tool.Function) (*Host, error) {
	h := &Host{functions: names(functions), attributes: activities.NewAttributes(c)}
	var err error
	if h.Model, err = cfg.DefaultModel(ctx); err != nil {
		h.ModelNote = err.Error()
	}
	p, problems := assemble(cfg, h.Model, h.ModelNote, functions)
	h.tools = p.tools
	if len(problems) > 0 {
		if h.tools != nil {
			h.tools.Close()
		}
		return nil, cfg.Placed(problems)
	}
	h.lacks = lacks(cfg, p.models, h.Model)
	NameBuild()
	worker.SetStickyWorkflowCacheSize(cfg.StickyCache())
	h.worker = worker.New(c, cfg.TaskQueue, p.how)
	workflows.Settings{MaxPayload: cfg.Store.Most(), Means: cfg.Means(), RefusePlans: cfg.Flows.Accept == config.AcceptNamed, Webhooks: p.hooks.Wanted()}.Register(h.worker)
	activities.New(activities.Deps{
		Models: p.models, Tools: h.tools, Source: activities.NewClientSource(c), Compile: Compiler(cfg, h.functions...),
		Begin: Begin, Webhooks: p.hooks, Mask: cfg.Mask(),
		Attributes: h.attributes, MaxPayload: cfg.Store.Most(), Means: cfg.Means(), Watched: p.seen.Watched,
	}).Register(h.worker)
	return h, nil
}

// names lists the names of functions, sorted.
func names(functions []tool.Function) []string {
	var out []string
	for _, f := range functions {
		out = append(out, f.Name())
	}
	slices.Sort(out)
	return out
}

// listed are the problems that an error holds, one each.
func listed(err error) []string {
	if err == nil {
		return nil
	}
	var several config.Problems
	if errors.As(err, &several) {
		return several
	}
	var f *contract.Failure
	if errors.As(err, &f) && len(f.Diagnostics) > 0 {
		return f.Diagnostics
	}
	return []string{err.Error()}
}

// lacks says what the default model and the configured providers need before they can be
// called. That keeps no worker from running: it concerns the runs alone that use them.
func lacks(cfg *config.Config, models *llm.Models, model string) []string {
	name, _, _ := strings.Cut(model, "/")
	names := slices.Sorted(maps.Keys(cfg.Providers))
	if _, configured := cfg.Providers[name]; !configured {
		names = append([]string{name}, names...)
	}
	var out []string
	for _, n := range names {
		err := models.Ready(n)
		if err == nil {
			continue
		}
		f := contract.FailureOf(err)
		text := fmt.Sprintf("%s; runs that use it cannot go on: %s", f.Text, f.Remedy)
		if n == name {
			text = fmt.Sprintf("the default model %s: %s", model, text)
		}
		out = append(out, text)
	}
	return out
}

func openModels(cfg *config.Config, model, why string) (*llm.Models, error) {
	settings, err := cfg.LLM()
	problems := config.Problems(listed(err))
	settings.Default, settings.NoDefault = model, why
	models, err := llm.Open(settings)
	if problems = append(problems, listed(err)...); len(problems) > 0 {
		return nil, problems
	}
	return models, nil
}

// firstPollers is how many requests for tasks wait at Temporal at first, if the settings allow.
const firstPollers = 8

// options are measured, not guessed: the pollers of the SDK's default are the bottleneck
// with many runs, its five seconds of sticky timeout are how long a run stands still after
// a crash, its second of deadlock detection is too short for a large plan on a busy
// machine, and its heartbeat throttle of a minute hides a cancellation. Temporal's 10 s for a
// workflow task stay, although a kill in its milliseconds costs them: to rebuild a run of
// 40,000 events takes two seconds of processor time, several times that on a busy machine, and
// a run whose worker never ends in time would never get on.
func options(cfg *config.Config, more ...interceptor.WorkerInterceptor) (worker.Options, error) {
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: min(max(firstPollers, cfg.Worker.PollersMin), cfg.Worker.PollersMax),
		MinimumNumberOfPollers: cfg.Worker.PollersMin, MaximumNumberOfPollers: cfg.Worker.PollersMax,
	})
	o := worker.Options{
		WorkflowTaskPollerBehavior:       pollers,
		ActivityTaskPollerBehavior:       pollers,
		StickyScheduleToStartTimeout:     2 * time.Second,
		DeadlockDetectionTimeout:         10 * time.Second,
		DefaultHeartbeatThrottleInterval: cfg.Worker.Heartbeats,
		MaxHeartbeatThrottleInterval:     cfg.Worker.Heartbeats,
		WorkerStopTimeout:                cfg.Worker.StopTimeout + stopGrace,
		Interceptors:                     append([]interceptor.WorkerInterceptor{&cutter{after: cfg.Worker.StopTimeout}}, more...),
	}
	if d := deploymentOf(cfg); d != nil {
		o.DeploymentOptions = *d
	}
	if cfg.Worker.Slots == config.SlotsFixed {
		o.MaxConcurrentActivityExecutionSize = cfg.Worker.Activities
		o.MaxConcurrentWorkflowTaskExecutionSize = cfg.Worker.WorkflowTasks
		return o, nil
	}
	var err error
	o.Tuner, err = tuner(cfg, newUsage(cfg.Memory()))
	return o, err
}

// Run works until ctx is done. Then it takes no new tasks, gives running activities the
// configured time to end, and closes the sessions of tools. It may be called once.
func (h *Host) Run(ctx context.Context) error {
	defer h.tools.Close()
	stop := make(chan any)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			close(stop)
		case <-ended:
		}
	}()
	if err := h.worker.Run(stop); err != nil {
		return fmt.Errorf("run worker: %w", err)
	}
	return nil
}
