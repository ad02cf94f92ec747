package workflows

import (
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/workflow"
)

func TestFallbacksTable(t *testing.T) {
	f := newFlowRun(newRun(t))
	f.run.Budget.Usage.AddFallbacks("b/y", []contract.Fallback{{Model: "a|x\n", Class: contract.ClassRateLimited}})
	f.run.Budget.Usage.AddFallbacks("b/y", []contract.Fallback{{Model: "a|x\n", Class: contract.ClassRateLimited}})
	var b strings.Builder
	fallbacksTable(f, &b)
	if want := "\n| switched from | to | why | times |\n|---|---|---|---|\n| a\\|x  | b/y | rate\\_limited | 2 |\n"; b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
	b.Reset()
	fallbacksTable(newFlowRun(newRun(t)), &b)
	if b.Len() > 0 {
		t.Errorf("without fallbacks: %q", b.String())
	}
}

// TestFailureDetails checks the exact text that shows where a run failed, why, and the remedy.
func TestFailureDetails(t *testing.T) {
	got := failureDetails(&contract.Failure{Class: contract.ClassDenied, Node: "a", Step: 2, At: "flow.json:3:1", Text: "no *key*", Remedy: "set OPENAI_API_KEY"})
	if want := "**Failed** at `a#2` (flow.json:3:1): denied: no \\*key\\*\n\nTo fix it: set OPENAI\\_API\\_KEY\n\n"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := failureDetails(&contract.Failure{Class: contract.ClassInvalidFlow, Text: "no nodes"}); got != "**Failed**: invalid\\_flow: no nodes\n\n" {
		t.Errorf("without a node: %q", got)
	}
}

// TestDetailsEscape checks that text of authors and models is shown unchanged and cannot end a table cell. tests/browser checks
// how the Web UI renders it.
func TestDetailsEscape(t *testing.T) {
	tests := map[string]struct{ cell, code string }{
		"Refund Desk":           {"Refund Desk", "`Refund Desk`"},
		"":                      {"", ""},
		"a|b\r\nc\nd\re":        {`a\|b c d e`, `a\|b c d e`},
		"<!-- pay --> <b>&amp;": {`\<!\-\- pay \-\-> \<b>\&amp;`, "`<!-- pay --> <b>&amp;`"},
		"*a* _b_ ~~c~~ $d$":     {`\*a\* \_b\_ \~\~c\~\~ \$d\$`, "`*a* _b_ ~~c~~ $d$`"},
		"![x](https://y)":       {`!\[x\](https\://y)`, "`![x](https://y)`"},
		`a\|b\`:                 {`a\\\|b\\`, `a\\\|b\\`},
		"`x`":                   {"\\`x\\`", "\\`x\\`"},
	}
	for text, want := range tests {
		if got := cell(text); got != want.cell {
			t.Errorf("cell(%q) = %q, want %q", text, got, want.cell)
		}
		tick, inside := code(text)
		if got := tick + inside + tick; got != want.code {
			t.Errorf("code(%q) = %q, want %q", text, got, want.code)
		}
	}
}

// newRun returns a run whose workflow has ended.
func newRun(t *testing.T) *runtime.Run {
	t.Helper()
	var r *runtime.Run
	workflowtest.Run(t, func(ctx workflow.Context) { r = runtime.New(ctx) })
	return r
}
