package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/activities"
	"weft/activities/contract"
	"weft/worker/config"
)

// Describe summarises the worker's configuration, one item per line, without secrets.
func (h *Host) Describe(address, namespace string, cfg *config.Config) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "worker: "+format+"\n", args...) }
	for _, w := range cfg.Warnings {
		line("warning: %s", w)
	}
	line("temporal %s, namespace %s, task queue %s", address, namespace, cfg.TaskQueue)
	line("settings %s", cmp.Or(cfg.File, "none"))
	switch {
	case h.Model != "":
		line("default model %s", h.Model)
	case h.ModelNote != "":
		line("default model none: %s", h.ModelNote)
	default:
		line("default model none: set OPENAI_API_KEY or OLLAMA_HOST in this worker's environment, or model in %s; otherwise each flow or run must name one", config.DefaultFile)
	}
	for _, l := range h.unready {
		line("warning: %s", l)
	}
	if d := deploymentOf(cfg); d != nil {
		line("deployment %s, build %s, %s; new runs use it after worker deployment -current", d.Version.DeploymentName, d.Version.BuildID, cfg.Versioning().Behavior)
	}
	line("providers with a key: %s", cmp.Or(strings.Join(cfg.Keys(), ", "), "none"))
	line("connections: %s", cmp.Or(strings.Join(slices.Sorted(maps.Keys(cfg.Connections)), ", "), "none"))
	if len(h.functions) > 0 {
		line("functions: %s", strings.Join(h.functions, ", "))
	}
	if cfg.Flows.Dir != "" {
		line("flows by name from %s, accept: %s", cfg.Flows.Dir, cfg.Flows.Accept)
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(cfg.Policies)), func(p contract.Policy) bool { return len(p.Tenants) > 0 }) {
		line("warning: policies name tenants, and Temporal does not report whether task queue fairness is enabled: make sure that its dynamic configuration has matching.enableFairness: true")
	}
	if place := cmp.Or(cfg.Store.Dir, cfg.Store.Bucket); place != "" {
		line("large payloads are stored in %s, at most %d bytes each", place, cfg.Store.MaxPayload)
	}
	switch key := cfg.Codec.Key; {
	case key != "" && key != config.NoKey:
		line("payloads are encrypted with the key %s", key)
	case cfg.Codec.Compress:
		line("payloads are compressed")
	}
	return b.String()
}

// Attributes lists the search attributes that the namespace lacks, and how to add them. It is empty if
// none is missing. Runs work without them.
func (h *Host) Attributes(ctx context.Context, namespace string) string {
	var b strings.Builder
	state, err := h.attributes.Of(ctx, namespace)
	if err != nil {
		fmt.Fprintf(&b, "worker: cannot read the search attributes: %v; runs set only those of their start request\n", err)
	}
	if len(state.Missing) > 0 {
		fmt.Fprintf(&b, "worker: search attributes missing: %s; runs work without them; add them with: %s\n",
			strings.Join(state.Missing, ", "), activities.RegisterCommand(namespace, state.Missing...))
	}
	if len(state.Wrong) > 0 {
		fmt.Fprintf(&b, "worker: search attributes of a type other than Keyword: %s; runs work without them; remove them and add them again as Keyword\n",
			strings.Join(state.Wrong, ", "))
	}
	return b.String()
}
