package contract

import (
	"cmp"
	"slices"
)

// maxSwitched bounds the switches that a [Usage] distinguishes. What comes behind them is counted
// together, without names.
const maxSwitched = 20

// FallbackCount says how often a call went on from one model to another for one reason.
type FallbackCount struct {
	// From could not answer, To was asked next; Class is one of the classes of a [Failure]. All
	// are empty for those behind the first ways.
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Class string `json:"class,omitempty"`
	Times int    `json:"times"`
}

// Next is the model that was asked behind a switch: its own word, or else the model that
// answered the call.
func (s *Fallback) Next(answered string) string { return cmp.Or(s.To, answered) }

// AddFallbacks counts the fallbacks of a call that the model answered.
func (u *Usage) AddFallbacks(answered string, list []Fallback) {
	for i := range list {
		u.Fallbacks = count(u.Fallbacks, FallbackCount{From: list[i].Model, To: list[i].Next(answered), Class: list[i].Class, Times: 1})
	}
}

// way orders switches, those without names last.
func way(a, b FallbackCount) int {
	switch none, other := a.From == "", b.From == ""; {
	case none && !other:
		return 1
	case other && !none:
		return -1
	}
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Class, b.Class))
}

// count counts one more way in a list that may be another's too: it is never changed in place.
func count(list []FallbackCount, s FallbackCount) []FallbackCount {
	i, ok := slices.BinarySearchFunc(list, s, way)
	if !ok && s.From != "" && len(list) >= maxSwitched {
		s = FallbackCount{Times: s.Times}
		i, ok = slices.BinarySearchFunc(list, s, way)
	}
	list = slices.Clone(list)
	if ok {
		list[i].Times += s.Times
		return list
	}
	return slices.Insert(list, i, s)
}

// without is what is left of a list when another's are taken away.
func without(list, less []FallbackCount) []FallbackCount {
	var out []FallbackCount
	for _, s := range list {
		if i, ok := slices.BinarySearchFunc(less, s, way); ok {
			s.Times -= less[i].Times
		}
		if s.Times > 0 {
			out = append(out, s)
		}
	}
	return out
}
