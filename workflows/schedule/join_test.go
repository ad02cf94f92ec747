package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
)

// write sets a key of a view in a strand at a step; the value identifies the write.
func write(v *contract.View, strand string, step int, key, value string) contract.Stamp {
	by := NextStamp(v, strand, value, step)
	SetEntry(v, contract.StateEntry{Key: key, Value: json.RawMessage(`"` + value + `"`), By: by})
	return by
}

// state lists a view's state as key=value.
func state(v *contract.View) string {
	var out []string
	for _, e := range v.State {
		out = append(out, e.Key+"="+strings.Trim(string(e.Value), `"`))
	}
	return strings.Join(out, " ")
}

// includes reports whether a view includes the write or output that a stamp identifies. A stamp without a
// strand precedes all live branches.
func includes(v *contract.View, s contract.Stamp) bool {
	known, ok := get(v.Versions, s.Strand, byStrand)
	return s.Strand == "" || ok && known.Seq >= s.Seq
}

func arrivals(views ...*contract.View) []contract.ArrivalState {
	var out []contract.ArrivalState
	for _, v := range views {
		out = append(out, contract.ArrivalState{View: *v})
	}
	return out
}

// child returns a view that begins as a copy of another.
func child(v *contract.View) *contract.View {
	c := Clone(v)
	return &c
}

