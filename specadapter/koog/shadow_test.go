package koog_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/specadapter"
)

// branches returns a flow in which an agent has the given conditions, one per line starting at line 3;
// "always" is a transition without a condition.
func branches(agent string, conditions ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\"id\":\"f\",\"version\":\"1\",\"agents\":[%s],\n\"transitions\":[\n", agent)
	for i, c := range conditions {
		if i > 0 {
			b.WriteString(",\n")
		}
		if c == "always" {
			b.WriteString(`{"from":"a","to":"__finish__"}`)
			continue
		}
		part, rest, _ := strings.Cut(c, " ")
		op, want, _ := strings.Cut(rest, " ")
		fmt.Fprintf(&b, `{"from":"a","to":"__finish__","condition":{"variable":%q,"operation":%q,"value":%s}}`, part, op, want)
	}
	return b.String() + "]}"
}

// TestShadowedTransitions checks that a transition is reported if earlier ones always take precedence.
func TestShadowedTransitions(t *testing.T) {
	const (
		task    = `{"name":"a","type":"task","params":{"task":"t"}}`
		verify  = `{"name":"a","type":"verify","params":{"task":"t"}}`
		integer = `{"name":"a","type":"task","params":{"task":"t"},"output":{"schema":{"type":"integer"}}}`
		react   = `{"name":"a","type":"react","params":{"task":"t"}}`
	)
	tests := map[string]struct {
		agent      string
		conditions []string
		// dead is the line of the transition that is never taken, or 0; its message contains
		// by.
		dead int
		by   string
	}{
		"thresholds in the wrong order": {task, []string{"input.data MORE_OR_EQUAL 50", "input.data MORE_OR_EQUAL 80", "always"}, 4, "the one at line 3"},
		"thresholds in the right order": {task, []string{"input.data MORE_OR_EQUAL 80", "input.data MORE_OR_EQUAL 50", "always"}, 0, ""},
		"an integer and its double":     {task, []string{"input.data more 5", "output.data MORE 5.0", "always"}, 4, "the one at line 3"},
		"a number between two halves":   {task, []string{"input.data less 50", "input.data more_or_equal 50", "input.data equals 50"}, 5, "the one at line 4"},
		"both halves":                   {task, []string{"input.data less 50", "input.data more_or_equal 50", "input.data less_or_equal 60"}, 5, "those at lines 3, 4"},
		"a gap of one number":           {task, []string{"input.data less 50", "input.data more 50", "input.data equals 50"}, 0, ""},
		"equals and its opposite":       {task, []string{`input.data equals "x"`, `input.data not_equals "x"`, "always"}, 5, "those at lines 3, 4"},
		"equals after not_equals":       {task, []string{`input.data not_equals "x"`, `input.data equals "y"`, "always"}, 4, "the one at line 3"},
		"texts by case":                 {task, []string{`input.data equals "x"`, `input.data equals "X"`, "always"}, 0, ""},
		"texts in their order":          {task, []string{`input.data more "a"`, `input.data more "b"`, "always"}, 4, "the one at line 3"},
		"texts against their order":     {task, []string{`input.data more "b"`, `input.data more "a"`, "always"}, 0, ""},
		"both values of a verification": {verify, []string{"input.success equals true", "input.success NOT true", "always"}, 5, "those at lines 3, 4"},
		"both booleans of any value":    {task, []string{"input.data equals true", "input.data equals false", "always"}, 0, ""},
		"equals true and and true":      {task, []string{"input.data equals true", "input.data and true", "always"}, 4, "the one at line 3"},
		"a boolean that is not true":    {verify, []string{"input.success not_equals true", "output.success not true", "always"}, 4, "the one at line 3"},
		"fields of a verification":      {verify, []string{"input.success equals true", `input.feedback equals "x"`, "always"}, 0, ""},
		"or true":                       {verify, []string{"input.success or true", "always"}, 4, "the one at line 3"},
		"all integers":                  {integer, []string{"input.data less 5", "input.data more_or_equal 5", "always"}, 5, "those at lines 3, 4"},
		"strings only":                  {react, []string{`input.data not_equals "x"`, `input.data equals "x"`, "always"}, 5, "those at lines 3, 4"},
		"huge numbers":                  {task, []string{"input.data more 1e308", "input.data less -1e308", "input.data more_or_equal 1e308", "always"}, 0, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res, diags := specadapter.Load("f.json", []byte(branches(tc.agent, tc.conditions...)), specadapter.Options{})
			if res == nil {
				t.Fatal(diags)
			}
			line, text := 0, ""
			for i := range diags {
				if diags[i].Code == "shadowed" {
					line, text = diags[i].Line, diags[i].Text
				}
			}
			if line != tc.dead || !strings.Contains(text, tc.by) {
				t.Errorf("line %d is shadowed, want %d by %q: %v", line, tc.dead, tc.by, diags)
			}
		})
	}
}
