package dialects

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// modelRecorder is an activity registry that records model calls and summaries.
type modelRecorder struct {
	worker.ActivityRegistry
	calls     []contract.ModelInput
	summaries []contract.SummariseInput
	// refuse is the number of model calls, after the third, that fail because the conversation is too long.
	refuse int
	// size is the context size that the model's server reports.
	size int
}

func (s *modelRecorder) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	switch real := fn.(type) {
	case func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error):
		fn = func(ctx context.Context, in contract.ModelInput, g *contract.Grant) (*contract.ModelResult, error) {
			s.calls = append(s.calls, in)
			if s.refuse > 0 && len(s.calls) > 3 {
				s.refuse--
				return nil, (&contract.Failure{Class: contract.ClassContextLength, Text: "too long"}).ApplicationError()
			}
			out, err := real(ctx, in, g)
			if err == nil {
				out.Context = s.size
			}
			return out, err
		}
	case func(context.Context, contract.SummariseInput, *contract.Grant) (*contract.SummariseResult, error):
		fn = func(ctx context.Context, in contract.SummariseInput, g *contract.Grant) (*contract.SummariseResult, error) {
			s.summaries = append(s.summaries, in)
			return real(ctx, in, g)
		}
	}
	s.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// talker returns a plan with one agent, which can call a built-in tool.
func talker(c *plan.Context) *plan.Flow {
	f := harness.GraphPlan("talker", []harness.GraphNode{{ID: "a", Exit: true}}, []harness.GraphEdge{{Source: "START", Target: "a"}, {Source: "a", Target: "END"}})
	f.Nodes[0].Agent.Builtins, f.Nodes[0].Agent.Context = []string{plan.BuiltinSetState}, c
	return f
}

// TestContextPolicies checks which messages a model is sent when a conversation is too long for the policy, and that a call that the
// model refuses for its length is retried once.
func TestContextPolicies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		context   *plan.Context
		refuse    int
		size      int
		skips     []int
		summaries [][2]int
		class     string
	}{
		"no policy":                       {skips: []int{0, 0, 0, 0, 0}},
		"no policy, refused":              {refuse: 1, skips: []int{0, 0, 0, 0}, class: contract.ClassContextLength},
		"fail":                            {context: &plan.Context{How: plan.ContextFail, Tokens: 120}, skips: []int{0, 0}, class: contract.ClassContextLength},
		"fail, refused":                   {context: &plan.Context{How: plan.ContextFail}, refuse: 1, skips: []int{0, 0, 0, 0}, class: contract.ClassContextLength},
		"truncate":                        {context: &plan.Context{How: plan.ContextTruncate, Messages: 4, Keep: 2}, skips: []int{0, 0, 3, 6, 8}},
		"truncate by tokens":              {context: &plan.Context{How: plan.ContextTruncate, Tokens: 120}, skips: []int{0, 0, 3, 6, 6}},
		"truncate by the context size":    {context: &plan.Context{How: plan.ContextTruncate}, size: 160, skips: []int{0, 0, 3, 6, 6}},
		"context size below the policy's": {context: &plan.Context{How: plan.ContextTruncate, Tokens: 1000}, size: 160, skips: []int{0, 0, 3, 6, 6}},
		"context size above the policy's": {context: &plan.Context{How: plan.ContextTruncate, Tokens: 120}, size: 8192, skips: []int{0, 0, 3, 6, 6}},
		"context size without a policy":   {size: 160, skips: []int{0, 0, 0, 0, 0}},
		"truncate by characters":          {context: &plan.Context{How: plan.ContextTruncate, Characters: 700, Keep: 2}, skips: []int{0, 0, 0, 6, 6}},
		"refused once":                    {context: &plan.Context{How: plan.ContextTruncate}, refuse: 1, skips: []int{0, 0, 0, 0, 6, 6}},
		"refused twice":                   {context: &plan.Context{How: plan.ContextTruncate}, refuse: 2, skips: []int{0, 0, 0, 0, 6}, class: contract.ClassContextLength},
		"summarise": {context: &plan.Context{How: plan.ContextSummarise, Messages: 4, Keep: 2, Summary: &plan.DefaultSummary},
			skips: []int{0, 0, 3, 6, 8}, summaries: [][2]int{{0, 3}, {3, 6}, {6, 8}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var s *modelRecorder
			f := talker(tc.context)
			if problems := f.Check(); len(problems) > 0 {
				t.Fatal(problems)
			}
			p := harness.TestRun{Script: strings.ReplaceAll(harness.TalkerScript, "WORD", strings.Repeat("word ", 30)), SetInput: func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: f} },
				Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry {
					s = &modelRecorder{ActivityRegistry: r, refuse: tc.refuse, size: tc.size}
					return s
				}}.Execute(t)
			var skips []int
			var summaries [][2]int
			for _, c := range s.calls {
				skip := 0
				if c.Sent != nil {
					skip = c.Sent.Skip
					if want := map[bool]string{true: "Summarized conversation: the gist", false: fmt.Sprintf("[%d earlier messages of this conversation are omitted]", skip)}[tc.summaries != nil]; c.Sent.Note != want {
						t.Errorf("note = %q, want %q", c.Sent.Note, want)
					}
				}
				skips = append(skips, skip)
			}
			for _, c := range s.summaries {
				summaries = append(summaries, [2]int{c.From, c.To})
			}
			if fmt.Sprint(skips) != fmt.Sprint(tc.skips) || fmt.Sprint(summaries) != fmt.Sprint(tc.summaries) {
				t.Errorf("omitted %v with summaries %v, want %v and %v", skips, summaries, tc.skips, tc.summaries)
			}
			if tc.class != "" {
				if p.Err == nil || p.Err.Class != tc.class {
					t.Errorf("error = %v, want class %s", p.Err, tc.class)
				}
				return
			}
			if p.Err != nil || p.Status.Executions[0].OmittedMessages != skips[len(skips)-1] {
				t.Errorf("executions = %+v, %v", p.Status.Executions, p.Err)
			}
			var page contract.TranscriptPage
			harness.Query(t, p.Env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: "a#1"})
			if page.Total != 11 {
				t.Errorf("the conversation has %d messages, want 11", page.Total)
			}
		})
	}
}

