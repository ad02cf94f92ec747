package dialects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// specDoc writes a document of Agent Spec out of a short form: an object of components by name,
// of which the one called flow is the main one. A flow has nodes by name, go with lines like "a > b > c"
// and "a.branch > b", and data with lines like "a.x > b.y"; its component_type is Flow unless it says another.
// A text that begins with @ refers to a component by its name; @m is a model.
func specDoc(t testing.TB, short string) string {
	t.Helper()
	var in map[string]map[string]any
	if err := yaml.Unmarshal([]byte(short), &in); err != nil {
		t.Fatal(err)
	}
	s := shortSpec{t: t, parts: map[string]any{"m": map[string]any{"component_type": "OpenAiConfig", "name": "m", "model_id": "m"}}}
	for name, c := range in {
		if name != "flow" {
			s.parts[name] = s.component(name, c)
		}
	}
	main := s.component("flow", in["flow"])
	if main["agentspec_version"] == nil {
		main["agentspec_version"] = "26.1.2"
	}
	main["$referenced_components"] = s.parts
	raw, err := json.MarshalIndent(main, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

type shortSpec struct {
	t     testing.TB
	parts map[string]any
	edges int
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
					s.t.Fatalf("the node %s is no object", n)
				}
				if node["component_type"] == "StartNode" {
					out["start_node"] = refTo(n)
				}
				s.parts[n] = s.component(n, node)
				list = append(list, refTo(n))
			}
			out[k] = list
		case "go":
			out["control_flow_connections"] = s.lines(v, s.control)
		case "data":
			out["data_flow_connections"] = s.lines(v, s.data)
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

func (s *shortSpec) lines(v any, edge func(from, to string) map[string]any) []any {
	out := []any{}
	list, _ := v.([]any)
	for _, line := range list {
		places := strings.Split(fmt.Sprint(line), " > ")
		for i := range places[1:] {
			s.edges++
			e := edge(places[i], places[i+1])
			e["name"] = fmt.Sprintf("edge%d", s.edges)
			out = append(out, e)
		}
	}
	return out
}

func (s *shortSpec) control(from, to string) map[string]any {
	from, branch, branched := strings.Cut(from, ".")
	to, _, _ = strings.Cut(to, ".")
	out := map[string]any{"component_type": "ControlFlowEdge", "from_node": refTo(from), "to_node": refTo(to)}
	if branched {
		out["from_branch"] = branch
	}
	return out
}

func (s *shortSpec) data(from, to string) map[string]any {
	node, output, _ := strings.Cut(from, ".")
	target, input, _ := strings.Cut(to, ".")
	return map[string]any{"component_type": "DataFlowEdge", "source_node": refTo(node), "source_output": output,
		"destination_node": refTo(target), "destination_input": input}
}
