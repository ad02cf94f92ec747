package dialects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// specDoc expands a short form into an Agent Spec document. The short form is an object of components by name; the one named
// flow is the root. A flow has nodes by name, edges in go as "a > b > c" and "a.branch > b", and data edges in data as
// "a.x > b.y"; its default type is Flow. A string that begins with @ refers to a component by name; @m is a model.
func specDoc(t testing.TB, short string) string {
	t.Helper()
	var in map[string]map[string]any
	if err := yaml.Unmarshal([]byte(short), &in); err != nil {
		t.Fatal(err)
	}
	s := shortSpec{t: t, components: map[string]any{"m": map[string]any{"component_type": "OpenAiConfig", "name": "m", "model_id": "m"}}}
	for name, c := range in {
		if name != "flow" {
			s.components[name] = s.component(name, c)
		}
	}
	main := s.component("flow", in["flow"])
	if main["agentspec_version"] == nil {
		main["agentspec_version"] = "26.1.2"
	}
	main["$referenced_components"] = s.components
	raw, err := json.MarshalIndent(main, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

type shortSpec struct {
	t          testing.TB
	components map[string]any
	edges      int
}

func (s *shortSpec) component(name string, in map[string]any) map[string]any {
	out := map[string]any{"name": name}
	nodes, isFlow := in["nodes"].(map[string]any)
	for k, v := range in {
		if !isFlow {
			out[k] = s.value(v)
			continue
		}
		switch k {
		case "nodes":
			list := []any{}
			for _, n := range sortedKeys(nodes) {
				node, ok := nodes[n].(map[string]any)
				if !ok {
					s.t.Fatalf("node %s is not an object", n)
				}
				if node["component_type"] == "StartNode" {
					out["start_node"] = refTo(n)
				}
				s.components[n] = s.component(n, node)
				list = append(list, refTo(n))
			}
			out[k] = list
		case "go":
			out["control_flow_connections"] = s.edgeList(v, s.controlEdge)
		case "data":
			out["data_flow_connections"] = s.edgeList(v, s.dataEdge)
		default:
			out[k] = s.value(v)
		}
	}
	if isFlow && in["component_type"] == nil {
		out["component_type"] = "Flow"
	}
	return out
}

func refTo(name string) map[string]any { return map[string]any{"$component_ref": name} }

func sortedKeys(m map[string]any) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (s *shortSpec) value(v any) any {
	switch v := v.(type) {
	case string:
		if name, ok := strings.CutPrefix(v, "@"); ok {
			return refTo(name)
		}
	case []any:
		for i := range v {
			v[i] = s.value(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = s.value(v[k])
		}
	}
	return v
}

func (s *shortSpec) edgeList(v any, edge func(from, to string) map[string]any) []any {
	out := []any{}
	list, _ := v.([]any)
	for _, line := range list {
		ends := strings.Split(fmt.Sprint(line), " > ")
		for i := range ends[1:] {
			s.edges++
			e := edge(ends[i], ends[i+1])
			e["name"] = fmt.Sprintf("edge%d", s.edges)
			out = append(out, e)
		}
	}
	return out
}

func (s *shortSpec) controlEdge(from, to string) map[string]any {
	from, branch, branched := strings.Cut(from, ".")
	to, _, _ = strings.Cut(to, ".")
	out := map[string]any{"component_type": "ControlFlowEdge", "from_node": refTo(from), "to_node": refTo(to)}
	if branched {
		out["from_branch"] = branch
	}
	return out
}

func (s *shortSpec) dataEdge(from, to string) map[string]any {
	node, output, _ := strings.Cut(from, ".")
	target, input, _ := strings.Cut(to, ".")
	return map[string]any{"component_type": "DataFlowEdge", "source_node": refTo(node), "source_output": output,
		"destination_node": refTo(target), "destination_input": input}
}
