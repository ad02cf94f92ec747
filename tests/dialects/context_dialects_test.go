package dialects

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// longTalks are documents of one agent, one of each dialect, and how their agents end.
var longTalks = map[string]struct{ name, doc, end string }{
	"continuum": {"flow.json", harness.OneNode(""), "say: done"},
	"koog": {"flow.json", `{"id":"k","version":"1.0","defaultModel":"openai/gpt-4o-mini","agents":[{"name":"a","type":"task","prompt":{"system":"s"},"params":{"task":"t","toolNames":[]}}]}`,
		"call: [{tool: finalize_task_result, arguments: {value: done}}]"},
	"agentspec": {"flow.json", `{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","llm_config":{"$component_ref":"m"},"system_prompt":"x","human_in_the_loop":false,"outputs":[{"title":"n","type":"integer"}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"}}}`, "call: [{tool: submit_result, arguments: {n: 4}}]"},
	"blueprint": {"agents/a/agent.json", `{"name":"a","description":"Talks","system_prompt":"Talk."}`, "say: done"},
}

// The operator's policy holds in every dialect: results stay with their calls, what is left out is
// told the model and shown, and a refusal for length is met once.
func TestContextPoliciesOfDialects(t *testing.T) {
	t.Parallel()
	policies := map[string]struct {
		context plan.Context
		refuse  int
		class   string
	}{
		"truncate":      {context: plan.Context{How: plan.ContextTruncate, Tokens: 120}},
		"summarise":     {context: plan.Context{How: plan.ContextSummarise, Tokens: 120, Summary: &plan.DefaultSummary}},
		"fail":          {context: plan.Context{How: plan.ContextFail, Tokens: 120}, class: contract.ClassContextLength},
		"refused once":  {context: plan.Context{How: plan.ContextTruncate}, refuse: 1},
		"refused twice": {context: plan.Context{How: plan.ContextTruncate}, refuse: 2, class: contract.ClassContextLength},
	}
	for dialect, d := range longTalks {
		for policy, tc := range policies {
			t.Run(dialect+"/"+policy, func(t *testing.T) {
				s := &sentTo{refuse: tc.refuse}
				script := strings.ReplaceAll(strings.TrimSuffix(harness.TalkerScript, "say: done}")+d.end+"}", "WORD", strings.Repeat("word ", 30))
				p := harness.TestRun{Script: script, Input: "Go.", SetInput: func(in *contract.RunInput) {
					in.Flow = contract.FlowRef{Plan: longTalk(t, d.name, d.doc, dialect, &tc.context)}
				},
					Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry {
						s.ActivityRegistry = r
						return s
					}}.Execute(t)
				if tc.class != "" {
					if p.Err == nil || p.Err.Class != tc.class || p.Err.Node == "" {
						t.Errorf("the failure is %+v, want of class %s", p.Err, tc.class)
					}
					return
				}
				if p.Err != nil {
					t.Fatal(p.Err)
				}
				if !slices.ContainsFunc(p.Status.Executions, func(x contract.Execution) bool { return x.OmittedMessages > 0 }) {
					t.Errorf("the status shows nothing left out: %+v", p.Status.Executions)
				}
				s.whole(t, p, tc.context.How == plan.ContextSummarise)
			})
		}
	}
}

// longTalk is a document's plan with the operator's policy, whose agent can write values.
func longTalk(t *testing.T, name, doc, dialect string, c *plan.Context) *plan.Flow {
	t.Helper()
	var o specadapter.Options
	if c != nil {
		o.Bounds.Contexts = []plan.ContextRule{{Context: *c}}
	}
	res, diags := specadapter.Load(name, []byte(doc), o)
	if res == nil || res.Flow.Dialect != dialect {
		t.Fatal(res, diags)
	}
	for _, s := range res.Flow.Nodes[slices.IndexFunc(res.Flow.Nodes, func(n plan.Node) bool { return n.Agent != nil })].TeamAgents() {
		if !slices.Contains(s.Agent.Builtins, plan.BuiltinSetState) {
			s.Agent.Builtins = append(s.Agent.Builtins, plan.BuiltinSetState)
		}
	}
	return res.Flow
}

// whole wants what was sent to begin with no tool's result, and the model to be told of what was not.
func (s *sentTo) whole(t *testing.T, p harness.Outcome, summarised bool) {
	t.Helper()
	cut := 0
	for _, c := range s.calls {
		if c.Sent == nil || c.Sent.Skip == 0 {
			continue
		}
		cut++
		want := fmt.Sprintf("[%d earlier messages of this conversation are omitted]", c.Sent.Skip)
		if summarised {
			want = "Summarized conversation: the gist"
		}
		if c.Sent.Note != want {
			t.Errorf("the note is %q, want %q", c.Sent.Note, want)
		}
		if all := p.Messages(t, c.Base.Thread); all[c.Sent.Skip].Role == contract.RoleTool {
			t.Errorf("what is sent begins with message %d, the result of a call that is left out", c.Sent.Skip)
		}
	}
	if cut == 0 {
		t.Errorf("nothing was left out in %d calls", len(s.calls))
	}
}
