package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/specadapter"
)

// The map's node that calls the model, and the concurrency: that of Agent Spec's parallel map
// here.
const (
	mapNode   = "deal"
	mapAtOnce = 10
)

func mapQuestion(item string) string { return "Deal with " + item + "." }

// mapDocument maps a list of texts to model calls.
const mapDocument = `{"component_type":"Flow","agentspec_version":"26.1.2","name":"map","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"each"},{"$component_ref":"e"}],
"control_flow_connections":[
 {"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"each"}},
 {"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"e"}}],
"data_flow_connections":[
 {"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"s"},"source_output":"items","destination_node":{"$component_ref":"each"},"destination_input":"iterated_item"},
 {"component_type":"DataFlowEdge","name":"4","source_node":{"$component_ref":"each"},"source_output":"collected_said","destination_node":{"$component_ref":"e"},"destination_input":"said"}],
"$referenced_components":{
 "m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
 "s":{"component_type":"StartNode","name":"s","inputs":[{"title":"items","type":"array","items":{"type":"string"}}]},
 "each":{"component_type":"ParallelMapNode","name":"each","subflow":{"$component_ref":"one"}},
 "e":{"component_type":"EndNode","name":"e","outputs":[{"title":"said","type":"array","items":{"type":"string"}}]},
 "one":{"component_type":"Flow","name":"one","start_node":{"$component_ref":"o1"},"nodes":[{"$component_ref":"o1"},{"$component_ref":"o2"},{"$component_ref":"o3"}],
  "control_flow_connections":[
   {"component_type":"ControlFlowEdge","name":"5","from_node":{"$component_ref":"o1"},"to_node":{"$component_ref":"o2"}},
   {"component_type":"ControlFlowEdge","name":"6","from_node":{"$component_ref":"o2"},"to_node":{"$component_ref":"o3"}}]},
 "o1":{"component_type":"StartNode","name":"o1","inputs":[{"title":"item","type":"string"}]},
 "o2":{"component_type":"LlmNode","name":"deal","llm_config":{"$component_ref":"m"},"prompt_template":"Deal with {{item}}.","outputs":[{"title":"said","type":"string"}]},
 "o3":{"component_type":"EndNode","name":"o3","outputs":[{"title":"said","type":"string"}]}}}`

// mapOver calls the model for each of n elements.
func mapOver(n int) (workload, error) {
	script, err := scriptOf(`{"say":"it is dealt with"}`)
	if err != nil {
		return workload{}, err
	}
	out, diags := specadapter.Load("map.json", []byte(mapDocument), specadapter.Options{})
	if out == nil {
		return workload{}, fmt.Errorf("the map does not load: %v", diags[0])
	}
	items := names("item-", n)
	params, err := json.Marshal(map[string]any{"items": items})
	return workload{steps: n,
		ours: start{contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: out.Flow}, Params: params, Model: llm.ScriptModel, Script: script}},
		twin: start{workflowTwinMap, twinMapInput{Model: llm.ScriptModel, Script: script, Items: items, AtOnce: mapAtOnce}},
	}, err
}

// mapBudget bounds the time of the larger map if the number of elements is not set.
const mapBudget = 10 * time.Minute

// elements compares a map of few elements with the twin's, and with a map of many.
func elements(ctx context.Context, b *bench) error {
	few := min(b.scale.elements, max(b.scale.elements/50, 50))
	w, err := mapOver(few)
	if err != nil {
		return err
	}
	how := burst{queue: benchQueue, runs: 1, inFlight: 1, rootOnly: true, cold: true, patience: 2 * time.Hour}
	metrics := []metric{
		{"elements per second", stepsPerSecond, count, 0},
		{"CPU of the worker per element", perStep(workerOf), nanos, 0},
		{"CPU of servers and database per element", perStep(serverOf), nanos, 0},
		{"events per element in the run's own", perStep(eventsOf), count, 0},
	}
	b.table.head("A map over %d elements, %d at a time, a child with one model call each (1 round)", few, mapAtOnce)
	one, err := b.mapped(ctx, w, how)
	if err != nil {
		return err
	}
	twin, err := b.measure(ctx, w.twin, w.steps, how)
	if err != nil {
		return err
	}
	b.sideBySide(metrics, one, twin)
	many := b.scale.elements
	if fit := int(stepsPerSecond(one) * mapBudget.Seconds()); fit < many && !b.forced {
		many = max(fit/100*100, few)
		b.table.note("(the machine is busy: %d elements instead of %d fit into %s; BENCH_ELEMENTS insists on a number)", many, b.scale.elements, mapBudget)
	}
	if w, err = mapOver(many); err != nil {
		return err
	}
	b.table.columns("many", "few", "The same over %d elements beside the %d, both ours (1 round)", many, few)
	all, err := b.mapped(ctx, w, how)
	if err != nil {
		return err
	}
	b.sideBySide(append(metrics, metric{"wall time", medianFlow, nanos, 0}), all, one)
	return nil
}

