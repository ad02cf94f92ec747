package drawing

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/workflows/plan"
)

// sample has everything a drawing can contain: a fork, a deferred join, conditions, self-loops and
// longer ones, parallel edges, an unreachable node, hostile strings.
func sample() *plan.Flow {
	return &plan.Flow{
		Name: "A <sample> & more",
		Nodes: []plan.Node{
			{ID: "split", Name: "Split the question"},
			{ID: "left", Name: "Look at the numbers, at every one of them, and say what they have in common, then say it again in other words"},
			{ID: "right", Name: "数据分析，数据分析，数据分析，数据分析，数据分析"},
			{ID: "join", Name: "Join", Deferred: true},
			{ID: "check", Name: "Check"},
			{ID: "out", Name: "Answer", Exit: true},
			{ID: `"><script>alert(1)</script>` + "\x00\u202e", Name: strings.Repeat("x", 300)},
		},
		Edges: []plan.Edge{
			{From: plan.Start, To: "split"}, {From: "split", To: "left", Question: "Are there numbers?"}, {From: "split", To: "right"},
			{From: "left", To: "join"}, {From: "right", To: "join"}, {From: "join", To: "check"},
			{From: "check", To: "out", Question: "Is it good enough to be sent?"},
			{From: "check", To: "out", Question: "Is there no time left? <b>&"},
			{From: "check", To: "split", Question: "Does it have to be done all over again, from the very first question on, with other numbers and other words than before, please, and more carefully?"},
			{From: "check", To: "check", Question: "Is it unclear?"}, {From: "split", To: "out", Question: "Is it trivial?"},
			{From: "out", To: plan.End},
		},
	}
}

// golden compares a drawing with a file; UPDATE=1 rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = "testdata/" + file
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// svg draws a flow and checks that the result is well-formed XML and deterministic.
func svg(t *testing.T, f *plan.Flow, states States) string {
	t.Helper()
	got, err := SVG(f, states)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(got))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, got)
		}
	}
	if again, _ := SVG(f, states); again != got {
		t.Error("the second drawing of a flow differs")
	}
	return got
}

func TestGoldenSVG(t *testing.T) {
	golden(t, "sample.svg", svg(t, sample(), nil))
}

func TestGoldenStates(t *testing.T) {
	states := States{"split": {Done, 2}, "left": {Running, 1}, "right": {Failed, 1}, "join": {Waiting, 0}, "nobody": {Done, 1}}
	golden(t, "states.svg", svg(t, sample(), states))
	golden(t, "states.mermaid", Mermaid(sample(), states))
	golden(t, "unstarted.mermaid", Mermaid(sample(), States{}))
}

func TestNoDrawing(t *testing.T) {
	tests := map[string]struct {
		flow *plan.Flow
		want string
	}{
		"edge to an unknown node": {flow: &plan.Flow{Edges: []plan.Edge{{ID: "e", From: plan.Start, To: "a"}}}, want: `the edge "e" from "START" to "a" has an unknown node`},
		"too large":               {flow: ladder(2000), want: "the flow is too large to draw: 2000 nodes and 3999 edges"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := SVG(tc.flow, nil); err == nil || err.Error() != tc.want {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
		})
	}
	svg(t, &plan.Flow{}, nil)
}

// ladder returns a chain of n nodes with an edge from each back to the first.
func ladder(n int) *plan.Flow {
	f := &plan.Flow{Edges: []plan.Edge{{From: plan.Start, To: "n0"}}}
	for i := range n {
		f.Nodes = append(f.Nodes, plan.Node{ID: fmt.Sprint("n", i), Name: "N"})
		if i > 0 {
			f.Edges = append(f.Edges, plan.Edge{From: fmt.Sprint("n", i-1), To: fmt.Sprint("n", i)}, plan.Edge{From: fmt.Sprint("n", i), To: "n0"})
		}
	}
	return f
}

// TestNoOverlap checks for random graphs that boxes do not overlap and are on the page.
func TestNoOverlap(t *testing.T) {
	for seed := range int64(300) {
		rng := rand.New(rand.NewSource(seed))
		f := &plan.Flow{}
		ids := []string{plan.Start, plan.End}
		for i := range 1 + rng.Intn(14) {
			id := fmt.Sprint("n", i)
			f.Nodes = append(f.Nodes, plan.Node{ID: id, Name: strings.Repeat("word ", 1+rng.Intn(20)), Deferred: rng.Intn(5) == 0, Exit: rng.Intn(5) == 0})
			ids = append(ids, id)
		}
		for range rng.Intn(30) {
			e := plan.Edge{From: ids[rng.Intn(len(ids))], To: ids[rng.Intn(len(ids))]}
			if rng.Intn(2) == 0 {
				e.Question = strings.Repeat("is it so ", 1+rng.Intn(9))
			}
			f.Edges = append(f.Edges, e)
		}
		svg(t, f, nil)
		g, err := newGraph(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, h := g.place()
		for i := range g.vertices {
			a := &g.vertices[i]
			if a.x-a.w/2 < 0 || a.x+a.w/2+a.side > w || a.y-a.h/2 < 0 || a.y+a.h/2 > h {
				t.Fatalf("seed %d: %v is not on the page of %v x %v", seed, a.lines, w, h)
			}
			for j := range i {
				b := &g.vertices[j]
				if a.w > 0 && b.w > 0 && a.x-a.w/2 < b.x+b.w/2 && b.x-b.w/2 < a.x+a.w/2 && a.y-a.h/2 < b.y+b.h/2 && b.y-b.h/2 < a.y+a.h/2 {
					t.Fatalf("seed %d: %v overlaps %v", seed, a.lines, b.lines)
				}
			}
		}
	}
}

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"blank":              {"  ", nil},
		"between words":      {"aaaa bbbb cccc", []string{"aaaa bbbb", "cccc"}},
		"long word":          {"aa bbbbbbbbbbbbb cc", []string{"aa", "bbbbbbbbbb", "bbb cc"}},
		"more than fits":     {"aaaaaaaaaa bbbbbbbbbb cccccccccc dddddddddd", []string{"aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc…"}},
		"invalid characters": {"a\x00\u202eb\nc\xff", []string{"ab c\uFFFD"}},
		"wide letters":       {strings.Repeat("Ａ", 20), []string{"ＡＡＡＡＡ", "ＡＡＡＡＡ", "ＡＡＡＡＡ…"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, wrap(tc.text, 75, 3)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDrawings draws arbitrary names and questions.
func FuzzDrawings(f *testing.F) {
	f.Add("a", "A", "why?", "done")
	f.Add("]]></svg>", "\"'&<>", "\x00\u2028\xff", "")
	f.Fuzz(func(t *testing.T, id, name, question, state string) {
		if id == plan.Start || id == plan.End {
			return
		}
		flow := &plan.Flow{Name: name, Nodes: []plan.Node{{ID: id, Name: name, Kind: plan.Kind(state)}},
			Edges: []plan.Edge{{From: plan.Start, To: id, Question: question}, {From: id, To: id, Question: question}}}
		states := States{id: {State(state), 1}}
		svg(t, flow, states)
		if lines := strings.Count(Mermaid(flow, nil), "\n"); lines != 6 {
			t.Errorf("the Mermaid drawing has %d lines, want 6", lines)
		}
	})
}
