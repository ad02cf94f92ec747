package workflows

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// A view is what an execution knows: the state as its causal ancestors wrote it, and the
// latest output of each node among them. Its clock says how much of each strand it knows,
// so that a join can tell a later write from a concurrent one.

// known says whether a view knows what a stamp marks. A stamp without a strand was made
// before everything that lives.
func known(v *contract.View, s contract.Stamp) bool {
	if s.Strand == "" {
		return true
	}
	i, ok := slices.BinarySearchFunc(v.Clock, s.Strand, func(t contract.Tick, k string) int { return cmp.Compare(t.Strand, k) })
	return ok && v.Clock[i].Seq >= s.Seq
}

// tick makes the next stamp of a strand and lets the view know it.
func tick(v *contract.View, strand, exec string, step int) contract.Stamp {
	i, ok := slices.BinarySearchFunc(v.Clock, strand, func(t contract.Tick, k string) int { return cmp.Compare(t.Strand, k) })
	if !ok {
		v.Clock = slices.Insert(v.Clock, i, contract.Tick{Strand: strand})
	}
	v.Clock[i].Seq++
	return contract.Stamp{Strand: strand, Seq: v.Clock[i].Seq, Step: step, Exec: exec}
}

// get returns a key's entry.
func get(v *contract.View, key string) (contract.StateEntry, bool) {
	i, ok := findKey(v.State, key)
	if !ok {
		return contract.StateEntry{}, false
	}
	return v.State[i], true
}

// set writes a key.
func set(v *contract.View, e contract.StateEntry) {
	if i, ok := findKey(v.State, e.Key); ok {
		v.State[i] = e
	} else {
		v.State = slices.Insert(v.State, i, e)
	}
}

func findKey(s []contract.StateEntry, key string) (int, bool) {
	return slices.BinarySearchFunc(s, key, func(e contract.StateEntry, k string) int { return cmp.Compare(e.Key, k) })
}

// say records a node's output.
func say(v *contract.View, o contract.NodeOutput) {
	i, ok := slices.BinarySearchFunc(v.Outputs, o.Node, func(o contract.NodeOutput, k string) int { return cmp.Compare(o.Node, k) })
	if ok {
		v.Outputs[i] = o
	} else {
		v.Outputs = slices.Insert(v.Outputs, i, o)
	}
}

// stateBytes is the size that the state's bound counts.
func stateBytes(v *contract.View) int {
	n := 0
	for i := range v.State {
		n += entryBytes(&v.State[i])
	}
	return n
}

func entryBytes(e *contract.StateEntry) int { return len(e.Key) + len(e.Value) + e.Size }

// settle forgets the clock of a view from which everything that lives later comes.
func settle(v *contract.View) {
	v.Clock = nil
	for i := range v.State {
		v.State[i].By.Strand = ""
	}
	for i := range v.Outputs {
		v.Outputs[i].By.Strand = ""
	}
}

// cloneView copies a view, so that a branch can write to its own. Values are shared: they
// are never changed in place.
func cloneView(v *contract.View) contract.View {
	return contract.View{State: slices.Clone(v.State), Outputs: slices.Clone(v.Outputs), Clock: slices.Clone(v.Clock)}
}

// since is what of a view was made by one strand.
func since(v *contract.View, strand string) contract.View {
	var out contract.View
	for _, e := range v.State {
		if e.By.Strand == strand {
			out.State = append(out.State, e)
		}
	}
	for _, o := range v.Outputs {
		if o.By.Strand == strand {
			out.Outputs = append(out.Outputs, o)
		}
	}
	for _, t := range v.Clock {
		if t.Strand == strand {
			out.Clock = append(out.Clock, t)
		}
	}
	return out
}

