package model_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
)

// ref returns a reference.
func ref(key string, args ...any) string {
	return fmt.Sprintf(`{"$component_ref": %q}`, fmt.Sprintf(key, args...))
}

// document returns a document without a main component.
func document(defs ...string) string {
	return `{"agentspec_version": "26.2.0", "$referenced_components": {` + strings.Join(defs, ",\n") + `}}`
}

// flowText returns a flow of the nodes with the given keys, in sequence.
func flowText(key string, nodes []string, data string, defs ...string) string {
	start, end := key+"s", key+"e"
	all := append(append([]string{start}, nodes...), end)
	var refs, edges []string
	for i, n := range all {
		refs = append(refs, ref("%s", n))
		if i > 0 {
			edges = append(edges, fmt.Sprintf(`{"component_type": "ControlFlowEdge", "name": "e", "from_node": %s, "to_node": %s}`, ref("%s", all[i-1]), ref("%s", n)))
		}
	}
	return strings.Join(append(defs,
		fmt.Sprintf(`%q: {"component_type": "StartNode", "name": "s"}`, start),
		fmt.Sprintf(`%q: {"component_type": "EndNode", "name": "e"}`, end),
		fmt.Sprintf(`%q: {"component_type": "Flow", "name": "f", "start_node": %s, "nodes": [%s], "control_flow_connections": [%s], "data_flow_connections": %s}`,
			key, ref("%s", start), strings.Join(refs, ", "), strings.Join(edges, ", "), data)), ",\n")
}