func TestAgentSpecDigest(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{Document: harness.AgentspecDigest, Script: harness.AgentspecDigestScript}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != `{"n":4}` || p.Status.Executions[0].OmittedMessages == 0 || p.Result.Usage.Calls < 7 {
		t.Errorf("result = %+v, executions = %+v, %v", p.Result, p.Status.Executions, p.Err)
	}
	if got := threadOf(t, p, "conversation"); strings.Contains(got, "In short") || strings.Count(got, "Nobody reads") != 3 {
		t.Errorf("conversation:\n%s", got)
	}
}

// agentspecDigests has two transforms of each kind; the second is applied to the output of the first.
const agentspecDigests = `{"component_type":"Agent","agentspec_version":"26.1.2","name":"digests","llm_config":{"$component_ref":"m"},"system_prompt":"x","human_in_the_loop":false,"outputs":[{"title":"n","type":"integer"}],
"transforms":[{"component_type":"MessageSummarizationTransform","name":"l","llm":{"$component_ref":"m"},"max_message_size":30,"summarization_instructions":"Shorten.","summarized_message_template":"In short: {{summary}}"},
{"component_type":"ConversationSummarizationTransform","name":"c","llm":{"$component_ref":"m"},"max_num_messages":4,"min_num_messages":3,"summarization_instructions":"First."},
{"component_type":"MessageSummarizationTransform","name":"k","llm":{"$component_ref":"m"},"max_message_size":15,"summarized_message_template":"Tiny: {{summary}}"},
{"component_type":"ConversationSummarizationTransform","name":"d","llm":{"$component_ref":"m"},"max_num_characters":60,"min_num_messages":1,"summarization_instructions":"Second.","summarized_conversation_template":"So far: {{summary}}"}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"}}}`

const agentspecDigestsScript = `rules:
- {kind: condense, contains: "<earlier>\nIn short: reminded", say: r}
- {kind: condense, contains: "Begin.", say: all that was said so far and a little more}
- {kind: condense, contains: "<message", say: reminded}
- {turn: 1, say: think}
- {turn: 2, match: "^Tiny: r$", say: again}
- {turn: 3, match: "^Tiny: r$", say: more}
- {turn: 4, match: "^Tiny: r$", call: [{tool: submit_result, arguments: {n: 4}}]}`

func TestAgentSpecDigests(t *testing.T) {
	t.Parallel()
	recorder := &modelRecorder{}
	p := harness.TestRun{Document: agentspecDigests, Script: agentspecDigestsScript, Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry {
		recorder.ActivityRegistry = r
		return recorder
	}}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != `{"n":4}` {
		t.Fatalf("result = %+v, %v", p.Result, p.Err)
	}
	var got []string
	for _, s := range recorder.summaries {
		got = append(got, fmt.Sprintf("%s %d-%d %q", strings.Fields(s.Instructions)[0], s.From, s.To, s.Before))
	}
	want := []string{`Shorten. 2-3 ""`, `Please 2-2 "In short: reminded"`, `Shorten. 4-5 ""`, `Please 4-4 "In short: reminded"`, `First. 0-2 ""`,
		`Second. 2-4 "Summarized conversation: all that was said so far and a little more"`, `Shorten. 6-7 ""`, `Please 6-6 "In short: reminded"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if last := recorder.calls[len(recorder.calls)-1].Sent; last == nil || last.Skip != 4 || last.Note != "So far: reminded" {
		t.Errorf("sent in the last call = %+v", last)
	}
}
