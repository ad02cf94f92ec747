package dialects

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/starter/follow"
	"weft/starter/history"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/transcript"
	"weft/tests/harness"
	"weft/worker/config"
	"weft/workflows/plan"
)

// entriesFlow has an output message, an input message and tools of four kinds: in its own nodes, in the elements of a map and in
// parallel flows. The agent after them is sent the messages, but no tool results.
const entriesFlow = `
flow:
  nodes:
    s: {component_type: StartNode, inputs: [{title: qs, type: array, items: {type: string}, default: [a, b]}]}
    say: {component_type: OutputMessageNode, message: Welcome.}
    ask: {component_type: InputMessageNode, message: 'Which city?', outputs: [{title: city, type: string}]}
    sky: {component_type: ToolNode, tool: {component_type: ServerTool, name: weather, inputs: [{title: city, type: string}], outputs: [{title: sky, type: string}, {title: degrees}]}}
    look: {component_type: ToolNode, tool: {component_type: ClientTool, name: look, inputs: [{title: city, type: string}], outputs: [{title: seen, type: string}]}}
    each: {component_type: ParallelMapNode, subflow: '@one'}
    both: {component_type: ParallelFlowNode, subflows: ['@first', '@second']}
    sum: {component_type: AgentNode, agent: {component_type: Agent, name: a, llm_config: '@m', human_in_the_loop: false, system_prompt: A, outputs: [{title: r, type: string}], tools: [{component_type: ClientTool, name: note, inputs: [{title: city, type: string}], outputs: [{title: seen, type: string}]}]}}
    bye: {component_type: OutputMessageNode, message: Bye.}
    e: {component_type: EndNode, outputs: [{title: r, type: string}]}
  go: ["s > say > ask > sky > look > each > both > sum > bye > e"]
  data: [s.qs > each.iterated_q, ask.city > sky.city, ask.city > look.city, sum.r > e.r]
one: {nodes: {s1: {component_type: StartNode, inputs: [{title: q, type: string}]}, find: {component_type: ToolNode, tool: {component_type: ServerTool, name: find, inputs: [{title: q, type: string}], outputs: [{title: f, type: string}]}}, e1: {component_type: EndNode, outputs: [{title: f, type: string}]}}, go: [s1 > find > e1], data: [s1.q > find.q, find.f > e1.f]}
first: {nodes: {s2: {component_type: StartNode}, note: {component_type: OutputMessageNode, message: Beside.}, e2: {component_type: EndNode}}, go: [s2 > note > e2]}
second: {nodes: {s3: {component_type: StartNode}, api: {component_type: ToolNode, tool: {component_type: MCPTool, name: long, outputs: [{title: t, type: string}], client_transport: {component_type: StreamableHTTPTransport, name: web, url: URL}}}, e3: {component_type: EndNode}}, go: [s3 > api > e3]}
`

// clientResults are the results of client-side tools.
var clientResults = map[string]string{"look": `"a cloud"`, "note": `"noted"`}

// entriesSetup returns the tools and the script of entriesFlow, its compiled form by branch policy, and the expected entries.
func entriesSetup(t *testing.T) (tools harness.TestRun, flow func(branches string) contract.FlowRef, want []string) {
	t.Helper()
	long := strings.Repeat("long ", 1000)
	find := tool.Func("find", "", func(_ context.Context, in struct {
		Q string `json:"q"`
	}) (string, error) {
		return "found " + in.Q, nil
	})
	tools = harness.TestRun{Functions: append(slices.Clone(exampleFunctions), find), ToolSettings: tool.Settings{AllowPrivate: true}, Tools: map[string]func(string) (string, bool){
		"long": func(string) (string, bool) { return long, false },
	}, Script: `rules:
- {match: ., contains: cloud, fail: {class: refused, text: the model got a result}}
- {after: note, call: {tool: submit_result, raw: '{"r": "done"}'}}
- {contains: Oslo, call: {tool: note, raw: '{"city": "Oslo"}'}}`}
	options := specadapter.Options{}
	options.UnboundTools = map[string]bool{"weather": true, "find": true}
	res, diags := specadapter.Load("flow.json", []byte(strings.ReplaceAll(specDoc(t, entriesFlow), "URL", tools.ServeTools(t))), options)
	if res == nil {
		t.Fatal(diags)
	}
	flow = func(branches string) contract.FlowRef {
		f := *res.Flow
		f.Policy.Branches = branches
		return contract.FlowRef{Plan: &f, Source: &res.Source}
	}
	return tools, flow, []string{"assistant Welcome.", "assistant Which city?", "user Oslo", `tool weather {"degrees":21,"sky":"clear"}`, "tool look a cloud",
		"tool find found a", "tool find found b", "assistant Beside.", "tool long " + long[:1000], "assistant Bye."}
}

