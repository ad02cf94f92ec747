package node

import (
	"encoding/json"
	"testing"

	"weft/workflows/plan"
)

func TestRetainedData(t *testing.T) {
	reduce := []plan.Reduce{{Name: "x", How: "sum"}}
	tests := map[string]struct {
		cfg        plan.Call
		data, want string
	}{
		"map":                {plan.Call{Map: true, Reduce: reduce}, `{"words":"long","x":1}`, `{"x":1}`},
		"map without values": {plan.Call{Map: true, Reduce: reduce}, ``, ``},
		"not a map":          {plan.Call{}, `{"words":"long","x":1}`, `{"words":"long","x":1}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var data json.RawMessage
			if tc.data != "" {
				data = json.RawMessage(tc.data)
			}
			c := callRun{cfg: &tc.cfg}
			if got, err := c.retainedData(data); err != nil || string(got) != tc.want {
				t.Errorf("retainedData() = %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}
