package report

import (
	"bytes"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/starter/runs"
	"weft/workflows/plan"
)

// TestStatusNamesTheFlow checks that a status begins with the name, revision and description of the flow.
func TestStatusNamesTheFlow(t *testing.T) {
	long := strings.Repeat("x", 2500)
	for name, tc := range map[string]struct {
		flow *plan.Flow
		want string
	}{
		"complete":           {&plan.Flow{Name: "tutor", Revision: "1.2", Description: "Marks\nhomework."}, "flow      tutor 1.2: Marks homework.\n"},
		"name only":          {&plan.Flow{Name: "tutor"}, "flow      tutor\n"},
		"long":               {&plan.Flow{Name: "tutor", Description: long}, "flow      tutor: " + long[:300] + "…\n"},
		"unknown flow":       {nil, ""},
		"control characters": {&plan.Flow{Name: "t\x1b[2J", Revision: "\r1"}, "flow      t[2J 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout strings.Builder
			Status(&stdout, &runs.Run{ID: "r"}, &contract.Status{Status: "running", Flow: contract.LabelOf(tc.flow)}, nil)
			_, rest, _ := strings.Cut(stdout.String(), "status    running\n")
			got, _, _ := strings.Cut(rest, "usage")
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := contract.LabelOf(&plan.Flow{Description: strings.Repeat("x", 1<<20)}).Description; len(got) > 1000 {
		t.Errorf("the description in a query result has %d bytes", len(got))
	}
}

func TestStatusShowsUsage(t *testing.T) {
	for want, u := range map[string]contract.Usage{
		"0 model calls, 0 input and 0 output tokens":                                                                             {},
		"3 model calls, 900 input (66 % of it from a provider's cache) and 80 output tokens, cost 0.000572":                      {Calls: 3, Input: 900, Output: 80, Cached: 600, Cost: 572},
		"2 model calls, 10 input and 5 output tokens, cost 0.000001 without 1 calls that have no price; 1 more were interrupted": {Calls: 2, Input: 10, Output: 5, Cost: 1, Unpriced: 1, Stopped: 1},
	} {
		if got := usageText(u); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestStatusShowsFallbacks(t *testing.T) {
	var out bytes.Buffer
	st := &contract.Status{Status: "running"}
	st.Usage.Fallbacks = []contract.FallbackCount{{From: "a/x\x1b[2J", To: "b/y", Class: contract.ClassRateLimited, Times: 3}, {From: "b/y", To: "c/z", Class: contract.ClassTimeout, Times: 1}, {Times: 7}}
	Status(&out, &runs.Run{ID: "r"}, st, nil)
	want := "fallback  from a/x[2J to b/y: rate_limited (3 times)\nfallback  from b/y to c/z: timeout\nfallback  between other models (7 times)\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestStatusCountsDroppedExecutions(t *testing.T) {
	var out bytes.Buffer
	Status(&out, &runs.Run{ID: "r"}, &contract.Status{Status: "running", Dropped: 7, Executions: []contract.Execution{{Node: "a", Step: 8}}}, nil)
	if want := "done      7 earlier executions, which the run no longer lists\ndone      a, step 8\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
