package specadapter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/specadapter"
	"weft/specadapter/drawing"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// grid returns a flow of n nodes with three-way forks and joins, conditions, tools and
// deferred nodes.
func grid(n int) []byte {
	var nodes, edges []string
	edge := func(from, to, question string) {
		edges = append(edges, fmt.Sprintf(`{"id": "e%d", "source": %q, "target": %q, "condition_prompt": %q}`, len(edges), from, to, question))
	}
	last := "START"
	for i := 0; i+4 <= n; i += 4 {
		join := fmt.Sprintf("n%d", i+3)
		for j := range 4 {
			nodes = append(nodes, fmt.Sprintf(`{"id": "n%d", "name": "Node %d", "prompt": %q, "max_iterations": 7, "defer": %v,
      "tools": [{"name": "search", "data_connection_id": "c1"}, {"name": "search", "data_connection_id": "c2"}]}`,
				i+j, i+j, strings.Repeat("Do the next thing. ", 20), j == 3 && i%8 == 0))
			if j < 3 {
				edge(last, fmt.Sprintf("n%d", i+j), "")
				edge(fmt.Sprintf("n%d", i+j), join, map[bool]string{true: "Is it good?"}[j == 1])
			}
		}
		last = join
	}
	edge(last, "END", "Is it done?")
	edge(last, "n0", "Again?")
	return fmt.Appendf(nil, "{\n\t\"name\": \"Grid\",\n\t\"nodes\": [%s],\n\t\"edges\": [%s]\n}", strings.Join(nodes, ",\n"), strings.Join(edges, ",\n"))
}

func TestLoadLimits(t *testing.T) {
	r, diags := specadapter.Load("grid.json", grid(4), specadapter.Options{Bounds: plan.Bounds{Limits: plan.Limits{MaxSteps: 7}}, Policy: plan.Policy{ToolSeconds: 9}})
	if r == nil {
		t.Fatal(diags)
	}
	l, p := plan.DefaultLimits, plan.DefaultPolicy
	l.MaxSteps, p.ToolSeconds = 7, 9
	if r.Flow.Limits != l || r.Flow.Policy != p {
		t.Errorf("got %v and %v, want %v and %v", r.Flow.Limits, r.Flow.Policy, l, p)
	}
	if at := r.Source.At(plan.NodePath("n1")); at != "grid.json:5" {
		t.Errorf("n1 is at %q", at)
	}
	if r, diags := specadapter.Load("grid.json", grid(4), specadapter.Options{Bounds: plan.Bounds{Limits: plan.Limits{MaxSteps: -1}}}); r != nil || diags[0].Code != specadapter.CodePlan && !source.HasErrors(diags) {
		t.Errorf("a negative limit gave %v", diags)
	}
}

// TestConformanceGraphs checks that the graphs of the conformance cases load, and that L2 names the
// nodes that run twice because defer is missing.
func TestConformanceGraphs(t *testing.T) {
	raw, err := os.ReadFile("../../shared/cases/continuum_graph_cases.json")
	if err != nil {
		t.Skipf("conformance cases not found: %v", err)
	}
	var all struct {
		Cases []struct {
			Name  string
			Nodes []map[string]any
			Edges []map[string]any
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(all.Cases), err)
	}
	for _, c := range all.Cases {
		for _, n := range c.Nodes {
			n["name"], n["prompt"] = n["id"], "Do it."
		}
		for i, e := range c.Edges {
			e["id"] = fmt.Sprint("e", i)
		}
		text, err := json.Marshal(map[string]any{"name": c.Name, "nodes": c.Nodes, "edges": c.Edges})
		if err != nil {
			t.Fatal(err)
		}
		r, diags := specadapter.Load("case.json", text, specadapter.Options{})
		if r == nil {
			t.Errorf("%s: %v", c.Name, diags)
		}
		unequal := false
		for _, d := range diags {
			unequal = unequal || d.Code == "L2"
		}
		if strings.Contains(c.Name, "plain join") && unequal != strings.Contains(c.Name, "unequal") {
			t.Errorf("%s: L2 is %v", c.Name, unequal)
		}
	}
}

