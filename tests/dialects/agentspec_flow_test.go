package dialects

import (
	"testing"

	"weft/tests/harness"
)

// TestAgentSpecMixed checks a flow with many kinds of nodes, with casts, retries of invalid model output and caught exceptions.
func TestAgentSpecMixed(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{Document: harness.AgentspecMixed, Script: harness.AgentspecMixedScript}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	const want = `{"total":9,"length":3,"why":"script: not that (attempt 1)"}`
	if string(p.Result.ResultData) != want {
		t.Errorf("outputs = %s, want %s", p.Result.ResultData, want)
	}
}
