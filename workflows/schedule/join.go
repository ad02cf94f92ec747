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
	out := contract.View{Versions: j.versions()}
	var conflicts []contract.Conflict
	state := field[contract.StateEntry]{
		list: func(v *contract.View) []contract.StateEntry { return v.State },
		key:  func(e *contract.StateEntry) (string, contract.Stamp) { return e.Key, e.By },
		by:   byKey,
	}
	out.State = merge(&j, state, func(kept *contract.StateEntry, dropped []contract.StateEntry) {
		for _, d := range dropped {
			conflicts = append(conflicts, contract.Conflict{Key: d.Key, Kept: kept.By, Dropped: d.By, Value: d.Value, SHA: d.SHA})
		}
	})
	outputs := field[contract.NodeOutput]{
		list: func(v *contract.View) []contract.NodeOutput { return v.Outputs },
		key:  func(o *contract.NodeOutput) (string, contract.Stamp) { return o.Node, o.By },
		by:   byNode,
	}
	out.Outputs = merge(&j, outputs, func(*contract.NodeOutput, []contract.NodeOutput) {})
	return out, conflicts
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

// variants are the entries of one name that the arrivals have, each once, in the order of arrivals.
type variants[E any] struct {
	name    string
	entries []E
}

// merge chooses one entry of each name, and calls choose with it and the concurrent ones that are
// dropped, in the order of names.
func merge[E any](j *joining, f field[E], choose func(kept *E, dropped []E)) []E {
	all := collect(j, f)
	if len(all) == 0 {
		return nil
	}
	out := make([]E, 0, len(all))
	for _, v := range all {
		kept, dropped := latest(j, f, v)
		choose(&kept, dropped)
		out = append(out, kept)
	}
	return out
}

// collect returns the variants of each name, sorted by name.
func collect[E any](j *joining, f field[E]) []variants[E] {
	var all []variants[E]
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
				all = append(all, variants[E]{name, []E{list[k]}})
				continue
			}
			// Most branches have what they began with.
			if _, first := f.key(&all[n].entries[0]); first == by || seen[write{n, by}] {
				continue
			}
			seen[write{n, by}] = true
			all[n].entries = append(all[n].entries, list[k])
		}
	}
	slices.SortFunc(all, func(a, b variants[E]) int { return cmp.Compare(a.name, b.name) })
	return all
}

// latest chooses among the variants of a name. One is superseded where an arrival knows it and has
// another. Arrivals that settled the same concurrent ones differently supersede each other's; then
// all are concurrent again.
func latest[E any](j *joining, f field[E], v variants[E]) (kept E, dropped []E) {
	if len(v.entries) == 1 {
		return v.entries[0], nil
	}
	left := make([]E, 0, len(v.entries))
	for i := range v.entries {
		if !superseded(j, f, v.name, &v.entries[i]) {
			left = append(left, v.entries[i])
		}
	}
	if len(left) == 0 {
		left = v.entries
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
func superseded[E any](j *joining, f field[E], name string, e *E) bool {
	_, by := f.key(e)
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
