package tool

import (
	"testing"

	"weft/workflows/plan"
)

// The operator's rules say whose calls need a person's yes, whatever a server calls its tools.
func TestConfirmRules(t *testing.T) {
	rules := map[string]ConfirmRule{
		"mail":   {Tools: []string{"send_*"}, Timeout: 60},
		"faster": {Tools: []string{"send_money"}, Timeout: 10},
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
			limit, need := tools.confirm(tc.connection, tc.tool)
			if limit != tc.limit || need != tc.need {
				t.Errorf("limit %d, need %v; want %d, %v", limit, need, tc.limit, tc.need)
			}
		})
	}
}