// TestPlanDecodes checks that a plan and its hash survive a JSON round trip.
func TestPlanDecodes(t *testing.T) {
	r, diags := specadapter.Load("grid.json", grid(40), specadapter.Options{})
	if r == nil {
		t.Fatal(diags)
	}
	raw, err := json.Marshal(r.Flow)
	if err != nil {
		t.Fatal(err)
	}
	f, err := plan.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := r.Flow.Hash()
	if b, _ := f.Hash(); a != b || a == "" {
		t.Errorf("hash %q became %q", a, b)
	}
}

func TestMermaid(t *testing.T) {
	f := &plan.Flow{
		Nodes: []plan.Node{
			{ID: "split", Name: "Split"}, {ID: "end", Name: "Not the end"}, {ID: "n1", Name: "n1"},
			{ID: "\"]; click x \n%%", Name: "<script>alert(1)</script> | \"]:::"},
			{ID: "join", Name: "Prüfung", Deferred: true, Exit: true}, {ID: "out", Name: strings.Repeat("x", 200), Exit: true},
		},
		Edges: []plan.Edge{
			{From: "START", To: "split"}, {From: "split", To: "end", Question: "Is it \"so\"|\n--> END?"}, {From: "end", To: "join"},
			{From: "\"]; click x \n%%", To: "END"},
		},
	}
	want := `flowchart TD
    START([START])
    split["Split"]
    id_2["Not the end<br/>end"]
    n1["n1"]
    id_4["#60;script#62;alert#40;1#41;#60;/script#62; #124; #34;#93;:::<br/>#34;#93;#59; click x #37;#37;"]
    join{{"Prüfung<br/>(deferred join, exit)"}}
    out[["` + strings.Repeat("x", 120) + `...<br/>(exit)"]]
    END([END])
    START --> split
    split -->|"Is it #34;so#34;#124; --#62; END?"| id_2
    id_2 --> join
    id_4 --> END
`
	if got := drawing.Mermaid(f, nil); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestMermaidReadsBack checks that a drawing reads back as the same edges: as execution_plan it causes no L5.
func TestMermaidReadsBack(t *testing.T) {
	r, diags := specadapter.Load("grid.json", grid(40), specadapter.Options{})
	if r == nil {
		t.Fatal(diags)
	}
	var doc map[string]any
	if err := json.Unmarshal(grid(40), &doc); err != nil {
		t.Fatal(err)
	}
	drawn := drawing.Mermaid(r.Flow, nil)
	drawn = strings.NewReplacer("    n3 -->", "    id_3 -->", " n3\n", " id_3\n", `n3{{"Node 3`, `id_3{{"Something<br/>n3`).Replace(drawn)
	if strings.Count(drawn, "id_3") < 7 {
		t.Fatalf("n3 is not drawn as expected:\n%s", drawn)
	}
	doc["execution_plan"] = drawn
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	_, diags = specadapter.Load("grid.json", raw, specadapter.Options{})
	for _, d := range diags {
		if d.Code == "L5" {
			t.Error(d)
		}
	}
}

// TestLargeDocuments checks that documents of the largest size load within bounds, however invalid they are.
func TestLargeDocuments(t *testing.T) {
	var ids, bad, cycle []string
	for i := range 10_000 {
		ids = append(ids, fmt.Sprintf(`{"id": "node-%d", "name": "x", "prompt": "x"}`, i))
		cycle = append(cycle, fmt.Sprintf(`{"id": "c%d", "source": "node-%d", "target": "node-%d"}`, i, i, (i+1)%10_000))
	}
	for i := range 90_000 {
		bad = append(bad, fmt.Sprintf(`{"id": "e%d", "source": "nod-%d", "target": "mode-%d"}`, i, i, i))
	}
	fan := make([]string, 0, 60_000)
	for i := range 9_999 {
		fan = append(fan, fmt.Sprintf(`{"id": "a%d", "source": "node-0", "target": "node-%d"}`, i, i+1),
			fmt.Sprintf(`{"id": "b%d", "source": "node-%d", "target": "node-%d"}`, i, i+1, (i*7)%9_999+1),
			fmt.Sprintf(`{"id": "d%d", "source": "node-%d", "target": "node-%d"}`, i, i+1, (i*13)%9_999+1))
	}
	tests := map[string]string{
		"cycle of all nodes":    strings.Join(cycle, ","),
		"100,000 invalid edges": strings.Join(append(cycle, bad...), ","),
		"dense graph":           `{"id": "s", "source": "START", "target": "node-0"},` + strings.Join(fan, ","),
	}
	for name, edges := range tests {
		t.Run(name, func(t *testing.T) {
			text := fmt.Appendf(nil, `{"name": "x", "execution_plan": %q, "nodes": [%s], "edges": [%s]}`,
				strings.Repeat("a[[ & b -- x --> c & d;", 20_000), strings.Join(ids, ","), edges)
			start := time.Now()
			_, diags := specadapter.Load("large.json", text, specadapter.Options{})
			if took := time.Since(start); took > 3*time.Minute {
				t.Errorf("took %v for %d diagnostics", took, len(diags))
			}
			if len(diags) == 0 || len(diags) > source.MaxDiagnostics {
				t.Errorf("%d diagnostics", len(diags))
			}
		})
	}
}

// BenchmarkLoad parses, checks and compiles 1,000 nodes; the target is 50 ms.
func BenchmarkLoad(b *testing.B) {
	text := grid(1000)
	for b.Loop() {
		if r, diags := specadapter.Load("grid.json", text, specadapter.Options{}); r == nil {
			b.Fatal(diags)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("f.json", grid(8), false)
	f.Add("f.yaml", []byte("nodes: [{id: a, name: A, prompt: p, tools: [{name: t, data_connection_id: c}]}]\nedges: [{id: e, source: START, target: a}]\n"), true)
	f.Add("f.json", []byte(`{"agents": [{"id": "a", "response_format": {"type": 2, "payload": {"output_schema": {"$ref": "#/x"}}}, "execution_plan": "graph TD\nA-->|x|B", "nodes": [], "edges": []}], "data_connections": [{"id": "c", "type": 2, "config": {"agent_id": "a"}}]}`), false)
	archives, _ := os.ReadDir("continuum/testdata")
	for _, a := range archives {
		raw, err := os.ReadFile("continuum/testdata/" + a.Name())
		if err != nil {
			f.Fatal(err)
		}
		if _, text, ok := strings.Cut(string(raw), "-- in.json --\n"); ok {
			text, _, _ = strings.Cut(text, "\n-- ")
			f.Add("f.json", []byte(text), true)
		}
	}
	f.Fuzz(func(t *testing.T, name string, data []byte, strict bool) {
		o := specadapter.Options{Dialect: "continuum"}
		if strict {
			o.Profile = "strict"
		}
		r, diags := specadapter.Load(name, data, o)
		if (r == nil) != source.HasErrors(diags) {
			t.Fatalf("result %v with diagnostics %v", r, diags)
		}
		for _, d := range diags {
			if d.Code == specadapter.CodePlan {
				t.Fatalf("the adapter does not report %v", d)
			}
		}
		if r == nil {
			return
		}
		raw, err := json.Marshal(r.Flow)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plan.Decode(raw); err != nil {
			t.Fatal(err)
		}
		if m := drawing.Mermaid(r.Flow, nil); strings.Count(m, "\n") != 3+len(r.Flow.Nodes)+len(r.Flow.Edges) {
			t.Fatalf("the drawing does not have one line per node and edge:\n%s", m)
		}
	})
}

// TestSchemaKeyHasNoEffect loads examples with and without the $schema key that editors use.
func TestSchemaKeyHasNoEffect(t *testing.T) {
	for _, pattern := range []string{"continuum/*.json", "koog/*.json", "agentspec/*.yaml", "blueprint/*/*/agent.json", "blueprint/*/*/*/agent.json"} {
		files, err := filepath.Glob("../tests/examples/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, want := specadapter.Load(file, text, specadapter.Options{})
			with := strings.Replace(string(text), "{", `{"$schema": "https://x.example/schema.json", `, 1)
			if filepath.Ext(file) == ".yaml" {
				with = string(text) + "\n$schema: https://x.example/schema.json\n"
			}
			_, got := specadapter.Load(file, []byte(with), specadapter.Options{})
			if len(got) != len(want) {
				t.Errorf("%s: with $schema %v, without %v", file, got, want)
			}
		}
	}
}