// mapped measures our side of a map, and checks that its result is complete.
func (b *bench) mapped(ctx context.Context, w workload, how burst) (sample, error) {
	s, err := b.measure(ctx, w.ours, w.steps, how)
	if err != nil {
		return s, err
	}
	var out contract.RunResult
	if err := b.client.GetWorkflow(ctx, b.id(b.runs), "").Get(ctx, &out); err != nil {
		return s, err
	}
	var data struct{ Said []string }
	if err := json.Unmarshal(out.ResultData, &data); err != nil {
		return s, fmt.Errorf("read what the map left: %w", err)
	}
	if len(data.Said) != w.steps || out.Usage.Calls != w.steps {
		return s, fmt.Errorf("the map over %d elements left %d results of %d calls", w.steps, len(data.Said), out.Usage.Calls)
	}
	return s, nil
}

// sideBySide prints the metrics of two samples.
func (b *bench) sideBySide(metrics []metric, one, other sample) {
	for _, m := range metrics {
		b.table.row(m.name, []float64{m.of(one)}, []float64{m.of(other)}, m.show, m.limit)
	}
}

// The branches of the wide fork, and the size of each branch's output in bytes.
const (
	wideBranches = 200
	wideBytes    = 200_000
)

// wideFork is branches with outputs of a given size in bytes, and a join that reads all of them.
func wideFork(branches, size int) (workload, error) {
	of := make([][]string, branches)
	for i, id := range names("item", branches) {
		of[i] = []string{id}
	}
	script, err := scriptOf(`{"node":"join","say":"all is done"}`, fmt.Sprintf(`{"say":%q}`, strings.Repeat("word ", size/5)))
	return graph("wide", of, "join", script), err
}

// wide compares a fork of branches with large outputs to one with small outputs, on a worker with a
// claim-check store. It has no twin, which would pass the outputs by value.
func wide(ctx context.Context, b *bench) error {
	const small = 200
	how := burst{runs: 1, inFlight: 1, countsBytes: true, cold: true}
	b.table.columns("large", "small", "A fork of %d branches that say %d and %d bytes each, and a join that reads all, with a store (1 round)", wideBranches, wideBytes, small)
	var samples []sample
	var peaks []float64
	for _, size := range []int{wideBytes, small} {
		w, err := wideFork(wideBranches, size)
		if err != nil {
			return err
		}
		how.queue = fmt.Sprintf("bench-wide-%d", size)
		s, peak, err := b.apart(ctx, w, how)
		if err != nil {
			return err
		}
		samples, peaks = append(samples, s), append(peaks, peak)
	}
	b.sideBySide([]metric{
		{"wall time", medianFlow, nanos, 0},
		{"CPU of the worker per call", perStep(workerOf), nanos, 0},
		{"CPU of servers and database per call", perStep(serverOf), nanos, 0},
		{"history bytes, children included", bytesOf, bytes, 0},
	}, samples[0], samples[1])
	b.table.row("peak of the worker's resident memory", peaks[:1], peaks[1:], bytes, 0)
	return nil
}

// apart measures our side on a fresh worker with a store, and the worker's peak memory.
func (b *bench) apart(ctx context.Context, w workload, how burst) (sample, float64, error) {
	fresh, err := b.startWorker(how.queue, "-store", b.dir+"/store-"+how.queue)
	if err != nil {
		return sample{}, 0, err
	}
	defer fresh.kill()
	shared := b.worker
	b.worker = fresh
	defer func() { b.worker = shared }()
	s, err := b.measure(ctx, w.ours, w.steps, how)
	return s, float64(peakOf(fresh.cmd.Process.Pid)), err
}
