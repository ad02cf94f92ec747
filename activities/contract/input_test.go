package contract

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/workflows/plan"
)

func TestDataConnections(t *testing.T) {
	tests := map[string]struct {
		in   string
		want plan.Connection
		bad  bool
	}{
		"MCP as Continuum writes it":    {in: `{"id":"a","type":1,"name":"A","config":{"url":"https://x.example/mcp"}}`, want: plan.Connection{ID: "a", Name: "A", Kind: "mcp", URL: "https://x.example/mcp"}},
		"a sub-agent the same way":      {in: `{"id":"b","type":2,"description":"D","config":{"agent_id":"sub"}}`, want: plan.Connection{ID: "b", Description: "D", Kind: "agent", Agent: "sub"}},
		"in the plan's words":           {in: `{"id":"c","kind":"mcp","url":"https://x.example"}`, want: plan.Connection{ID: "c", Kind: "mcp", URL: "https://x.example"}},
		"without a type it is MCP":      {in: `{"id":"d"}`, want: plan.Connection{ID: "d", Kind: "mcp"}},
		"a type that nobody knows":      {in: `{"id":"e","type":7}`, bad: true},
		"a kind that nobody knows":      {in: `{"id":"f","kind":"carrier pigeon"}`, bad: true},
		"a connection that has no name": {in: `{"type":1}`, bad: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var d DataConnection
			if err := json.Unmarshal([]byte(tc.in), &d); err != nil {
				t.Fatal(err)
			}
			got, err := d.Connection()
			if (err != nil) != tc.bad {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(tc.want, got); !tc.bad && diff != "" {
				t.Errorf("connection (-want +got):\n%s", diff)
			}
		})
	}
}
