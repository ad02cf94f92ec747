package tool

import (
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestConfirmRules checks which tools need confirmation by the operator's rules, whatever a server names them.
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
		want             bool
	}{
		"matching name":                             {"x", "send_mail", 60, true},
		"two rules, shortest timeout":               {"x", "send_money", 10, true},
		"no rule":                                   {"x", "look", 0, false},
		"other case":                                {"x", "Send_Mail", 60, true},
		"exempt in other case":                      {"files", "LIST_a", 0, true},
		"all tools of a connection":                 {"files", "delete", 0, true},
		"all tools, name with a slash":              {"files", "files/delete", 0, true},
		"all tools, leading slash":                  {"files", "/delete/all", 0, true},
		"connection id with a slash":                {"files/eu", "delete", 0, true},
		"exempt, name with a slash":                 {"files", "files/read/any", 0, false},
		"exempt, single-character wildcard":         {"files", "list_a", 0, false},
		"single-character wildcard, two characters": {"files", "list_ab", 0, true},
		"wildcard matches slashes":                  {"x", "admin/a/b/drop", 0, true},
		"dot instead of a slash":                    {"x", "admin.a.drop", 0, false},
		"another connection":                        {"web", "delete", 0, false},
	}
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Confirm = rules })
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			limit, need := tools.confirmation(plan.Connection{ID: tc.connection}, tc.tool)
			if limit != tc.limit || need != tc.want {
				t.Errorf("confirmation() = %d, %v; want %d, %v", limit, need, tc.limit, tc.want)
			}
		})
	}
}

// TestConfirmRulesByConnection checks flows that use an operator's connection id with another URL, or an operator's URL under
// another id.
func TestConfirmRulesByConnection(t *testing.T) {
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
		"exempt connection":                  {plan.Connection{ID: "safe"}, "pay", false},
		"exempt id, another URL":             {plan.Connection{ID: "safe", URL: "http://other.example/mcp"}, "pay", true},
		"exempt id, a command":               {plan.Connection{ID: "safe", Command: "other"}, "pay", true},
		"connection that needs confirmation": {plan.Connection{ID: "crm"}, "drop", true},
		"its URL under another id":           {plan.Connection{ID: "mine", URL: "http://crm.example/mcp"}, "drop", true},
		"its URL under an exempt id":         {plan.Connection{ID: "safe", URL: "http://crm.example/mcp"}, "drop", true},
		"unrelated connection":               {plan.Connection{ID: "mine", URL: "http://other.example/mcp"}, "drop", false},
	} {
		if got := tools.Rules(tc.connection, []contract.ToolSpec{{Name: tc.tool}}); len(got.Confirm) > 0 != tc.need {
			t.Errorf("%s: confirm rules are %+v, want one: %v", name, got.Confirm, tc.need)
		}
	}
}
