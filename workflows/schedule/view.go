package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Knows reports whether a view knows of the write or output that a stamp marks. A stamp without a
// strand was made before everything that is alive.
func Knows(v *contract.View, s contract.Stamp) bool {
	if s.Strand == "" {
		return true
	}
	i, ok := findStrand(v, s.Strand)
	return ok && v.Clock[i].Seq >= s.Seq
}

// NextStamp makes the next stamp of a strand and adds it to what the view knows. exec is the id of
// the execution that writes.
func NextStamp(v *contract.View, strand, exec string, step int) contract.Stamp {
	i, ok := findStrand(v, strand)
	if !ok {
		v.Clock = slices.Insert(v.Clock, i, contract.Tick{Strand: strand})
	}
	v.Clock[i].Seq++
	return contract.Stamp{Strand: strand, Seq: v.Clock[i].Seq, Step: step, Exec: exec}
}

func findStrand(v *contract.View, strand string) (int, bool) {
	return slices.BinarySearchFunc(v.Clock, strand, func(t contract.Tick, k string) int { return cmp.Compare(t.Strand, k) })
}

// Entry returns the entry of a key of the state; false where there is none.
func Entry(v *contract.View, key string) (contract.StateEntry, bool) {
	i, ok := findEntry(v, key)
	if !ok {
		return contract.StateEntry{}, false
	}
	return v.State[i], true
}

// SetEntry writes a key of the state.
func SetEntry(v *contract.View, e contract.StateEntry) {
	if i, ok := findEntry(v, e.Key); ok {
		v.State[i] = e
	} else {
		v.State = slices.Insert(v.State, i, e)
	}
}

func findEntry(v *contract.View, key string) (int, bool) {
	return slices.BinarySearchFunc(v.State, key, func(e contract.StateEntry, k string) int { return cmp.Compare(e.Key, k) })
}

// SetOutput records a node's output in place of the one before.
func SetOutput(v *contract.View, o contract.NodeOutput) {
	if i, ok := findOutput(v, o.Node); ok {
		v.Outputs[i] = o
	} else {
		v.Outputs = slices.Insert(v.Outputs, i, o)
	}
}

func findOutput(v *contract.View, node string) (int, bool) {
	return slices.BinarySearchFunc(v.Outputs, node, func(o contract.NodeOutput, k string) int { return cmp.Compare(o.Node, k) })
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
	v.Clock = nil
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
	return contract.View{State: slices.Clone(v.State), Outputs: slices.Clone(v.Outputs), Clock: slices.Clone(v.Clock)}
}

// Since returns what of a view was made by one strand.
func Since(v *contract.View, strand string) contract.View {
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
	if i, ok := findStrand(v, strand); ok {
		out.Clock = []contract.Tick{v.Clock[i]}
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
	for _, t := range since.Clock {
		if i, ok := findStrand(v, t.Strand); ok {
			v.Clock[i] = t
		} else {
			v.Clock = slices.Insert(v.Clock, i, t)
		}
	}
}
