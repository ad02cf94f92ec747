// Package host assembles a worker from a configuration and a client.
//
// It is the only package that registers workflows and activities, and the only one that
// connects dialects to activities: they get the compiler of documents as a function.
//
// Start at [New]. For a worker with Go functions as tools, start at [Main], the worker command as a
// function; nothing else in this package reads the environment or makes a client.
package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/worker/config"
	"weft/worker/limits"
	"weft/workflows"
	"weft/workflows/limiter"
)

// Host is a worker that is ready to run.
type Host struct {
	// Model is the default model, for runs that specify none; if it is empty, such runs fail. ModelNote
	// explains why there is none; it may be empty.
	Model     string
	ModelNote string

	// workers poll the configured task queue and this process's own.
	workers   []worker.Worker
	tools     *tool.Tools
	functions []string
	// unready describes the models that cannot be called, each with a remedy.
	unready    []string
	attributes *activities.Attributes
	limits     *limits.Limits
}

// New returns a worker for the configured task queue, with functions as tools. It queries a local Ollama
// server for its models if the default model depends on it; otherwise it makes no requests. The error lists all
// errors in the settings.
func New(ctx context.Context, c client.Client, cfg *config.Config, functions ...tool.Function) (*Host, error) {
	h := &Host{functions: functionNames(functions), attributes: activities.NewAttributes(c)}
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
	h.unready = unready(cfg, p.models, h.Model)
	NameBuild()
	worker.SetStickyWorkflowCacheSize(cfg.StickyCache())
	w, queue := worker.New(c, cfg.TaskQueue, p.options), cfg.TaskQueue+"@"+rand.Text()
	bounds := cfg.Bounds()
	workflows.Settings{Bounds: &bounds, MaxPayload: cfg.Store.PayloadLimit(), BudgetLimits: cfg.BudgetLimits(), Named: cfg.Flows.Accept == config.AcceptNamed, Webhooks: p.hooks.Wanted(),
		Keys: p.keys, Policies: cfg.PolicyList(), Scripts: cfg.Scripts(), Models: p.models}.Register(w)
	acts := activities.New(activities.Deps{
		Models: p.models, Tools: h.tools, Source: activities.NewClientSource(c), Compile: Compiler(cfg, h.functions...),
		Begin: Begin, Keys: p.keys, Policies: cfg.PolicyList(), Webhooks: p.hooks, Mask: cfg.Mask(),
		Attributes: h.attributes, MaxPayload: cfg.Store.PayloadLimit(), Watched: p.audience.Watched, Queue: queue,
	})
	acts.Register(w)
	queueOptions := unversioned(p.options)
	queueOptions.DisableWorkflowWorker = true
	own := worker.New(c, queue, queueOptions)
	acts.Register(own)
	h.workers = []worker.Worker{w, own}
	queueOptions = unversioned(p.options)
	queueOptions.LocalActivityWorkerOnly = true
	limiters := worker.New(c, contract.LimiterQueue, queueOptions)
	limiter.Register(limiters)
	h.limits = limits.New(c, limiters, time.Minute, log.NewStructuredLogger(slog.Default()))
	p.models.Share(h.limits)
	return h, nil
}

// unversioned returns the options for a task queue with few tasks, for runs of any build.
func unversioned(o worker.Options) worker.Options {
	o.DeploymentOptions = worker.DeploymentOptions{}
	o.ActivityTaskPollerBehavior = worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 2})
	o.WorkflowTaskPollerBehavior = o.ActivityTaskPollerBehavior
	return o
}

func functionNames(functions []tool.Function) []string {
	var out []string
	for _, f := range functions {
		out = append(out, f.Name())
	}
	slices.Sort(out)
	return out
}

// problemsOf returns the problems of an error, one per element.
func problemsOf(err error) []string {
	if err == nil {
		return nil
	}
	if several, ok := errors.AsType[config.Problems](err); ok {
		return several
	}
	if f, ok := errors.AsType[*contract.Failure](err); ok && len(f.Diagnostics) > 0 {
		return f.Diagnostics
	}
	return []string{err.Error()}
}

// unready lists what the default model and the configured providers need before they can be
// called. The worker starts regardless: only the runs that use them are affected.
func unready(cfg *config.Config, models *llm.Models, model string) []string {
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
		text := fmt.Sprintf("%s; runs that use it cannot continue: %s", f.Text, f.Remedy)
		if n == name {
			text = fmt.Sprintf("the default model %s: %s", model, text)
		}
		out = append(out, text)
	}
	return out
}

func openModels(cfg *config.Config, model, why string) (*llm.Models, error) {
	settings, err := cfg.LLM()
	problems := config.Problems(problemsOf(err))
	settings.Default, settings.NoDefault = model, why
	models, err := llm.Open(settings)
	if problems = append(problems, problemsOf(err)...); len(problems) > 0 {
		return nil, problems
	}
	return models, nil
}

// initialPollers is the initial number of pollers, within the limits of the settings.
const initialPollers = 8

// options returns the SDK's options. Their values were found by measurement: the SDK's default number of pollers is a
// bottleneck with many runs, its sticky timeout of five seconds is how long a run waits after a crash,
// its deadlock detection of one second is too short for a large plan on a busy machine, and its heartbeat
// throttle of a minute delays cancellations. The workflow task timeout stays at Temporal's 10 s, although a
// run waits that long if its worker is killed during a task: replaying 40,000 events takes two seconds of
// CPU time, several times that on a busy machine, and a run whose tasks always time out makes no progress.
func options(cfg *config.Config, more ...interceptor.WorkerInterceptor) (worker.Options, error) {
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: min(max(initialPollers, cfg.Worker.PollersMin), cfg.Worker.PollersMax),
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
		Interceptors:                     append([]interceptor.WorkerInterceptor{&stopInterceptor{after: cfg.Worker.StopTimeout}}, more...),
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

// Run runs the worker until ctx is done. Then it takes no new tasks, gives running activities the
// configured time to complete, and closes the sessions of tools. It may be called once.
func (h *Host) Run(ctx context.Context) error {
	defer h.tools.Close()
	defer h.limits.Stop()
	all, ctx := errgroup.WithContext(ctx)
	stop := make(chan any)
	defer context.AfterFunc(ctx, func() { close(stop) })()
	for _, w := range h.workers {
		all.Go(func() error { return w.Run(stop) })
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("run worker: %w", err)
	}
	return nil
}