// properties returns n properties.
func properties(n int, schema string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"title": "p%d", %s}`, i, schema)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// repeat returns f(0) to f(n-1).
func repeat(n int, f func(i int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// bomb returns a document of flows that each run the previous one twice: without sharing, loading
// would take 2^n steps.
func bomb(n int, kind string) string {
	defs := []string{flowText("f0", nil, "null")}
	for i := 1; i <= n; i++ {
		var nodes []string
		for _, side := range []string{"a", "b"} {
			node := fmt.Sprintf("n%d%s", i, side)
			nodes = append(nodes, node)
			defs = append(defs, fmt.Sprintf(`%q: {"component_type": %q, "name": "n", "subflow": %s}`, node, kind, ref("f%d", i-1)))
		}
		defs = append(defs, flowText(fmt.Sprintf("f%d", i), nodes, "null"))
	}
	return document(defs...)
}

// deepType nests unions and arrays: the type doubles with each level.
func deepType(depth int) string {
	text := `{"type": "integer"}`
	for range depth {
		text = `{"anyOf": [` + text + `, {"type": "array", "items": ` + text + `}]}`
	}
	return text
}

func hostile() map[string]struct{ text, want string } {
	llm := `{"component_type": "OllamaConfig", "name": "m", "url": "http://localhost", "model_id": "m"}`
	tool := func(props string) string {
		return `{"component_type": "ServerTool", "name": "t", "inputs": ` + props + `}`
	}
	return map[string]struct{ text, want string }{
		"exponential flows":     {bomb(60, "FlowNode"), ""},
		"exponential maps":      {bomb(60, "MapNode"), ""},
		"flows nested too deep": {bomb(80, "FlowNode"), "too-deep"},
		"chain of references": {document(repeat(10_000, func(i int) string {
			return fmt.Sprintf(`"a%d": %s`, i, ref("a%d", i+1))
		})...), "too-deep"},
		"many components": {document(repeat(model.MaxComponents+10, func(i int) string {
			return fmt.Sprintf(`"t%d": {"component_type": "ServerTool", "name": "t"}`, i)
		})...), "too-many"},
		"many errors": {document(repeat(10_000, func(i int) string {
			return fmt.Sprintf(`"t%d": {"component_type": "SrverTool%d", "naem": %s}`, i, i, ref("nowhere%d", i))
		})...), "more"},
		"many unknown fields": {document(`"t": {"component_type": "ServerTool", "name": "t", ` + strings.Join(repeat(50_000, func(i int) string {
			return fmt.Sprintf(`"f%d": 1`, i)
		}), ", ") + "}"), ""},
		"many missing references": {document(append(repeat(10_000, func(i int) string { return fmt.Sprintf(`"t%d": 1`, i) }),
			`"a": {"component_type": "Agent", "name": "a", "system_prompt": "s", "llm_config": `+llm+`, "tools": [`+strings.Join(repeat(10_000, func(i int) string {
				return ref("x%d", i)
			}), ",")+`]}`)...), "ref-missing"},
		"many inputs in many nodes": {document(append(repeat(200, func(i int) string {
			return fmt.Sprintf(`"n%d": {"component_type": "ToolNode", "name": "n", "tool": %s}`, i, ref("t"))
		}), `"t": `+tool(properties(5_000, `"type": "string"`)))...), "too-complex"},
		"one long text shared by many agents": {document(append(repeat(5_000, func(i int) string {
			return fmt.Sprintf(`"a%d": {"component_type": "Agent", "name": "a", "llm_config": %s, "system_prompt": %s}`, i, ref("m"), ref("p"))
		}), `"m": `+llm, `"p": "`+strings.Repeat("{{ x }", 200_000)+`"`)...), "too-complex"},
		"one property list shared by many tools": {document(append(repeat(5_000, func(i int) string {
			return fmt.Sprintf(`"t%d": {"component_type": "ServerTool", "name": "t", "inputs": %s}`, i, ref("p"))
		}), `"p": `+properties(5_000, `"type": "string", "maxLength": 5`))...), "too-complex"},
		"one flow repeated in parallel": {document(`"n": {"component_type": "ParallelFlowNode", "name": "n", "subflows": [`+strings.Join(repeat(20_000, func(int) string { return ref("f") }), ",")+`]}`,
			strings.Replace(flowText("f", nil, "null"), `"StartNode", "name": "s"`, `"StartNode", "name": "s", "inputs": `+properties(5_000, `"type": "string"`), 1)), "too-complex"},
		"many specializations of an agent with many tools": {document(append(repeat(5_000, func(i int) string {
			return fmt.Sprintf(`"s%d": {"component_type": "SpecializedAgent", "name": "s", "agent": %s, "agent_specialization_parameters": %s}`, i, ref("a"), ref("p"))
		}), `"p": {"component_type": "AgentSpecializationParameters", "name": "p", "human_in_the_loop": false}`, `"t": `+tool("[]"),
			`"a": {"component_type": "Agent", "name": "a", "llm_config": `+llm+`, "system_prompt": "s", "tools": [`+strings.Join(repeat(10_000, func(int) string { return ref("t") }), ",")+`]}`)...), ""},
		"many maps over a flow with many inputs": {document(append(repeat(200, func(i int) string {
			return fmt.Sprintf(`"n%d": {"component_type": "MapNode", "name": "n", "subflow": %s}`, i, ref("f"))
		}), strings.Replace(flowText("f", nil, "null"), `"StartNode", "name": "s"`, `"StartNode", "name": "s", "inputs": `+properties(5_000, `"type": "string"`), 1))...), "too-complex"},
		"many schemas to compile": {document(`"t": ` + tool(properties(6_000, `"type": "string", "pattern": "^a"`))), "too-complex"},
		"type nested too deep":    {document(`"t": ` + tool(properties(1, `"type": "array", "items": `+strings.Repeat(`{"type": "array", "items": `, 80)+`{}`+strings.Repeat("}", 80)))), "prop-schema"},
		"exponential type":        {document(`"t": ` + tool(`[{"title": "p", "default": 1, `+strings.TrimPrefix(deepType(14), "{")+`]`)), ""},
		"one id for all components": {document(repeat(20_000, func(i int) string {
			return fmt.Sprintf(`"t%d": {"component_type": "ServerTool", "id": "x", "name": "t%d"}`, i, i)
		})...), ""},
		"long flow": {document(append(repeat(1_500, func(i int) string {
			return fmt.Sprintf(`"n%d": {"component_type": "ToolNode", "name": "n", "tool": {"component_type": "ServerTool", "name": "t", "inputs": [{"title": "x", "type": "string"}], "outputs": [{"title": "x", "type": "string"}]}}`, i)
		}), flowText("f", repeat(1_500, func(i int) string { return fmt.Sprintf("n%d", i) }), "null"))...), ""},
	}
}

// TestHostile checks that hostile documents load within bounds of time, memory and number of diagnostics.
func TestHostile(t *testing.T) {
	for name, tc := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			doc, diags := model.LoadComponents("in.json", []byte(tc.text), model.Options{})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if took > 30*time.Second {
				t.Errorf("%d bytes took %v", len(tc.text), took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 3<<30 {
				t.Errorf("%d bytes allocated %d MiB", len(tc.text), used>>20)
			}
			if len(diags) > source.MaxDiagnostics {
				t.Errorf("%d diagnostics", len(diags))
			}
			codes := map[string]bool{}
			for _, d := range diags {
				codes[d.Code] = true
			}
			if tc.want != "" && (doc != nil && tc.want != "more" || !codes[tc.want]) {
				t.Errorf("want %s, got %s", tc.want, render(diags[:min(len(diags), 5)]))
			}
			if testing.Verbose() {
				t.Logf("%d bytes, %v, %d MiB, %d diagnostics", len(tc.text), took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, len(diags))
			}
		})
	}
}
