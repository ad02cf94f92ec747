// Package doctor checks this machine for everything that runs of flows require, and reports how to fix problems.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/starter/runs"
	"weft/worker/config"
	"weft/workflows/plan"
)

// States of a check.
const (
	OK      = "ok"
	Missing = "missing"
)

// Check is the result of one check.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text,omitempty"`
	// Remedy is the command or the setting that fixes the problem.
	Remedy string `json:"remedy,omitempty"`
}

const patience = 10 * time.Second

type doctor struct {
	cfg    *config.Config
	checks []Check
}

func (d *doctor) ok(name, format string, args ...any) {
	d.checks = append(d.checks, Check{Name: name, State: OK, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) missing(name, remedy, format string, args ...any) {
	d.checks = append(d.checks, Check{Name: name, State: Missing, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// failed adds an error, with its own remedy if it has one, otherwise with remedy.
func (d *doctor) failed(name, remedy string, err error) {
	if f := contract.FailureOf(err); f.Class != "" && f.Remedy != "" {
		d.missing(name, f.Remedy, "%s", f.Text)
		return
	}
	d.missing(name, remedy, "%v", err)
}

// Examine checks the settings, Temporal, its workers, models, connections, the store and the port of the HTTP server.
func Examine(ctx context.Context, cfg *config.Config, connect func(context.Context) (*runs.Connection, error)) []Check {
	d := &doctor{cfg: cfg}
	if d.ok("settings", "%s", cfg.File); cfg.File == "" {
		d.checks[0].Text = "none: defaults and the environment"
	}
	d.temporal(ctx, connect)
	d.models(ctx)
	d.connections(ctx)
	d.store(ctx)
	d.port()
	return d.checks
}

func (d *doctor) temporal(ctx context.Context, connect func(context.Context) (*runs.Connection, error)) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := connect(ctx)
	if err != nil {
		d.missing("temporal", "make dev, or starter -dev with a command; another server: TEMPORAL_ADDRESS=HOST:PORT", "%v", err)
		return
	}
	d.ok("temporal", "%s, namespace %s", c.Address, c.Namespace)
	pollers, err := c.Pollers(ctx, d.cfg.TaskQueue)
	switch {
	case err != nil:
		d.missing("worker", "starter -dev with a command starts one", "the task queue %s cannot be described: %v", d.cfg.TaskQueue, err)
	case len(pollers) == 0:
		d.missing("worker", "bin/worker, with the settings and keys in its environment; or starter -dev with a command", "no worker polls the task queue %s", d.cfg.TaskQueue)
	default:
		d.ok("worker", "%d on the task queue %s; keys and settings below are those of this shell, not theirs", len(pollers), d.cfg.TaskQueue)
	}
}

func (d *doctor) models(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	settings, err := d.cfg.LLM()
	if err != nil {
		d.failed("models", "fix the settings providers", err)
		return
	}
	models, err := llm.Open(settings)
	if err != nil {
		d.failed("models", "fix the settings providers", err)
		return
	}
	model, err := d.cfg.DefaultModel(ctx)
	switch {
	case err != nil:
		d.failed("default model", "set model in "+config.DefaultFile, err)
	case model == "":
		d.missing("default model", "export OPENAI_API_KEY=..., or OLLAMA_HOST=127.0.0.1:11434; without a model: -model script -script FILE", "none: each flow or run must name one")
	default:
		d.ok("default model", "%s", model)
	}
	names := append(d.cfg.Keys(), slices.Collect(maps.Keys(d.cfg.Providers))...)
	if name, _, ok := strings.Cut(model, "/"); ok {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := models.Ready(name); err != nil {
			d.failed("provider "+name, "fix providers."+name, err)
		} else if err := models.Reach(ctx, name); err != nil {
			d.failed("provider "+name, "check the network, and providers."+name+".base_url", err)
		} else {
			d.ok("provider "+name, "is configured and responds")
		}
	}
}

func (d *doctor) connections(ctx context.Context) {
	tools, err := d.cfg.OpenTools()
	if err != nil {
		d.failed("connections", "fix the settings connections", err)
		return
	}
	defer tools.Close()
	for _, id := range slices.Sorted(maps.Keys(d.cfg.Connections)) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		at, err := tools.Resolve(plan.Connection{ID: id, Kind: plan.ConnectionMCP}, "")
		var specs []contract.ToolSpec
		if err == nil {
			specs, err = tools.List(ctx, at)
		}
		if cancel(); err != nil {
			d.failed("connection "+id, "fix connections."+id+", or start its server", err)
		} else {
			d.ok("connection "+id, "%d tools", len(specs))
		}
	}
}

// Offer lists the tools, prompts and resources of a connection in the settings.
func Offer(ctx context.Context, cfg *config.Config, id string) (*tool.Offer, error) {
	tools, err := cfg.OpenTools()
	if err != nil {
		return nil, err
	}
	defer tools.Close()
	at, err := tools.Resolve(plan.Connection{ID: id, Kind: plan.ConnectionMCP}, "")
	if err != nil {
		return nil, err
	}
	return tools.Offer(ctx, at)
}

// store checks whether payloads that are too large for Temporal can be read from the store.
func (d *doctor) store(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.cfg.CheckStore(); err != nil {
		d.failed("store", "fix the settings store in "+config.DefaultFile, err)
		return
	}
	s, err := d.cfg.OpenStore()
	if err == nil && s.String() == "" {
		d.ok("store", "none: payloads have at most 2 MB")
		return
	}
	if err == nil {
		if _, err = s.Load(ctx, "doctor"); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		d.failed("store", "make it reachable, or fix the settings store in "+config.DefaultFile, err)
		return
	}
	d.ok("store", "%s responds", s)
}

func (d *doctor) port() {
	l, err := net.Listen("tcp", d.cfg.Serve.Listen)
	if err != nil {
		d.missing("port", "starter serve -listen 127.0.0.1:0, or stop the program listening there", "the HTTP server cannot listen: %v", err)
		return
	}
	_ = l.Close()
	d.ok("port", "%s is free for starter serve", d.cfg.Serve.Listen)
}
