package plan

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestCheckParams(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	minus := -1
	for name, tc := range map[string]struct {
		params Params
		want   []string
	}{
		"no parameters":       {Params{}, nil},
		"zero values":         {Params{Temperature: num(0), TopP: num(0)}, nil},
		"all parameters":      {Params{Temperature: num(2), TopK: 4, MaxTokens: 9, Stop: []string{"x"}, ToolChoice: "get_state", Effort: "xhigh", Extra: json.RawMessage(`{"a":1}`)}, nil},
		"invalid temperature": {Params{Temperature: num(2.5)}, []string{`node "a": params.temperature must be 0 to 2, got 2.5`}},
		"invalid top_p":       {Params{TopP: num(-0.1)}, []string{`node "a": params.top_p must be 0 to 1, got -0.1`}},
		"invalid penalties":   {Params{Frequency: 3, Presence: -3}, []string{`node "a": params.frequency_penalty must be -2 to 2, got 3`, `node "a": params.presence_penalty must be -2 to 2, got -3`}},
		"negative seed":       {Params{Seed: &minus}, []string{`node "a": params.top_k, max_tokens and seed must not be negative`}},
		"unknown effort":      {Params{Effort: "huge"}, []string{`node "a": params.reasoning_effort must be one of [none minimal low medium high xhigh max], got "huge"`}},
		"list as extra":       {Params{Extra: json.RawMessage(`[]`)}, []string{`node "a": params.extra is not a JSON object`}},
		"null as extra":       {Params{Extra: json.RawMessage(`null`)}, []string{`node "a": params.extra is not a JSON object`}},
		"unknown tool":        {Params{ToolChoice: "nope"}, []string{`node "a": params.tool_choice is "nope"; use auto, none, required or a tool of the node`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := validFlow()
			f.Nodes[0].Agent.Params = &tc.params
			if got := f.Check(); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestParamsJSON checks that only parameters that are set are encoded.
func TestParamsJSON(t *testing.T) {
	zero, seed, no := 0.0, 0, false
	for want, p := range map[string]*Params{
		`{"prompt":"","system":"","max_calls":0,"max_errors":0}`:                                                                 nil,
		`{"prompt":"","system":"","max_calls":0,"max_errors":0,"params":{"temperature":0,"seed":0,"parallel_tool_calls":false}}`: {Temperature: &zero, Seed: &seed, Parallel: &no},
	} {
		raw, err := json.Marshal(Agent{Params: p})
		if err != nil || string(raw) != want {
			t.Errorf("%s, %v; want %s", raw, err, want)
		}
	}
}
