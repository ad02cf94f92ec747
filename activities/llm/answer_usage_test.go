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
		"within the answer":     {`{"prompt_tokens":32,"completion_tokens":103,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"beside it":             {`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"beside a long answer":  {`{"prompt_tokens":32,"completion_tokens":900,"total_tokens":1026,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 994, Reasoning: 94}},
		"beside, without a sum": {`{"prompt_tokens":32,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"within, without a sum": {`{"prompt_tokens":32,"completion_tokens":103,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
		"none":                  {`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":41}`, contract.Usage{Calls: 1, Input: 32, Output: 9}},
		"Groq's":                {`null,"x_groq":{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":41}}`, contract.Usage{Calls: 1, Input: 32, Output: 9}},
		"a sum that is wrong":   {`{"prompt_tokens":32,"completion_tokens":103,"total_tokens":7,"completion_tokens_details":{"reasoning_tokens":94}}`, contract.Usage{Calls: 1, Input: 32, Output: 103, Reasoning: 94}},
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
