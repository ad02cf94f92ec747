package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Comparison functions for the sort keys of a view's lists.
func byKey(e contract.StateEntry, key string) int          { return cmp.Compare(e.Key, key) }
func byNode(o contract.NodeOutput, node string) int        { return cmp.Compare(o.Node, node) }
func byStrand(v contract.StrandVersion, strand string) int { return cmp.Compare(v.Strand, strand) }

// get returns the item of a sorted list with a key; false if there is none.
func get[E any](list []E, key string, by func(E, string) int) (item E, ok bool) {
	i, ok := slices.BinarySearchFunc(list, key, by)
	if ok {
		item = list[i]
	}
	return item, ok
}

// put adds an item to a sorted list, or replaces the one with the same key.
func put[E any](list []E, key string, item E, by func(E, string) int) []E {
	i, ok := slices.BinarySearchFunc(list, key, by)
	if ok {
		list[i] = item
		return list
	}
	return slices.Insert(list, i, item)
}

// NextStamp returns the next stamp of a strand, and advances the view's version vector. exec is the id
// of the execution that writes.
func NextStamp(v *contract.View, strand, exec string, step int) contract.Stamp {
	version, _ := get(v.Versions, strand, byStrand)
	version = contract.StrandVersion{Strand: strand, Seq: version.Seq + 1}
	v.Versions = put(v.Versions, strand, version, byStrand)
	return contract.Stamp{Strand: strand, Seq: version.Seq, Step: step, Exec: exec}
}

// Entry returns the entry of a key of the state; false if there is none.
func Entry(v *contract.View, key string) (contract.StateEntry, bool) { return get(v.State, key, byKey) }

// SetEntry writes a key of the state.
func SetEntry(v *contract.View, e contract.StateEntry) { v.State = put(v.State, e.Key, e, byKey) }

// SetOutput sets or replaces a node's output.
func SetOutput(v *contract.View, o contract.NodeOutput) {
	v.Outputs = put(v.Outputs, o.Node, o, byNode)
}

// StateBytes returns the size of a view's state, as counted against the limit of the state.
func StateBytes(v *contract.View) int {
	n := 0
	for i := range v.State {
		n += EntryBytes(&v.State[i])
	}
	return n
}

// EntryBytes returns the size of an entry, as counted against the limit of the state.
func EntryBytes(e *contract.StateEntry) int { return len(e.Key) + len(e.Value) + e.Size }

// ForgetVersions drops the version vector of a view from which all later executions descend.
func ForgetVersions(v *contract.View) {
	v.Versions = nil
	for i := range v.State {
		v.State[i].By.Strand = ""
	}
	for i := range v.Outputs {
		v.Outputs[i].By.Strand = ""
	}
}

// Clone copies a view, so that a branch can write to its own copy. Values are shared, because they
// are never changed in place.
func Clone(v *contract.View) contract.View {
	return contract.View{State: cloneWithRoom(v.State), Outputs: cloneWithRoom(v.Outputs), Versions: cloneWithRoom(v.Versions)}
}

// cloneWithRoom copies a list, with capacity for one more entry.
func cloneWithRoom[E any](list []E) []E {
	if list == nil {
		return nil
	}
	return append(make([]E, 0, len(list)+1), list...)
}

// Since returns the part of a view that one strand has written.
func Since(v *contract.View, strand string) contract.View {
	out := contract.View{
		State:   slices.DeleteFunc(slices.Clone(v.State), func(e contract.StateEntry) bool { return e.By.Strand != strand }),
		Outputs: slices.DeleteFunc(slices.Clone(v.Outputs), func(o contract.NodeOutput) bool { return o.By.Strand != strand }),
	}
	if version, ok := get(v.Versions, strand, byStrand); ok {
		out.Versions = contract.VersionVector{version}
	}
	return out
}

// Apply applies the result of [Since] to the view with which the strand began.
func Apply(v, since *contract.View) {
	for _, e := range since.State {
		SetEntry(v, e)
	}
	for _, o := range since.Outputs {
		SetOutput(v, o)
	}
	for _, version := range since.Versions {
		v.Versions = put(v.Versions, version.Strand, version, byStrand)
	}
}
