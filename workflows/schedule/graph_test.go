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

func TestHasWalk(t *testing.T) {
	f := scheduletest.Sketch("START>a a>b b>c c>a a>j j>d d>END c>d", "j")
	g := NewGraph(f)
	tests := map[string]struct {
		from, to string
		length   int
		want     bool
	}{
		"one edge":                             {"a", "b", 1, true},
		"two edges":                            {"a", "c", 2, true},
		"two edges, length one":                {"a", "c", 1, false},
		"one cycle":                            {"a", "a", 3, true},
		"two cycles and one edge":              {"a", "b", 7, true},
		"one cycle and one edge":               {"a", "a", 4, false},
		"length zero":                          {"a", "a", 0, false},
		"negative length":                      {"a", "a", -1, false},
		"through a deferred node":              {"a", "d", 2, false},
		"around a deferred node":               {"a", "d", 3, true},
		"to a deferred node":                   {"a", "j", 1, false},
		"from a deferred node":                 {"j", "d", 1, true},
		"no edge back":                         {"d", "a", 1, false},
		"longer than any walk without a cycle": {"d", "d", 100, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := g.hasWalk(g.index[tc.from], g.index[tc.to], tc.length); got != tc.want {
				t.Errorf("hasWalk(%s, %s, %d) = %v", tc.from, tc.to, tc.length, got)
			}
		})
	}
	if got := g.Reachable(g.index["d"]).names(f); got != nil {
		t.Errorf("nodes reachable from d: %v, want none", got)
	}
	if got := fmt.Sprint(g.Reachable(g.index["j"]).names(f)); got != "[d]" {
		t.Errorf("nodes reachable from j: %v, want [d]", got)
	}
}

// TestReachability compares hasWalk and Reachable with a search along single edges in random graphs.
func TestReachability(t *testing.T) {
	for seed := range int64(150) {
		f := random(rand.New(rand.NewSource(seed)))
		g := NewGraph(f)
		for from := range f.Nodes {
			current := map[int]bool{from: true}
			reached := NewNodeSet(len(f.Nodes))
			for length := 1; length <= 2*len(f.Nodes); length++ {
				next := map[int]bool{}
				for n := range current {
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
						t.Fatalf("graph %d: hasWalk(%d, %d, %d) is not %v\n%s", seed, from, to, length, want, describe(f))
					}
				}
				current = next
			}
			search(g, from, reached)
			if got := g.Reachable(from); !slices.Equal(got, reached) {
				t.Fatalf("graph %d: Reachable(%d) = %v, want %v\n%s", seed, from, got.names(f), reached.names(f), describe(f))
			}
			if g.entered(from) && g.reachableForward(from).Has(from) {
				t.Fatalf("graph %d: %d is on a cycle without back edges\n%s", seed, from, describe(f))
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
		"diamond":                {"START>a a>b a>c b>d c>d d>END", ""},
		"cycle":                  {"START>a a>b b>a b>END", "b>a"},
		"self-loop":              {"START>a a>a a>END", "a>a"},
		"nested cycles":          {"START>a a>b b>c c>b c>a c>END", "c>b c>a"},
		"cycle with two entries": {"START>a START>b a>b b>a", "b>a"},
		"unreachable cycle":      {"START>a b>c c>b", ""},
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
				t.Errorf("back edges are %q, want %q", got, tc.want)
			}
		})
	}
}

func search(g *Graph, n int, seen NodeSet) {
	for _, e := range g.out[n] {
		if t, ok := g.Target(e); ok && !seen.Has(t) {
			seen.Add(t)
			search(g, t, seen)
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
		t.Errorf("Each visits %v", got)
	}
	b = slices.Clone(a)
	b.Add(64)
	if !b.Has(0) || !b.Has(129) || !b.Has(64) || a.Has(64) {
		t.Errorf("%v, %v", a, b)
	}
}
