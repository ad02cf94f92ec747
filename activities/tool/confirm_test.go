package tool

import (
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// The operator's rules determine which calls need confirmation, whatever a server names its tools.
func TestConfirmRules(t *testing.T) {
	rules := map[string]ConfirmRule{
		"mail":   {Tools: []string{"send_*"}, Timeout: time.Minute},
		"faster": {Tools: []string{"send_money"}, Timeout: 10 * time.Second},
		"files":  {Tools: []string{"*"}, Connections: []string{"files*"}},
		"safe":   {Tools: []string{"files/read*", "list_?"}, Never: true},
		"deep":   {Tools: []string{"admin/*/drop"}},
	}
	tests := map[string]struct {
		connection, tool string
		limit            plan.Seconds
		need             bool
	}{
		"a tool of the pattern":           {"x", "send_mail", 60, true},
		"the shortest limit of two":       {"x", "send_money", 10, true},
		"of no rule":                      {"x", "look", 0, false},
		"in capital letters":              {"x", "Send_Mail", 60, true},
		"exempt, but in capital letters":  {"files", "LIST_a", 0, true},
		"all of a connection":             {"files", "delete", 0, true},
		"all, names with slashes too":     {"files", "files/delete", 0, true},
		"all, names that begin with one":  {"files", "/delete/all", 0, true},
		"a connection's id with a slash":  {"files/eu", "delete", 0, true},
		"exempt, the name with a slash":   {"files", "files/read/any", 0, false},
		"exempt, one letter":              {"files", "list_a", 0, false},
		"one letter is not two":           {"files", "list_ab", 0, true},
		"a slash in the middle":           {"x", "admin/a/b/drop", 0, true},
		"a slash that is another":         {"x", "admin.a.drop", 0, false},
		"another connection is not meant": {"web", "delete", 0, false},
	}
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Confirm = rules })
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			limit, need := tools.confirmation(plan.Connection{ID: tc.connection}, tc.tool)
			if limit != tc.limit || need != tc.need {
				t.Errorf("limit %d, need %v; want %d, %v", limit, need, tc.limit, tc.need)
			}
		})
	}
}

// TestConfirmRulesOfConnections checks flows that use an operator's id for their own address, or another id for an operator's
// address.
func TestConfirmRulesOfConnections(t *testing.T) {
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.Connections = map[string]Connection{"safe": {URL: "http://safe.example/mcp"}, "crm": {URL: "http://crm.example/mcp"}}
		s.Confirm = map[string]ConfirmRule{"all": {Tools: []string{"pay"}}, "crm": {Tools: []string{"*"}, Connections: []string{"crm"}},
			"safe": {Tools: []string{"*"}, Connections: []string{"safe"}, Never: true}}
	})
	for name, tc := range map[string]struct {
		connection plan.Connection
		tool       string
		need       bool
	}{
		"the operator's, exempt":                {plan.Connection{ID: "safe"}, "pay", false},
		"its id with another address":           {plan.Connection{ID: "safe", URL: "http://other.example/mcp"}, "pay", true},
		"its id with a command":                 {plan.Connection{ID: "safe", Command: "other"}, "pay", true},
		"the operator's, to be confirmed":       {plan.Connection{ID: "crm"}, "drop", true},
		"its address under another id":          {plan.Connection{ID: "mine", URL: "http://crm.example/mcp"}, "drop", true},
		"its address under the id of an exempt": {plan.Connection{ID: "safe", URL: "http://crm.example/mcp"}, "drop", true},
		"another":                               {plan.Connection{ID: "mine", URL: "http://other.example/mcp"}, "drop", false},
	} {
		if got := tools.Rules(tc.connection, []contract.ToolSpec{{Name: tc.tool}}); len(got.Confirm) > 0 != tc.need {
			t.Errorf("%s: the rules are %+v, want one that needs a yes: %v", name, got.Confirm, tc.need)
		}
	}
}