// apply lays what a chain came back with over the view that it began with.
func apply(v *contract.View, delta *contract.View) {
	for _, e := range delta.State {
		set(v, e)
	}
	for _, o := range delta.Outputs {
		say(v, o)
	}
	for _, t := range delta.Clock {
		i, ok := slices.BinarySearchFunc(v.Clock, t.Strand, func(t contract.Tick, k string) int { return cmp.Compare(t.Strand, k) })
		if ok {
			v.Clock[i] = t
		} else {
			v.Clock = slices.Insert(v.Clock, i, t)
		}
	}
}

// join merges the views of arrivals, which are ordered by edge and lineage. Of each key
// the causally latest write is kept; of concurrent ones the later by step, edge and
// lineage, and the others are returned.
func join(in []arrival) (contract.View, []contract.Conflict) {
	if len(in) == 1 {
		return cloneView(&in[0].view), nil
	}
	var out contract.View
	var conflicts []contract.Conflict
	for _, key := range keys(in, func(v *contract.View) []contract.StateEntry { return v.State }, func(e contract.StateEntry) string { return e.Key }) {
		kept, dropped := latest(in, func(v *contract.View) (contract.StateEntry, bool) {
			i, ok := findKey(v.State, key)
			if !ok {
				return contract.StateEntry{}, false
			}
			return v.State[i], true
		}, func(e contract.StateEntry) contract.Stamp { return e.By })
		out.State = append(out.State, kept)
		for _, d := range dropped {
			conflicts = append(conflicts, contract.Conflict{Key: key, Kept: kept.By, Dropped: d.By, Value: d.Value, SHA: d.SHA})
		}
	}
	for _, node := range keys(in, func(v *contract.View) []contract.NodeOutput { return v.Outputs }, func(o contract.NodeOutput) string { return o.Node }) {
		kept, _ := latest(in, func(v *contract.View) (contract.NodeOutput, bool) {
			i, ok := slices.BinarySearchFunc(v.Outputs, node, func(o contract.NodeOutput, k string) int { return cmp.Compare(o.Node, k) })
			if !ok {
				return contract.NodeOutput{}, false
			}
			return v.Outputs[i], true
		}, func(o contract.NodeOutput) contract.Stamp { return o.By })
		out.Outputs = append(out.Outputs, kept)
	}
	for _, a := range in {
		for _, t := range a.view.Clock {
			i, ok := slices.BinarySearchFunc(out.Clock, t.Strand, func(t contract.Tick, k string) int { return cmp.Compare(t.Strand, k) })
			if !ok {
				out.Clock = slices.Insert(out.Clock, i, t)
			} else {
				out.Clock[i].Seq = max(out.Clock[i].Seq, t.Seq)
			}
		}
	}
	return out, conflicts
}

// keys lists the names that any of the views has, sorted.
func keys[E any](in []arrival, list func(*contract.View) []E, name func(E) string) []string {
	var all []string
	for i := range in {
		for _, e := range list(&in[i].view) {
			all = append(all, name(e))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// latest chooses among the views' entries of one name. An entry is superseded when a view
// knows it and has another. Views that settled the same concurrent entries differently
// supersede each other's; then all are concurrent again.
func latest[E any](in []arrival, entry func(*contract.View) (E, bool), by func(E) contract.Stamp) (kept E, dropped []E) {
	var all, left []E
	for i := range in {
		e, ok := entry(&in[i].view)
		if !ok || slices.ContainsFunc(all, func(o E) bool { return by(o) == by(e) }) {
			continue
		}
		all = append(all, e)
		superseded := slices.ContainsFunc(in, func(a arrival) bool {
			o, ok := entry(&a.view)
			return ok && by(o) != by(e) && known(&a.view, by(e))
		})
		if !superseded {
			left = append(left, e)
		}
	}
	if len(left) == 0 {
		left = all
	}
	best := 0
	for i := range left {
		if by(left[i]).Step >= by(left[best]).Step {
			best = i
		}
	}
	kept = left[best]
	return kept, slices.Delete(left, best, best+1)
}
