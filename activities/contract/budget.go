package contract

import "fmt"

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
	for _, f := range []struct {
		name     string
		from, to int64
	}{
		{"calls", int64(b.Calls), int64(to.Calls)}, {"tokens", int64(b.Tokens), int64(to.Tokens)}, {"cost_micros", b.Cost, to.Cost}, {"runs", int64(b.Runs), int64(to.Runs)},
		{"runs_at_once", int64(b.AtOnce), int64(to.AtOnce)}, {"runs_per_second", int64(b.PerSecond), int64(to.PerSecond)}, {"declared_runs", int64(b.Declared), int64(to.Declared)},
	} {
		if f.to < f.from {
			out = append(out, fmt.Sprintf("budget.%s: %d, cut to %d", f.name, f.from, f.to))
		}
	}
	return out
}

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
	case min(b.Calls, b.Tokens, b.Runs, b.AtOnce, b.PerSecond, b.Declared) < 0 || b.Cost < 0:
		return fmt.Errorf("budget has calls %d, tokens %d, cost_micros %d, runs %d, runs_at_once %d, runs_per_second %d and declared_runs %d, want 0 (no bound) or more",
			b.Calls, b.Tokens, b.Cost, b.Runs, b.AtOnce, b.PerSecond, b.Declared)
	case !b.Bounds():
		return fmt.Errorf("budget bounds nothing, want one of calls, tokens, cost_micros, runs, runs_at_once, runs_per_second and declared_runs, or leave it out")
	}
	return nil
}