func TestJoin(t *testing.T) {
	tests := map[string]struct {
		views   func() []*contract.View
		want    string
		dropped []string
	}{
		"keys of all views, sorted": {func() []*contract.View {
			a, b := &contract.View{}, &contract.View{}
			write(a, "a", 1, "z", "1")
			write(b, "b", 1, "y", "2")
			write(b, "b", 1, "a", "3")
			return []*contract.View{a, b}
		}, "a=3 y=2 z=1", nil},
		"write known to both": {func() []*contract.View {
			root := &contract.View{}
			write(root, "r", 1, "k", "root")
			return []*contract.View{child(root), child(root)}
		}, "k=root", nil},
		"causally latest write of an earlier step": {func() []*contract.View {
			root := &contract.View{}
			write(root, "r", 9, "k", "root")
			later := child(root)
			write(later, "l", 2, "k", "later")
			return []*contract.View{later, root}
		}, "k=later", nil},
		"causally latest write, any position": {func() []*contract.View {
			root := &contract.View{}
			write(root, "r", 1, "k", "root")
			mid := child(root)
			write(mid, "m", 2, "k", "mid")
			last := child(mid)
			write(last, "l", 3, "k", "last")
			return []*contract.View{root, last, mid}
		}, "k=last", nil},
		"concurrent writes of two steps": {func() []*contract.View {
			a, b := &contract.View{}, &contract.View{}
			write(a, "a", 5, "k", "five")
			write(b, "b", 4, "k", "four")
			return []*contract.View{a, b}
		}, "k=five", []string{"k=four, kept five"}},
		"concurrent writes of one step": {func() []*contract.View {
			a, b, c := &contract.View{}, &contract.View{}, &contract.View{}
			write(a, "a", 4, "k", "first")
			write(b, "b", 4, "k", "second")
			write(c, "c", 3, "k", "third")
			return []*contract.View{a, b, c}
		}, "k=second", []string{"k=first, kept second", "k=third, kept second"}},
		"several writes in one strand": {func() []*contract.View {
			a, b := &contract.View{}, &contract.View{}
			write(a, "a", 1, "k", "1")
			write(a, "a", 1, "k", "2")
			write(b, "b", 1, "j", "3")
			return []*contract.View{a, b}
		}, "j=3 k=2", nil},
		"resolved conflict": {func() []*contract.View {
			a, b := &contract.View{}, &contract.View{}
			write(a, "a", 1, "k", "a")
			write(b, "b", 1, "k", "b")
			settled, _ := Join(arrivals(a, b))
			return []*contract.View{&settled, a}
		}, "k=b", nil},
		"conflict with two resolutions": {func() []*contract.View {
			a, b := &contract.View{}, &contract.View{}
			write(a, "a", 1, "k", "a")
			write(b, "b", 1, "k", "b")
			one, _ := Join(arrivals(a, b))
			other, _ := Join(arrivals(b, a))
			return []*contract.View{&one, &other}
		}, "k=a", []string{"k=b, kept a"}},
		"initial value without a strand": {func() []*contract.View {
			root := &contract.View{}
			SetEntry(root, contract.StateEntry{Key: "k", Value: json.RawMessage(`"start"`), By: contract.Stamp{Exec: "START"}})
			a, b := child(root), child(root)
			write(b, "b", 1, "k", "b")
			return []*contract.View{b, a}
		}, "k=b", nil},
		"key unknown to one view": {func() []*contract.View {
			a, b := &contract.View{}, &contract.View{}
			write(a, "a", 1, "k", "a")
			return []*contract.View{a, b}
		}, "k=a", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v, conflicts := Join(arrivals(tc.views()...))
			if got := state(&v); got != tc.want {
				t.Errorf("state is %q, want %q", got, tc.want)
			}
			var dropped []string
			for _, c := range conflicts {
				dropped = append(dropped, fmt.Sprintf("%s=%s, kept %s", c.Key, strings.Trim(string(c.Value), `"`), c.Kept.Exec))
			}
			if diff := cmp.Diff(tc.dropped, dropped); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJoinOutputs(t *testing.T) {
	root := &contract.View{}
	SetOutput(root, contract.NodeOutput{Node: "n", Name: "old", By: NextStamp(root, "r", "n#1", 1)})
	a, b := child(root), child(root)
	SetOutput(a, contract.NodeOutput{Node: "n", Name: "new", By: NextStamp(a, "a", "n#2", 2)})
	SetOutput(b, contract.NodeOutput{Node: "b", Name: "b", By: NextStamp(b, "b", "b#2", 2)})
	v, conflicts := Join(arrivals(a, b))
	if len(v.Outputs) != 2 || v.Outputs[0].Name != "b" || v.Outputs[1].Name != "new" || conflicts != nil {
		t.Errorf("outputs are %+v, conflicts %v", v.Outputs, conflicts)
	}
}

func TestViewsAreIndependent(t *testing.T) {
	root := &contract.View{}
	write(root, "r", 1, "k", "root")
	one, _ := Join(arrivals(root))
	two := child(root)
	write(&one, "r", 2, "k", "one")
	write(two, "r", 2, "j", "two")
	ForgetVersions(&one)
	if state(root) != "k=root" || state(&one) != "k=one" || state(two) != "j=two k=root" {
		t.Errorf("root %q, one %q, two %q", state(root), state(&one), state(two))
	}
	if root.Versions[0].Seq != 1 || root.State[0].By.Strand != "r" {
		t.Errorf("version vector or stamp of the root has changed: %+v", root)
	}
}

// simulation is a random history of forks, joins and writes, with the expected causal knowledge of each branch.
type simulation struct {
	rng    *rand.Rand
	live   []*branch
	past   map[string]map[string]bool // by write: all preceding writes
	key    map[string]string
	step   map[string]int
	n      int
	strand int
}

// branch is a live branch.
type branch struct {
	view   contract.View
	knows  map[string]bool
	step   int
	strand string
}

func copySet(in ...map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, m := range in {
		for k := range m {
			out[k] = true
		}
	}
	return out
}

func (w *simulation) newStrand() string { w.strand++; return fmt.Sprintf("s%d", w.strand) }

func (w *simulation) write(b *branch) {
	w.n++
	name, key := fmt.Sprintf("w%d", w.n), string(rune('a'+w.rng.Intn(3)))
	w.past[name], w.key[name], w.step[name] = copySet(b.knows), key, b.step
	write(&b.view, b.strand, b.step, key, name)
	b.knows[name] = true
}

func (w *simulation) fork(b *branch) {
	for range 1 + w.rng.Intn(2) {
		w.live = append(w.live, &branch{view: Clone(&b.view), knows: copySet(b.knows), step: b.step + 1, strand: w.newStrand()})
	}
	b.step++
	if w.rng.Intn(2) == 0 {
		b.strand = w.newStrand()
	}
}

// join merges some branches into one and returns the merged branches.
func (w *simulation) join() []*branch {
	w.rng.Shuffle(len(w.live), func(i, j int) { w.live[i], w.live[j] = w.live[j], w.live[i] })
	n := 2 + w.rng.Intn(len(w.live)-1)
	in := w.live[:n]
	var list []contract.ArrivalState
	b := &branch{knows: map[string]bool{}, strand: w.newStrand()}
	for _, x := range in {
		list = append(list, contract.ArrivalState{View: x.view})
		b.knows, b.step = copySet(b.knows, x.knows), max(b.step, x.step+1)
	}
	b.view, _ = Join(list)
	w.live = append([]*branch{b}, w.live[n:]...)
	return in
}

// leaveAndReturn continues a branch in a child, as a chain does, and checks that the changes of the child yield its view when
// applied to the parent.
func (w *simulation) leaveAndReturn(t *testing.T, b *branch) {
	before := Clone(&b.view)
	b.strand = w.newStrand()
	for range 1 + w.rng.Intn(3) {
		w.write(b)
		b.step++
	}
	delta := Since(&b.view, b.strand)
	Apply(&before, &delta)
	if diff := cmp.Diff(b.view, before); diff != "" {
		t.Fatalf("Since and Apply (-child +parent):\n%s", diff)
	}
}

// check compares each view with the expected knowledge of its branch.
func (w *simulation) check(t *testing.T) {
	t.Helper()
	for _, b := range w.live {
		for _, other := range w.live {
			for _, e := range other.view.State {
				if includes(&b.view, e.By) != (b.knows[e.By.Exec] || e.By.Strand == "") {
					t.Fatalf("view with the version vector %v: includes(%+v) = %v", b.view.Versions, e.By, includes(&b.view, e.By))
				}
			}
		}
		for name := range b.knows {
			if _, ok := Entry(&b.view, w.key[name]); !ok {
				t.Fatalf("key of %s is lost", name)
			}
		}
		for _, e := range b.view.State {
			kept := e.By.Exec
			for name := range b.knows {
				if w.key[name] == e.Key && w.past[name][kept] {
					t.Fatalf("key %s has the value of %s, but %s is later", e.Key, kept, name)
				}
			}
		}
	}
}

// checkOrder checks that the order of arrivals affects only which of several concurrent
// writes of one step is kept.
func (w *simulation) checkOrder(t *testing.T, in []*branch) {
	t.Helper()
	join := func(order []int) (kept, all map[string]string) {
		var list []contract.ArrivalState
		for _, k := range order {
			list = append(list, contract.ArrivalState{View: in[k].view})
		}
		v, conflicts := Join(list)
		kept, all = map[string]string{}, map[string]string{}
		writes := map[string][]string{}
		for _, e := range v.State {
			kept[e.Key] = e.By.Exec
			writes[e.Key] = append(writes[e.Key], e.By.Exec)
		}
		for _, c := range conflicts {
			writes[c.Key] = append(writes[c.Key], c.Dropped.Exec)
			if c.Dropped.Step > c.Kept.Step {
				t.Fatalf("write of an earlier step is kept: %+v", c)
			}
		}
		for key, list := range writes {
			slices.Sort(list)
			all[key] = strings.Join(list, " ")
		}
		return kept, all
	}
	order := make([]int, len(in))
	for i := range order {
		order[i] = i
	}
	kept, all := join(order)
	for range 4 {
		w.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		kept2, all2 := join(order)
		if diff := cmp.Diff(all, all2); diff != "" {
			t.Fatalf("another order of arrivals, other concurrent writes:\n%s", diff)
		}
		for key := range kept {
			if kept[key] != kept2[key] && w.step[kept[key]] != w.step[kept2[key]] {
				t.Fatalf("another order of arrivals keeps %s instead of %s", kept2[key], kept[key])
			}
		}
	}
}

func TestViewsAreCausal(t *testing.T) {
	for seed := range int64(300) {
		w := &simulation{rng: rand.New(rand.NewSource(seed)), past: map[string]map[string]bool{}, key: map[string]string{}, step: map[string]int{}}
		w.live = []*branch{{knows: map[string]bool{}, step: 1, strand: w.newStrand()}}
		for range 60 {
			b := w.live[w.rng.Intn(len(w.live))]
			switch op := w.rng.Intn(8); {
			case op < 3:
				w.write(b)
			case op == 3 && len(w.live) < 6:
				w.fork(b)
			case op == 4:
				w.leaveAndReturn(t, b)
			case op > 5 && len(w.live) > 1:
				in := slices.Clone(w.join())
				w.checkOrder(t, in)
			case len(w.live) == 1:
				ForgetVersions(&b.view)
				b.strand = w.newStrand()
			}
			w.check(t)
		}
	}
}
