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

// longConversations are documents with one agent, by dialect, and the action by which the agent ends.
var longConversations = map[string]struct{ name, doc, end string }{
	"continuum": {"flow.json", harness.OneNode(""), "say: done"},
	"koog": {"flow.json", `{"id":"k","version":"1.0","defaultModel":"openai/gpt-4o-mini","agents":[{"name":"a","type":"task","prompt":{"system":"s"},"params":{"task":"t","toolNames":[]}}]}`,
		"call: [{tool: finalize_task_result, arguments: {value: done}}]"},
	"agentspec": {"flow.json", `{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","llm_config":{"$component_ref":"m"},"system_prompt":"x","human_in_the_loop":false,"outputs":[{"title":"n","type":"integer"}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"}}}`, "call: [{tool: submit_result, arguments: {n: 4}}]"},
	"blueprint": {"agents/a/agent.json", `{"name":"a","description":"Talks","system_prompt":"Talk."}`, "say: done"},
}

// TestContextPoliciesInDialects checks that the operator's policy applies in every dialect: results stay with their calls, omissions are
// reported to the model and in the status, and a call that is refused for its length is retried once.
func TestContextPoliciesInDialects(t *testing.T) {
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
	for dialect, d := range longConversations {
		for policy, tc := range policies {
			t.Run(dialect+"/"+policy, func(t *testing.T) {
				s := &modelRecorder{refuse: tc.refuse}
				script := strings.ReplaceAll(strings.TrimSuffix(harness.TalkerScript, "say: done}")+d.end+"}", "WORD", strings.Repeat("word ", 30))
				p := harness.TestRun{Script: script, Input: "Go.", SetInput: func(in *contract.RunInput) {
					in.Flow = contract.FlowRef{Plan: longConversation(t, d.name, d.doc, dialect, &tc.context)}
				},
					Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry {
						s.ActivityRegistry = r
						return s
					}}.Execute(t)
				if tc.class != "" {
					if p.Err == nil || p.Err.Class != tc.class || p.Err.Node == "" {
						t.Errorf("failure = %+v, want class %s", p.Err, tc.class)
					}
					return
				}
				if p.Err != nil {
					t.Fatal(p.Err)
				}
				if !slices.ContainsFunc(p.Status.Executions, func(x contract.Execution) bool { return x.OmittedMessages > 0 }) {
					t.Errorf("no omitted messages in the status: %+v", p.Status.Executions)
				}
				s.checkOmissions(t, p, tc.context.How == plan.ContextSummarise)
			})
		}
	}
}

// longConversation compiles a document with the operator's policy and lets its agent write state.
func longConversation(t *testing.T, name, doc, dialect string, c *plan.Context) *plan.Flow {
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

// checkOmissions checks that omitted messages are replaced by a note, and that what is sent does not begin with a tool's result.
func (s *modelRecorder) checkOmissions(t *testing.T, p harness.Outcome, summarised bool) {
	t.Helper()
	shortened := 0
	for _, c := range s.calls {
		if c.Sent == nil || c.Sent.Skip == 0 {
			continue
		}
		shortened++
		want := fmt.Sprintf("[%d earlier messages of this conversation are omitted]", c.Sent.Skip)
		if summarised {
			want = "Summarized conversation: the gist"
		}
		if c.Sent.Note != want {
			t.Errorf("note = %q, want %q", c.Sent.Note, want)
		}
		if all := p.Messages(t, c.Base.Thread); all[c.Sent.Skip].Role == contract.RoleTool {
			t.Errorf("the first message that is sent, %d, is the result of an omitted call", c.Sent.Skip)
		}
	}
	if shortened == 0 {
		t.Errorf("no messages were omitted in %d calls", len(s.calls))
	}
}
