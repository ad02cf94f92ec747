package llm

import (
	"testing"

	"weft/activities/contract"
)

// TestReasoningTokensCountedOnce checks that reasoning is included in the output once, whether or not the server includes it.
func TestReasoningTokensCountedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		usage string
		want  contract.Usage
	}{
		"included in output":        {`{"prompt_tokens":32,"completion_tokens":103,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"not included":              {`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"not included, long answer": {`{"prompt_tokens":32,"completion_tokens":900,"total_tokens":1026,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 994, Reasoning: 94}},
		"not included, no total":    {`{"prompt_tokens":32,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"included, no total":        {`{"prompt_tokens":32,"completion_tokens":103,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"none":                      {`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":41}`, contract.Usage{Calls: 1, Input: 32, Output: 9}},
		"Groq's":                    {`null,"x_groq":{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":41}}`, contract.Usage{Calls: 1, Input: 32, Output: 9}},
		"invalid total":             {`{"prompt_tokens":32,"completion_tokens":103,"total_tokens":7,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answer(200, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":`+tc.usage+`}`))
			a, err := ask(t, openModel(t, "xai", s.URL), &Call{})
			if err != nil {
				t.Fatal(err)
			}
			checkEqual(t, "usage", a.Usage, tc.want)
		})
	}
}
