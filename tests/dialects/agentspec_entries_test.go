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

// entriesFlow has a message, a question, and tools of four kinds: in nodes of its own, in the elements of a map, and in flows
// beside each other. The agent behind them gets what was said, and no result of a tool.
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

// clientResults are what clients return for their tools.
var clientResults = map[string]string{"look": `"a cloud"`, "note": `"noted"`}

// entriesOf is a flow whose conversation has these entries, and what it needs.
func entriesOf(t *testing.T) (tools harness.TestRun, flow func(branches string) contract.FlowRef, want []string) {
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
	host := specadapter.Options{}
	host.UnboundTools = map[string]bool{"weather": true, "find": true}
	res, diags := specadapter.Load("flow.json", []byte(strings.ReplaceAll(specDoc(t, entriesFlow), "URL", tools.URL(t))), host)
	if res == nil {
		t.Fatal(diags)
	}
	flow = func(branches string) contract.FlowRef {
		own := *res.Flow
		own.Policy.Branches = branches
		return contract.FlowRef{Plan: &own, Source: &res.Source}
	}
	return tools, flow, []string{"assistant Welcome.", "assistant Which city?", "user Oslo", `tool weather {"degrees":21,"sky":"clear"}`, "tool look a cloud",
		"tool find found a", "tool find found b", "assistant Beside.", "tool long " + long[:1000], "assistant Bye."}
}

// TestConversationEntries asks a run for its conversation: the message, the question with its answer and each tool's result are
// entries, whichever kind of run has them, and the model gets no result.
func TestConversationEntries(t *testing.T) {
	t.Parallel()
	run, flow, want := entriesOf(t)
	for _, policy := range []string{"", plan.BranchesAsChildren} {
		people := nodeCase{results: clientResults, messages: []string{"Oslo"}}
		run.SetInput = func(in *contract.RunInput) { in.Flow = flow(policy) }
		run.Prepare = func(env *testsuite.TestWorkflowEnvironment) {
			for i := range 8 {
				env.RegisterDelayedCallback(func() { people.answer(t, env) }, time.Duration(i+1)*time.Hour)
			}
		}
		p := run.Execute(t)
		if p.Err != nil || string(p.Result.ResultData) != `{"r":"done"}` {
			t.Fatalf("%q: %+v, %v", policy, p.Result, p.Err)
		}
		var s contract.Status
		harness.Query(t, p.Env, contract.QueryStatus, &s)
		compareEntries(t, "the query status", s.Conversation, want)
	}
}

// TestEndToEndConversationEntries reads a flow's conversation where people see it.
func TestEndToEndConversationEntries(t *testing.T) {
	t.Parallel()
	tools, flow, want := entriesOf(t)
	h := yieldWorker(t, tools)
	for _, policy := range []string{"", plan.BranchesAsChildren} {
		for _, events := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s %d", policy, events), func(t *testing.T) {
				t.Parallel()
				run := h.Start(t, contract.RunInput{Flow: flow(policy), MaxEvents: events, Script: harness.Script(t, tools.Script)})
				first := run.GetRunID()
				harness.WaitFor(t, "the question", func() bool { return h.OpenRequests(t, run.GetID(), 1)[0].Text == "Which city?" })
				if _, err := h.Update(t, run.GetID(), contract.RequestMessage, contract.MessageAnswer{Text: "Oslo"}); err != nil {
					t.Fatal(err)
				}
				for _, tool := range []string{"look", "note"} {
					var q contract.Request
					harness.WaitFor(t, "the tool "+tool, func() bool { q = h.OpenRequests(t, run.GetID(), 1)[0]; return q.Tool == tool })
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

// compareEntries compares the entries of a conversation, but those of the agent.
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

// checkEntries reads a closed run's conversation in every way.
func checkEntries(t *testing.T, h *harness.Worker, id, first, last string, want []string) {
	t.Helper()
	compareEntries(t, "the query status", h.Status(t, id).Conversation, want)
	from := history.From(h.Client)
	read, err := transcript.Read(t.Context(), from, id, last)
	if err != nil {
		t.Fatal(err)
	}
	compareEntries(t, "the status of a closed run", read.Status().Conversation, want)
	for _, thread := range read.Threads() {
		if thread.Thread == contract.ConversationThread {
			var all []contract.Message
			for i, m := range thread.Messages {
				if m == nil {
					t.Fatalf("the transcript lacks message %d of %d", i+1, len(thread.Messages))
				}
				all = append(all, *m)
			}
			compareEntries(t, "the transcript", all, want)
		}
	}
	var notes entryNotes
	f := follow.New(&runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: h.Client}}, ID: id, RunID: first}, &notes)
	if _, err := f.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What is beside each other ends as it does.
	byText := func(x, y contract.Message) int { return strings.Compare(x.Text, y.Text) }
	slices.SortFunc(notes.messages, byText)
	want = slices.Clone(want)
	slices.SortFunc(want, func(x, y string) int { return strings.Compare(entryText(x), entryText(y)) })
	compareEntries(t, "follow", notes.messages, want)
	rec := h.PlayRecording(t, id, last)
	for _, entry := range want {
		text := entryText(entry)
		if !slices.Contains(rec.Expect.Said, text) {
			t.Errorf("the recording lacks %.100q: %.2000q", text, rec.Expect.Said)
		}
	}
}

// entryText is the text of an entry, without its role and its tool.
func entryText(entry string) string {
	role, text, _ := strings.Cut(entry, " ")
	if role == contract.RoleTool {
		_, text, _ = strings.Cut(text, " ")
	}
	return text
}

// entryNotes collects the messages of a followed run.
type entryNotes struct {
	mu       sync.Mutex
	messages []contract.Message
}

func (n *entryNotes) Notify(notice progress.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if notice.Event == progress.EventMessage && notice.Message != nil {
		n.messages = append(n.messages, *notice.Message)
	}
}
