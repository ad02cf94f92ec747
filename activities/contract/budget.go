package contract

import "fmt"

// Budget bounds what a run may spend on models. A zero field is no bound.
type Budget struct {
	// Calls are calls of models: of agents, of judges, and of what condenses values.
	Calls int `json:"calls,omitempty"`
	// Tokens are input and output together.
	Tokens int `json:"tokens,omitempty"`
	// Cost is in millionths of the currency of the worker's price table.
	Cost int64 `json:"cost_micros,omitempty"`
}

// Allowance is a budget in force, as a status shows it.
type Allowance Budget

// Means is what a worker lets a run spend, recorded once when the run starts.
type Means struct {
	// Most bounds every run's own budget.
	Most Budget `json:"most"`
	// Priced says that there is a price table, without which no cost can be counted.
	Priced bool `json:"priced,omitempty"`
}

// Bounds says whether anything is bounded.
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
	if !out.Bounds() {
		return nil
	}
	return &out
}

func tighter(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// check refuses what is no budget.
func (b *Budget) check() error {
	switch {
	case b == nil:
	case b.Calls < 0 || b.Tokens < 0 || b.Cost < 0:
		return fmt.Errorf("budget has calls %d, tokens %d and cost_micros %d, want 0 (no bound) or more", b.Calls, b.Tokens, b.Cost)
	case !b.Bounds():
		return fmt.Errorf("budget bounds nothing, want one of calls, tokens and cost_micros, or leave it out")
	}
	return nil
}
