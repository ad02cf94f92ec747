package contract

import "testing"

func TestBudgetLessPlus(t *testing.T) {
	used := Usage{Calls: 3, Stopped: 1, Input: 50, Output: 50, Cost: 7}
	tests := map[string]struct{ of, less, plus Budget }{
		"partly used":      {of: Budget{Calls: 10, Tokens: 150, Cost: 8}, less: Budget{Calls: 6, Tokens: 50, Cost: 1}, plus: Budget{Calls: 14, Tokens: 250, Cost: 15}},
		"used up":          {of: Budget{Calls: 4, Tokens: 99, Cost: 1}, less: Budget{Calls: -1, Tokens: -1, Cost: -1}, plus: Budget{Calls: 8, Tokens: 199, Cost: 8}},
		"exhausted before": {of: Budget{Calls: -1}, less: Budget{Calls: -1}, plus: Budget{Calls: 4}},
		"unlimited fields": {of: Budget{Tokens: 101}, less: Budget{Tokens: 1}, plus: Budget{Tokens: 201}},
	}
	for name, tc := range tests {
		if got := *tc.of.Less(used); got != tc.less {
			t.Errorf("%s: Less() = %+v, want %+v", name, got, tc.less)
		}
		if got := *tc.of.Plus(used); got != tc.plus {
			t.Errorf("%s: Plus() = %+v, want %+v", name, got, tc.plus)
		}
	}
	if got := *(&Budget{Calls: -1}).Plus(Usage{}); got != (Budget{Calls: -1}) {
		t.Errorf("Plus() of no usage = %+v", got)
	}
}

func TestBudgetWithin(t *testing.T) {
	tests := map[string]struct {
		of   *Budget
		most Budget
		want Budget
	}{
		"no budget":       {nil, Budget{Calls: 5}, Budget{Calls: 5}},
		"tighter":         {&Budget{Calls: 3}, Budget{Calls: 5}, Budget{Calls: 3}},
		"wider":           {&Budget{Calls: 9, Tokens: 7}, Budget{Calls: 5}, Budget{Calls: 5, Tokens: 7}},
		"exhausted":       {&Budget{Calls: -1, Cost: 3}, Budget{Calls: 5, Cost: 2}, Budget{Calls: -1, Cost: 2}},
		"limit exhausted": {&Budget{Calls: 9, Tokens: 4}, Budget{Calls: -1}, Budget{Calls: -1, Tokens: 4}},
	}
	for name, tc := range tests {
		if got := tc.of.Within(tc.most); got == nil || *got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
	if got := (&Budget{}).Within(Budget{}); got != nil {
		t.Errorf("Within() of two unlimited budgets = %+v", got)
	}
}
