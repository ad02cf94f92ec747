package contract

import (
	"cmp"
	"fmt"
	"slices"
)

// Budget bounds what a run may spend on models, and what models may start. A zero field is no bound.
type Budget struct {
	// Calls are calls of models: of agents, of judges, and of what condenses values.
	Calls int `json:"calls,omitempty"`
	// Tokens are input and output together.
	Tokens int `json:"tokens,omitempty"`
	// Cost is in millionths of the currency of the worker's price table.
	Cost int64 `json:"cost_micros,omitempty"`
	// Runs are those that models start below the run, at any depth; AtOnce is how many of them may be under way
	// at the same time, PerSecond how many start in a second.
	Runs      int `json:"runs,omitempty"`
	AtOnce    int `json:"runs_at_once,omitempty"`
	PerSecond int `json:"runs_per_second,omitempty"`
	// Declared are the runs that flows themselves start, at any depth: branches, elements of maps, called flows.
	Declared int `json:"declared_runs,omitempty"`
}

// Allowance is a budget in force, as a status shows it.
type Allowance Budget

// BudgetLimits is what a worker lets a run spend, recorded once when the run starts.
type BudgetLimits struct {
	// Most bounds every run's own budget.
	Most Budget `json:"most"`
	// Priced means that there is a price table, without which no cost can be counted.
	Priced bool `json:"priced,omitempty"`
}

// Bounds reports whether anything is bounded.
func (b *Budget) Bounds() bool { return b != nil && *b != (Budget{}) }

// Each makes a budget of two, amount by amount; AtOnce and PerSecond are b's.
func (b Budget) Each(other Budget, of func(a, b int64) int64) Budget {
	set := func(a *int, b int) { *a = int(of(int64(*a), int64(b))) }
	set(&b.Calls, other.Calls)
	set(&b.Tokens, other.Tokens)
	b.Cost = of(b.Cost, other.Cost)
	set(&b.Runs, other.Runs)
	set(&b.Declared, other.Declared)
	return b
}

// Within is the tighter of two budgets, nil where neither bounds anything.
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

// Cuts says which bounds of b are tighter in another.
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

// amounts are all bounds, in the order of amountNames.
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

// Less is what a usage leaves of the budget; negative where that is nothing.
func (b *Budget) Less(u Usage) *Budget {
	return b.by(u, func(bound, used int64) int64 { return bound - used })
}

// Plus is the budget of which a usage leaves b.
func (b *Budget) Plus(u Usage) *Budget {
	return b.by(u, func(bound, used int64) int64 { return max(0, bound) + used })
}

// by makes a new bound of each that there is, and of what was used of it.
func (b *Budget) by(u Usage, of func(bound, used int64) int64) *Budget {
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
		return fmt.Errorf("budget has calls %d, tokens %d, cost_micros %d, runs %d, runs_at_once %d, runs_per_second %d and declared_runs %d, want 0 (no bound) or more",
			b.Calls, b.Tokens, b.Cost, b.Runs, b.AtOnce, b.PerSecond, b.Declared)
	case !b.Bounds():
		return fmt.Errorf("budget bounds nothing, want one of calls, tokens, cost_micros, runs, runs_at_once, runs_per_second and declared_runs, or leave it out")
	}
	return nil
}

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
