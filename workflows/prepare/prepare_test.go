package prepare

import (
	"encoding/json"
	"testing"
	"weft/activities/contract"

	"github.com/google/go-cmp/cmp"
)

func TestVerdictsOfEarlierBuilds(t *testing.T) {
	tests := map[string]verdict{
		`null`:               {},
		`["a","b"]`:          {Problems: []string{"a", "b"}},
		`{}`:                 {},
		`{"problems":[]}`:    {Problems: []string{}},
		`{"max_payload":42}`: {MaxPayload: 42},
		`{"problems":["a"],"publish":{"attributes":["WeftFlow"]}}`: {Problems: []string{"a"}, Publish: &contract.Publish{Attributes: []string{"WeftFlow"}}},
	}
	for raw, want := range tests {
		var got verdict
		if err := json.Unmarshal([]byte(raw), &got); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}
