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
	// at the same time.
	Runs   int `json:"runs,omitempty"`
	AtOnce int `json:"runs_at_once,omitempty"`
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

// Within is the tighter of two budgets, nil where neither bounds anything.
func (b *Budget) Within(most Budget) *Budget {
	var out Budget
	if b != nil {
		out = *b
	}
	out.Calls = int(tighter(int64(out.Calls), int64(most.Calls)))
	out.Tokens = int(tighter(int64(out.Tokens), int64(most.Tokens)))
	out.Cost = tighter(out.Cost, most.Cost)
	out.Runs = int(tighter(int64(out.Runs), int64(most.Runs)))
	out.AtOnce = int(tighter(int64(out.AtOnce), int64(most.AtOnce)))
	if !out.Bounds() {
		return nil
	}
	return &out
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
	field := func(bound, used int64) int64 {
		if bound == 0 {
			return 0
		}
		if out := of(bound, used); out > 0 {
			return out
		}
		return -1
	}
	return &Budget{Calls: int(field(int64(b.Calls), int64(u.Made()))), Tokens: int(field(int64(b.Tokens), int64(u.Input+u.Output))),
		Cost: field(b.Cost, u.Cost), Runs: int(field(int64(b.Runs), int64(u.Runs))), AtOnce: b.AtOnce}
}

// check refuses what is no budget.
func (b *Budget) check() error {
	switch {
	case b == nil:
	case b.Calls < 0 || b.Tokens < 0 || b.Cost < 0 || b.Runs < 0 || b.AtOnce < 0:
		return fmt.Errorf("budget has calls %d, tokens %d, cost_micros %d, runs %d and runs_at_once %d, want 0 (no bound) or more", b.Calls, b.Tokens, b.Cost, b.Runs, b.AtOnce)
	case !b.Bounds():
		return fmt.Errorf("budget bounds nothing, want one of calls, tokens, cost_micros, runs and runs_at_once, or leave it out")
	}
	return nil
}
