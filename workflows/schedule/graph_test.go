package schedule

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
)

// names lists the nodes of a set.
func (s NodeSet) names(f *plan.Flow) []string {
	var out []string
	for i := range f.Nodes {
		if s.Has(i) {
			out = append(out, f.Nodes[i].ID)
		}
	}
	return out
}

func TestWalks(t *testing.T) {
	f := scheduletest.Sketch("START>a a>b b>c c>a a>j j>d d>END c>d", "j")
	g := NewGraph(f)
	tests := map[string]struct {
		from, to string
		length   int
		want     bool
	}{
		"one edge":                                  {"a", "b", 1, true},
		"two edges":                                 {"a", "c", 2, true},
		"not in another number of edges":            {"a", "c", 1, false},
		"around the loop":                           {"a", "a", 3, true},
		"twice around the loop":                     {"a", "b", 7, true},
		"not in the middle of the loop":             {"a", "a", 4, false},
		"no walk has no edges":                      {"a", "a", 0, false},
		"nor fewer":                                 {"a", "a", -1, false},
		"never through a deferred node":             {"a", "d", 2, false},
		"around it":                                 {"a", "d", 3, true},
		"never to a deferred node":                  {"a", "j", 1, false},
		"from a deferred node itself":               {"j", "d", 1, true},
		"not back":                                  {"d", "a", 1, false},
		"a walk longer than any that is not a loop": {"d", "d", 100, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := g.hasWalk(g.index[tc.from], g.index[tc.to], tc.length); got != tc.want {
				t.Errorf("walks(%s, %s, %d) = %v", tc.from, tc.to, tc.length, got)
			}
		})
	}
	if got := g.Reachable(g.index["d"]).names(f); got != nil {
		t.Errorf("from d: %v", got)
	}
	if got := fmt.Sprint(g.Reachable(g.index["j"]).names(f)); got != "[d]" {
		t.Errorf("from j: %v", got)
	}
}

// TestReachability compares with walks along single edges.
func TestReachability(t *testing.T) {
	for seed := range int64(150) {
		f := random(rand.New(rand.NewSource(seed)))
		g := NewGraph(f)
		for from := range f.Nodes {
			at := map[int]bool{from: true}
			reached := NewNodeSet(len(f.Nodes))
			for length := 1; length <= 2*len(f.Nodes); length++ {
				next := map[int]bool{}
				for n := range at {
					if length > 1 && f.Nodes[n].Deferred {
						continue
					}
					for _, e := range f.Edges {
						if t, ok := g.index[e.To]; ok && e.From == f.Nodes[n].ID {
							next[t] = true
						}
					}
				}
				for to := range f.Nodes {
					if want := next[to] && !f.Nodes[to].Deferred; g.hasWalk(from, to, length) != want {
						t.Fatalf("graph %d: walks(%d, %d, %d) is not %v\n%s", seed, from, to, length, want, describe(f))
					}
				}
				at = next
			}
			reach(g, from, reached)
			if got := g.Reachable(from); !slices.Equal(got, reached) {
				t.Fatalf("graph %d: from %d: %v, want %v\n%s", seed, from, got.names(f), reached.names(f), describe(f))
			}
			if g.entered(from) && g.reachableForward(from).Has(from) {
				t.Fatalf("graph %d: without back edges, %d is on a cycle\n%s", seed, from, describe(f))
			}
		}
	}
}

// entered reports whether START can reach a node.
func (g *Graph) entered(node int) bool {
	return slices.ContainsFunc(g.Starts, func(e int) bool {
		t, ok := g.Target(e)
		return ok && (t == node || g.Reachable(t).Has(node))
	})
}

func TestBackEdges(t *testing.T) {
	tests := map[string]struct{ edges, want string }{
		"none in a diamond":             {"START>a a>b a>c b>d c>d d>END", ""},
		"a loop":                        {"START>a a>b b>a b>END", "b>a"},
		"a node that leads to itself":   {"START>a a>a a>END", "a>a"},
		"a loop within a loop":          {"START>a a>b b>c c>b c>a c>END", "c>b c>a"},
		"two entries: the first edge's": {"START>a START>b a>b b>a", "b>a"},
		"what START does not reach":     {"START>a b>c c>b", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := scheduletest.Sketch(tc.edges)
			back := NewGraph(f).backEdges()
			var got []string
			for e := range f.Edges {
				if back.Has(e) {
					got = append(got, f.Edges[e].From+">"+f.Edges[e].To)
				}
			}
			if got := strings.Join(got, " "); got != tc.want {
				t.Errorf("the back edges are %q, want %q", got, tc.want)
			}
		})
	}
}

func reach(g *Graph, n int, seen NodeSet) {
	for _, e := range g.out[n] {
		if t, ok := g.Target(e); ok && !seen.Has(t) {
			seen.Add(t)
			reach(g, t, seen)
		}
	}
}

func TestNodeSet(t *testing.T) {
	a, b := NewNodeSet(130), NewNodeSet(130)
	a.Add(0)
	a.Add(129)
	if !a.Has(0) || !a.Has(129) || a.Has(64) || b.Has(0) {
		t.Errorf("%v, %v", a, b)
	}
	var got []int
	a.Each(func(n int) { got = append(got, n) })
	if !slices.Equal(got, []int{0, 129}) {
		t.Errorf("the set has %v", got)
	}
	b = slices.Clone(a)
	b.Add(64)
	if !b.Has(0) || !b.Has(129) || !b.Has(64) || a.Has(64) {
		t.Errorf("%v, %v", a, b)
	}
}
