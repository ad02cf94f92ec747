package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Join merges the views of arrivals, which must be ordered by edge and lineage. For each key it keeps the
// causally latest write; of concurrent writes it keeps the latest by step, edge and lineage, and returns
// the others as conflicts. Its time is proportional to the number of entries of all views.
func Join(arrivals []contract.ArrivalState) (contract.View, []contract.Conflict) {
	if len(arrivals) == 1 {
		return Clone(&arrivals[0].View), nil
	}
	j := joiner{arrivals: arrivals}
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

// joiner holds the state of a join.
type joiner struct {
	arrivals []contract.ArrivalState
	// strands lists, by strand, the arrivals whose views include writes of it, the highest sequence
	// number first. It is nil until first needed.
	strands map[string][]arrivalSeq
}

// arrivalSeq is the index of an arrival and the sequence number up to which it includes a strand.
type arrivalSeq struct{ arrival, seq int }

// versions merges the version vectors: the highest sequence number of each strand.
func (j *joiner) versions() contract.VersionVector {
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

// arrivalsWith returns the arrivals that include writes of a strand, the highest sequence number first.
func (j *joiner) arrivalsWith(strand string) []arrivalSeq {
	if j.strands == nil {
		j.strands = map[string][]arrivalSeq{}
		var strands []string
		for i := range j.arrivals {
			for _, t := range j.arrivals[i].View.Versions {
				if j.strands[t.Strand] == nil {
					strands = append(strands, t.Strand)
				}
				j.strands[t.Strand] = append(j.strands[t.Strand], arrivalSeq{i, t.Seq})
			}
		}
		for _, strand := range strands {
			slices.SortStableFunc(j.strands[strand], func(a, b arrivalSeq) int { return cmp.Compare(b.seq, a.seq) })
		}
	}
	return j.strands[strand]
}

// field accesses a sorted list of a view: its state or its outputs.
type field[E any] struct {
	list func(*contract.View) []E
	key  func(*E) (name string, by contract.Stamp)
	by   func(e E, name string) int
}

// merge chooses one entry for each name, in the order of names. dropped holds the concurrent entries of each name.
func merge[E any](j *joiner, f field[E]) (merged []E, dropped [][]E) {
	groups := collect(j, f)
	merged, dropped = slices.Grow(merged, len(groups)), slices.Grow(dropped, len(groups))
	for _, variants := range groups {
		e, others := latest(j, f, variants)
		merged, dropped = append(merged, e), append(dropped, others)
	}
	return merged, dropped
}

// collect returns the distinct entries of each name in the order of arrivals. The groups are sorted by name.
func collect[E any](j *joiner, f field[E]) [][]E {
	var groups [][]E
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
				at[name] = len(groups)
				groups = append(groups, []E{list[k]})
				continue
			}
			// Most branches still have the entry with which they began.
			if _, first := f.key(&groups[n][0]); first == by || seen[write{n, by}] {
				continue
			}
			seen[write{n, by}] = true
			groups[n] = append(groups[n], list[k])
		}
	}
	slices.SortFunc(groups, func(a, b []E) int {
		name, _ := f.key(&b[0])
		return f.by(a[0], name)
	})
	return groups
}

// latest chooses one of the variants of a name. A variant is superseded if an arrival includes it but has
// another one. Arrivals that resolved the same conflict differently supersede each other's variants; then
// all variants are concurrent again.
func latest[E any](j *joiner, f field[E], variants []E) (kept E, dropped []E) {
	if len(variants) == 1 {
		return variants[0], nil
	}
	candidates := make([]E, 0, len(variants))
	for i := range variants {
		if !superseded(j, f, &variants[i]) {
			candidates = append(candidates, variants[i])
		}
	}
	if len(candidates) == 0 {
		candidates = variants
	}
	best, maxStep := 0, -1
	for i := range candidates {
		if _, by := f.key(&candidates[i]); by.Step >= maxStep {
			best, maxStep = i, by.Step
		}
	}
	kept = candidates[best]
	return kept, slices.Delete(candidates, best, best+1)
}

// superseded reports whether an arrival includes a variant of a name but has another one. It examines
// at most one arrival more than those that have the variant.
func superseded[E any](j *joiner, f field[E], e *E) bool {
	name, by := f.key(e)
	if by.Strand == "" {
		return true // all arrivals include it, and one has another
	}
	for _, k := range j.arrivalsWith(by.Strand) {
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
