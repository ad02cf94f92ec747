package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Join merges the views of arrivals, which are ordered by edge and lineage. Of each key the causally
// latest write is kept; of concurrent ones the later by step, edge and lineage, and the others are
// returned as conflicts. It takes time in proportion to the entries of all views.
func Join(arrivals []contract.ArrivalState) (contract.View, []contract.Conflict) {
	if len(arrivals) == 1 {
		return Clone(&arrivals[0].View), nil
	}
	j := joining{arrivals: arrivals}
	state, others := merge(&j, field[contract.StateEntry]{
		list: func(v *contract.View) []contract.StateEntry { return v.State },
		key:  func(e *contract.StateEntry) (string, contract.Stamp) { return e.Key, e.By },
		by:   byKey,
	})
	outputs, _ := merge(&j, field[contract.NodeOutput]{
		list: func(v *contract.View) []contract.NodeOutput { return v.Outputs },
		key:  func(o *contract.NodeOutput) (string, contract.Stamp) { return o.Node, o.By },
		by:   byNode,
	})
	var conflicts []contract.Conflict
	for i, dropped := range others {
		for _, d := range dropped {
			conflicts = append(conflicts, contract.Conflict{Key: d.Key, Kept: state[i].By, Dropped: d.By, Value: d.Value, SHA: d.SHA})
		}
	}
	return contract.View{State: state, Outputs: outputs, Versions: j.versions()}, conflicts
}

// joining is a join under way.
type joining struct {
	arrivals []contract.ArrivalState
	// knowing lists, by strand, the arrivals that know of it, those that know most first. It is nil
	// until it is first needed.
	knowing map[string][]knower
}

// knower is an arrival, by its index, and how much of a strand it knows.
type knower struct{ arrival, seq int }

// versions merges the version vectors: of each strand the most that one of them knows.
func (j *joining) versions() contract.VersionVector {
	var out contract.VersionVector
	at := map[string]int{}
	for i := range j.arrivals {
		for _, t := range j.arrivals[i].View.Versions {
			k, ok := at[t.Strand]
			if !ok {
				at[t.Strand] = len(out)
				out = append(out, t)
			} else if out[k].Seq < t.Seq {
				out[k].Seq = t.Seq
			}
		}
	}
	slices.SortFunc(out, func(a, b contract.StrandVersion) int { return cmp.Compare(a.Strand, b.Strand) })
	return out
}

// knowers returns the arrivals that know of a strand, those that know most first.
func (j *joining) knowers(strand string) []knower {
	if j.knowing == nil {
		j.knowing = map[string][]knower{}
		var strands []string
		for i := range j.arrivals {
			for _, t := range j.arrivals[i].View.Versions {
				if j.knowing[t.Strand] == nil {
					strands = append(strands, t.Strand)
				}
				j.knowing[t.Strand] = append(j.knowing[t.Strand], knower{i, t.Seq})
			}
		}
		for _, strand := range strands {
			slices.SortStableFunc(j.knowing[strand], func(a, b knower) int { return cmp.Compare(b.seq, a.seq) })
		}
	}
	return j.knowing[strand]
}

// field is a sorted list of a view, state or outputs.
type field[E any] struct {
	list func(*contract.View) []E
	key  func(*E) (name string, by contract.Stamp)
	by   func(e E, name string) int
}

// merge chooses one entry of each name, in the order of names. dropped are the concurrent ones of each.
func merge[E any](j *joining, f field[E]) (kept []E, dropped [][]E) {
	all := collect(j, f)
	kept, dropped = slices.Grow(kept, len(all)), slices.Grow(dropped, len(all))
	for _, variants := range all {
		e, others := latest(j, f, variants)
		kept, dropped = append(kept, e), append(dropped, others)
	}
	return kept, dropped
}

// collect returns the entries of each name that the arrivals have, each once, in the order of arrivals. They are sorted by name.
func collect[E any](j *joining, f field[E]) [][]E {
	var all [][]E
	at := map[string]int{}
	type write struct {
		name int
		by   contract.Stamp
	}
	seen := map[write]bool{}
	for i := range j.arrivals {
		list := f.list(&j.arrivals[i].View)
		for k := range list {
			name, by := f.key(&list[k])
			n, ok := at[name]
			if !ok {
				at[name] = len(all)
				all = append(all, []E{list[k]})
				continue
			}
			// Most branches have what they began with.
			if _, first := f.key(&all[n][0]); first == by || seen[write{n, by}] {
				continue
			}
			seen[write{n, by}] = true
			all[n] = append(all[n], list[k])
		}
	}
	slices.SortFunc(all, func(a, b []E) int {
		name, _ := f.key(&b[0])
		return f.by(a[0], name)
	})
	return all
}

// latest chooses among the variants of a name. One is superseded where an arrival knows it and has
// another. Arrivals that settled the same concurrent ones differently supersede each other's; then
// all are concurrent again.
func latest[E any](j *joining, f field[E], variants []E) (kept E, dropped []E) {
	if len(variants) == 1 {
		return variants[0], nil
	}
	left := make([]E, 0, len(variants))
	for i := range variants {
		if !superseded(j, f, &variants[i]) {
			left = append(left, variants[i])
		}
	}
	if len(left) == 0 {
		left = variants
	}
	best, most := 0, -1
	for i := range left {
		if _, by := f.key(&left[i]); by.Step >= most {
			best, most = i, by.Step
		}
	}
	kept = left[best]
	return kept, slices.Delete(left, best, best+1)
}

// superseded reports whether an arrival knows of one of several variants of a name and has another.
// It looks at no more arrivals than have the variant themselves, and one.
func superseded[E any](j *joining, f field[E], e *E) bool {
	name, by := f.key(e)
	if by.Strand == "" {
		return true // all know of it, and one has another
	}
	for _, k := range j.knowers(by.Strand) {
		if k.seq < by.Seq {
			return false
		}
		if o, ok := get(f.list(&j.arrivals[k.arrival].View), name, f.by); ok {
			if _, other := f.key(&o); other != by {
				return true
			}
		}
	}
	return false
}