// TestConversationEntries checks a run's conversation: messages, questions with their answers and tool results are entries,
// including those of child workflows, and the model is sent no tool results.
func TestConversationEntries(t *testing.T) {
	t.Parallel()
	run, flow, want := entriesSetup(t)
	for _, policy := range []string{"", plan.BranchesAsChildren} {
		answers := nodeCase{results: clientResults, messages: []string{"Oslo"}}
		run.SetInput = func(in *contract.RunInput) { in.Flow = flow(policy) }
		run.Prepare = func(env *testsuite.TestWorkflowEnvironment) {
			for i := range 8 {
				env.RegisterDelayedCallback(func() { answers.answer(t, env) }, time.Duration(i+1)*time.Hour)
			}
		}
		p := run.Execute(t)
		if p.Err != nil || string(p.Result.ResultData) != `{"r":"done"}` {
			t.Fatalf("%q: %+v, %v", policy, p.Result, p.Err)
		}
		var s contract.Status
		harness.Query(t, p.Env, contract.QueryStatus, &s)
		compareEntries(t, "status query", s.Conversation, want)
	}
}

// TestEndToEndConversationEntries checks the conversation that users see: status, transcript, follow and recording.
func TestEndToEndConversationEntries(t *testing.T) {
	t.Parallel()
	tools, flow, want := entriesSetup(t)
	h := yieldWorker(t, tools)
	for _, policy := range []string{"", plan.BranchesAsChildren} {
		for _, events := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s %d", policy, events), func(t *testing.T) {
				t.Parallel()
				run := h.Start(t, contract.RunInput{Flow: flow(policy), MaxEvents: events, Script: harness.Script(t, tools.Script)})
				first := run.GetRunID()
				harness.WaitFor(t, "the input request", func() bool { return h.WaitForRequests(t, run.GetID(), 1)[0].Text == "Which city?" })
				if _, err := h.Update(t, run.GetID(), contract.RequestMessage, contract.MessageAnswer{Text: "Oslo"}); err != nil {
					t.Fatal(err)
				}
				for _, tool := range []string{"look", "note"} {
					var q contract.Request
					harness.WaitFor(t, "the call of "+tool, func() bool { q = h.WaitForRequests(t, run.GetID(), 1)[0]; return q.Tool == tool })
					if _, err := h.Update(t, run.GetID(), contract.RequestToolResult, contract.ToolResultAnswer{ID: q.ID, Result: []byte(clientResults[tool])}); err != nil {
						t.Fatal(err)
					}
				}
				if out, err := harness.Result(t, run); err != nil || string(out.ResultData) != `{"r":"done"}` {
					t.Fatal(out, err)
				}
				checkEntries(t, h, run.GetID(), first, run.GetRunID(), want)
			})
		}
	}
}

// compareEntries compares the entries of a conversation, except those of the agent.
func compareEntries(t *testing.T, where string, messages []contract.Message, want []string) {
	t.Helper()
	var got []string
	for _, m := range messages {
		if len(m.Calls) == 0 && m.Name != "submit_result" && m.Name != "note" && m.Text != "Begin." {
			got = append(got, strings.TrimSuffix(m.Role+" "+m.Name, " ")+" "+m.Text)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%.3000s\nwant\n%.3000s", where, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkEntries compares a closed run's conversation as read from each source.
func checkEntries(t *testing.T, h *harness.Worker, id, first, last string, want []string) {
	t.Helper()
	compareEntries(t, "status query", h.Status(t, id).Conversation, want)
	from := history.From(h.Client)
	read, err := transcript.Read(t.Context(), from, id, last)
	if err != nil {
		t.Fatal(err)
	}
	compareEntries(t, "status of a closed run", read.Status().Conversation, want)
	for _, thread := range read.Threads() {
		if thread.Thread == contract.ConversationThread {
			var messages []contract.Message
			for i, m := range thread.Messages {
				if m == nil {
					t.Fatalf("the transcript lacks message %d of %d", i+1, len(thread.Messages))
				}
				messages = append(messages, *m)
			}
			compareEntries(t, "transcript", messages, want)
		}
	}
	var followed entryCollector
	f := follow.New(&runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: h.Client}}, ID: id, RunID: first}, &followed)
	if _, err := f.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The entries of parallel branches have no fixed order.
	byText := func(x, y contract.Message) int { return strings.Compare(x.Text, y.Text) }
	slices.SortFunc(followed.messages, byText)
	want = slices.Clone(want)
	slices.SortFunc(want, func(x, y string) int { return strings.Compare(entryText(x), entryText(y)) })
	compareEntries(t, "follow", followed.messages, want)
	rec := h.PlayRecording(t, id, last)
	for _, entry := range want {
		text := entryText(entry)
		if !slices.Contains(rec.Expect.Said, text) {
			t.Errorf("the recording has no %.100q: %.2000q", text, rec.Expect.Said)
		}
	}
}

// entryText returns the text of an entry, without role and tool.
func entryText(entry string) string {
	role, text, _ := strings.Cut(entry, " ")
	if role == contract.RoleTool {
		_, text, _ = strings.Cut(text, " ")
	}
	return text
}

// entryCollector collects the messages of a followed run.
type entryCollector struct {
	mu       sync.Mutex
	messages []contract.Message
}

func (c *entryCollector) Notify(n progress.Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.Event == progress.EventMessage && n.Message != nil {
		c.messages = append(c.messages, *n.Message)
	}
}
