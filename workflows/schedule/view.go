package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// The keys by which the lists of a view are sorted.
func byKey(e contract.StateEntry, key string) int          { return cmp.Compare(e.Key, key) }
func byNode(o contract.NodeOutput, node string) int        { return cmp.Compare(o.Node, node) }
func byStrand(v contract.StrandVersion, strand string) int { return cmp.Compare(v.Strand, strand) }

// get returns the item of a sorted list with a key; false where there is none.
func get[E any](list []E, key string, by func(E, string) int) (item E, ok bool) {
	i, ok := slices.BinarySearchFunc(list, key, by)
	if ok {
		item = list[i]
	}
	return item, ok
}

// put writes an item to a sorted list, in place of the one with its key.
func put[E any](list []E, key string, item E, by func(E, string) int) []E {
	i, ok := slices.BinarySearchFunc(list, key, by)
	if ok {
		list[i] = item
		return list
	}
	return slices.Insert(list, i, item)
}

// NextStamp makes the next stamp of a strand and adds it to what the view knows. exec is the id of
// the execution that writes.
func NextStamp(v *contract.View, strand, exec string, step int) contract.Stamp {
	known, _ := get(v.Versions, strand, byStrand)
	known = contract.StrandVersion{Strand: strand, Seq: known.Seq + 1}
	v.Versions = put(v.Versions, strand, known, byStrand)
	return contract.Stamp{Strand: strand, Seq: known.Seq, Step: step, Exec: exec}
}

// Entry returns the entry of a key of the state; false where there is none.
func Entry(v *contract.View, key string) (contract.StateEntry, bool) { return get(v.State, key, byKey) }

// SetEntry writes a key of the state.
func SetEntry(v *contract.View, e contract.StateEntry) { v.State = put(v.State, e.Key, e, byKey) }

// SetOutput records a node's output in place of the one before.
func SetOutput(v *contract.View, o contract.NodeOutput) {
	v.Outputs = put(v.Outputs, o.Node, o, byNode)
}

// StateBytes returns the size of a view's state that its limit counts.
func StateBytes(v *contract.View) int {
	n := 0
	for i := range v.State {
		n += EntryBytes(&v.State[i])
	}
	return n
}

// EntryBytes returns the size of an entry that the limit of the state counts.
func EntryBytes(e *contract.StateEntry) int { return len(e.Key) + len(e.Value) + e.Size }

// ForgetVersions drops the version vector of a view from which everything comes that is alive later.
func ForgetVersions(v *contract.View) {
	v.Versions = nil
	for i := range v.State {
		v.State[i].By.Strand = ""
	}
	for i := range v.Outputs {
		v.Outputs[i].By.Strand = ""
	}
}

// Clone copies a view, so that a branch can write to its own. Values are shared: they are never
// changed in place.
func Clone(v *contract.View) contract.View {
	return contract.View{State: copied(v.State), Outputs: copied(v.Outputs), Versions: copied(v.Versions)}
}

// copied copies a list, with room for the entry that an execution adds.
func copied[E any](list []E) []E {
	if list == nil {
		return nil
	}
	return append(make([]E, 0, len(list)+1), list...)
}

// Since returns what of a view was made by one strand.
func Since(v *contract.View, strand string) contract.View {
	out := contract.View{
		State:   slices.DeleteFunc(slices.Clone(v.State), func(e contract.StateEntry) bool { return e.By.Strand != strand }),
		Outputs: slices.DeleteFunc(slices.Clone(v.Outputs), func(o contract.NodeOutput) bool { return o.By.Strand != strand }),
	}
	if known, ok := get(v.Versions, strand, byStrand); ok {
		out.Versions = contract.VersionVector{known}
	}
	return out
}

// Apply writes what [Since] returned of a view to the view with which that strand began.
func Apply(v, since *contract.View) {
	for _, e := range since.State {
		SetEntry(v, e)
	}
	for _, o := range since.Outputs {
		SetOutput(v, o)
	}
	for _, known := range since.Versions {
		v.Versions = put(v.Versions, known.Strand, known, byStrand)
	}
}
