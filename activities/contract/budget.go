package contract

import (
	"cmp"
	"fmt"
	"slices"
)

// Budget limits what a run may spend on models, and what models may start. A zero field means no limit.
type Budget struct {
	// Calls counts model calls: of agents, of judges, and to condense values.
	Calls int `json:"calls,omitempty"`
	// Tokens counts input and output together.
	Tokens int `json:"tokens,omitempty"`
	// Cost is in millionths of the currency of the worker's price table.
	Cost int64 `json:"cost_micros,omitempty"`
	// Runs counts the descendant runs that models start; AtOnce is how many of them may run at the same time, PerSecond
	// how many may start per second.
	Runs      int `json:"runs,omitempty"`
	AtOnce    int `json:"runs_at_once,omitempty"`
	PerSecond int `json:"runs_per_second,omitempty"`
	// Declared counts the descendant runs that flows declare: branches, elements of maps, called flows.
	Declared int `json:"declared_runs,omitempty"`
}

// Allowance is a budget in effect, as reported in a status.
type Allowance Budget

// BudgetLimits is what a worker allows a run to spend, recorded once when the run starts.
type BudgetLimits struct {
	// Most limits every run's own budget.
	Most Budget `json:"most"`
	// Priced means that there is a price table, which is required to compute costs.
	Priced bool `json:"priced,omitempty"`
}

// Bounds reports whether the budget limits anything.
func (b *Budget) Bounds() bool { return b != nil && *b != (Budget{}) }

// Each combines two budgets amount by amount; AtOnce and PerSecond remain b's.
func (b Budget) Each(other Budget, of func(a, b int64) int64) Budget {
	set := func(a *int, b int) { *a = int(of(int64(*a), int64(b))) }
	set(&b.Calls, other.Calls)
	set(&b.Tokens, other.Tokens)
	b.Cost = of(b.Cost, other.Cost)
	set(&b.Runs, other.Runs)
	set(&b.Declared, other.Declared)
	return b
}

// Within returns the tighter of the limits in b and most, or nil if there are none.
func (b *Budget) Within(most Budget) *Budget {
	var out Budget
	if b != nil {
		out = *b
	}
	out = out.Each(most, tighter)
	out.AtOnce, out.PerSecond = int(tighter(int64(out.AtOnce), int64(most.AtOnce))), int(tighter(int64(out.PerSecond), int64(most.PerSecond)))
	if !out.Bounds() {
		return nil
	}
	return &out
}

// Cuts lists the limits of b that are tighter in to.
func (b *Budget) Cuts(to *Budget) []string {
	var out []string
	if b == nil || to == nil {
		return nil
	}
	cut := to.amounts()
	for i, from := range b.amounts() {
		if cut[i] < from {
			out = append(out, fmt.Sprintf("budget.%s: %d, cut to %d", amountNames[i], from, cut[i]))
		}
	}
	return out
}

// amounts returns all limits, in the order of amountNames.
func (b *Budget) amounts() []int64 {
	return []int64{int64(b.Calls), int64(b.Tokens), b.Cost, int64(b.Runs), int64(b.AtOnce), int64(b.PerSecond), int64(b.Declared)}
}

var amountNames = []string{"calls", "tokens", "cost_micros", "runs", "runs_at_once", "runs_per_second", "declared_runs"}

func tighter(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Less returns what a usage leaves of the budget; a spent amount is negative.
func (b *Budget) Less(u Usage) *Budget {
	return b.adjust(u, func(bound, used int64) int64 { return bound - used })
}

// Plus returns the budget of which a usage leaves b.
func (b *Budget) Plus(u Usage) *Budget {
	return b.adjust(u, func(bound, used int64) int64 { return max(0, bound) + used })
}

// adjust computes each limit that is set from its current value and the amount used.
func (b *Budget) adjust(u Usage, of func(bound, used int64) int64) *Budget {
	out := b.Each(u.Spent(), func(bound, used int64) int64 {
		if bound == 0 {
			return 0
		}
		if left := of(bound, used); left > 0 {
			return left
		}
		return -1
	})
	return &out
}

func (b *Budget) check() error {
	switch {
	case b == nil:
	case slices.Min(b.amounts()) < 0:
		return fmt.Errorf("budget has a negative limit: calls %d, tokens %d, cost_micros %d, runs %d, runs_at_once %d, runs_per_second %d and declared_runs %d; use 0 for no limit",
			b.Calls, b.Tokens, b.Cost, b.Runs, b.AtOnce, b.PerSecond, b.Declared)
	case !b.Bounds():
		return fmt.Errorf("budget sets no limit; set calls, tokens, cost_micros, runs, runs_at_once, runs_per_second or declared_runs, or remove it")
	}
	return nil
}

// maxFallbackKinds is how many kinds of fallbacks a [Usage] distinguishes. Further ones are counted together, without names.
const maxFallbackKinds = 20

// FallbackCount is how often calls fell back from one model to another for one reason.
type FallbackCount struct {
	// From is the model that could not answer, To the model tried next; Class is one of the classes of a [Failure]. All
	// are empty for the fallbacks that are counted together.
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Class string `json:"class,omitempty"`
	Times int    `json:"times"`
}

// Next returns the model that was tried next: To, or else the model that answered the call.
func (s *Fallback) Next(answered string) string { return cmp.Or(s.To, answered) }

// AddFallbacks counts the fallbacks of a call; answered is the model that answered it.
func (u *Usage) AddFallbacks(answered string, list []Fallback) {
	for i := range list {
		u.Fallbacks = addFallback(u.Fallbacks, FallbackCount{From: list[i].Model, To: list[i].Next(answered), Class: list[i].Class, Times: 1})
	}
}

// compareFallbacks orders fallback counts; those without names come last.
func compareFallbacks(a, b FallbackCount) int {
	switch none, other := a.From == "", b.From == ""; {
	case none && !other:
		return 1
	case other && !none:
		return -1
	}
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Class, b.Class))
}

// addFallback returns list with s added. It does not modify list, which may be shared.
func addFallback(list []FallbackCount, s FallbackCount) []FallbackCount {
	i, ok := slices.BinarySearchFunc(list, s, compareFallbacks)
	if !ok && s.From != "" && len(list) >= maxFallbackKinds {
		s = FallbackCount{Times: s.Times}
		i, ok = slices.BinarySearchFunc(list, s, compareFallbacks)
	}
	list = slices.Clone(list)
	if ok {
		list[i].Times += s.Times
		return list
	}
	return slices.Insert(list, i, s)
}

// subtractFallbacks returns list with the counts of less subtracted.
func subtractFallbacks(list, less []FallbackCount) []FallbackCount {
	var out []FallbackCount
	for _, s := range list {
		if i, ok := slices.BinarySearchFunc(less, s, compareFallbacks); ok {
			s.Times -= less[i].Times
		}
		if s.Times > 0 {
			out = append(out, s)
		}
	}
	return out
}
