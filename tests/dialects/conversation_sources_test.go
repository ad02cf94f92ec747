package dialects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/starter/follow"
	"weft/starter/fork"
	"weft/starter/history"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/trace"
	"weft/starter/transcript"
	"weft/tests/harness"
	"weft/worker/config"
	"weft/workflows/plan"
)

// conversationCase is a run whose conversation is read from every source.
type conversationCase struct {
	// doc is a document in short form, see specDoc, or one of another dialect if name is set, its file name.
	doc, name, script string
	// answers is the number of requests that are answered before the run is ended by end, or left waiting; if negative, all are.
	answers int
	end     func(t *testing.T, h *harness.Worker, id string)
	// rejected means that confirmation requests are rejected.
	rejected bool
	// unordered means that branches add entries concurrently, in any order.
	unordered bool
	// from, if set, is the node at which the run is forked; the fork's conversation is checked, too.
	from string
	want int
}

func cancelRun(t *testing.T, h *harness.Worker, id string) {
	t.Helper()
	if err := h.Client.CancelWorkflow(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
}

func terminateRun(t *testing.T, h *harness.Worker, id string) {
	t.Helper()
	if err := h.Client.TerminateWorkflow(t.Context(), id, "", "test"); err != nil {
		t.Fatal(err)
	}
}

const (
	sameTexts = `flow: {nodes: {s: {component_type: StartNode}, m1: {component_type: OutputMessageNode, message: same}, m2: {component_type: OutputMessageNode, message: same},
 i1: {component_type: InputMessageNode, message: 'q?', outputs: [{title: a, type: string}]}, i2: {component_type: InputMessageNode, message: 'q?', outputs: [{title: b, type: string}]}, m3: {component_type: OutputMessageNode, message: same},
 e: {component_type: EndNode}}, go: [s > m1 > m2 > i1 > i2 > m3 > e]}`
	// longTexts has messages of 1.8 MB and 1.2 MB, more than one payload can hold. A fork of it would need execution records that are too large for a query.
	longTexts = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: x, type: string, default: DEFAULT}]}, m1: {component_type: OutputMessageNode, message: 'THRICE'}, m2: {component_type: OutputMessageNode, message: 'TWICE!'},
 t: {component_type: ToolNode, tool: {component_type: ServerTool, name: echo, outputs: [{title: e, type: string}]}}, i: {component_type: InputMessageNode, message: 'ok?', outputs: [{title: w, type: string}]}, m3: {component_type: OutputMessageNode, message: Bye.}, e: {component_type: EndNode}}, go: [s > m1 > m2 > t > i > m3 > e], data: [s.x > m1.x, s.x > m2.x]}`
	withTools = `flow: {nodes: {s: {component_type: StartNode}, m1: {component_type: OutputMessageNode, message: Hello.}, a: {component_type: AgentNode, agent: {component_type: Agent, name: a, llm_config: '@m', human_in_the_loop: false, system_prompt: A,
 outputs: [{title: r, type: string}], tools: [{component_type: ServerTool, name: echo, outputs: [{title: e, type: string}]}, {component_type: ClientTool, name: look, outputs: [{title: l, type: string}]}]}},
 t: {component_type: ToolNode, tool: {component_type: ServerTool, name: echo, outputs: [{title: e, type: string}]}}, i: {component_type: InputMessageNode, message: 'Well?', outputs: [{title: w, type: string}]}, e: {component_type: EndNode}}, go: [s > m1 > a > t > i > e]}`
	withToolsScript = `rules:
- {after: look, call: [{tool: submit_result, arguments: {r: done}}, {tool: echo, arguments: {}}]}
- {node: a, call: [{tool: echo, arguments: {}}, {tool: look, arguments: {}}]}
`
	elements = `
el: {nodes: {s1: {component_type: StartNode, inputs: [{title: q, type: string}]}, m1: {component_type: OutputMessageNode, message: 'Now.'}, i: {component_type: InputMessageNode, message: 'Which?', outputs: [{title: a, type: string}]},
 t: {component_type: ToolNode, tool: {component_type: ServerTool, name: echo, outputs: [{title: e, type: string}]}}, e1: {component_type: EndNode}}, go: [s1 > m1 > i > t > e1]}
talk: {nodes: {s2: {component_type: StartNode, inputs: [{title: q, type: string}]}, m2: {component_type: OutputMessageNode, message: 'Now.'}, a2: {component_type: AgentNode, agent: {component_type: Agent, name: a, llm_config: '@m', human_in_the_loop: false, system_prompt: A,
 outputs: [{title: r, type: string}]}}, e2: {component_type: EndNode}}, go: [s2 > m2 > a2 > e2]}
bad: {nodes: {s3: {component_type: StartNode}, m3: {component_type: OutputMessageNode, message: Trying.}, t3: {component_type: ToolNode, tool: {component_type: ServerTool, name: broken}}, e3: {component_type: EndNode}}, go: [s3 > m3 > t3 > e3]}
worse: {nodes: {s5: {component_type: StartNode, inputs: [{title: q, type: string}]}, m5: {component_type: OutputMessageNode, message: 'Trying {{q}}.'}, t5: {component_type: ToolNode, tool: {component_type: ServerTool, name: broken}}, e5: {component_type: EndNode}}, go: [s5 > m5 > t5 > e5], data: [s5.q > m5.q]}
outer: {nodes: {s6: {component_type: StartNode}, f: {component_type: FlowNode, subflow: '@bad'}, e6: {component_type: EndNode}}, go: [s6 > f > e6]}
inner: {nodes: {s4: {component_type: StartNode, inputs: [{title: qs, type: array, items: {type: string}, default: [a, b]}]}, n4: {component_type: ParallelMapNode, subflow: '@el'}, e4: {component_type: EndNode}}, go: [s4 > n4 > e4], data: [s4.qs > n4.iterated_q]}
`
	around    = `flow: {nodes: {s: {component_type: StartNode, inputs: [{title: qs, type: array, items: {type: string}, default: [a, b]}]}, m0: {component_type: OutputMessageNode, message: 'Now.'}, n: NODE, o: {component_type: OutputMessageNode, message: 'Now.'}, e: {component_type: EndNode}}, go: [s > m0 > n > o > e MORE]DATA}` + elements
	swarmFlow = `flow: {nodes: {s: {component_type: StartNode}, m1: {component_type: OutputMessageNode, message: Hello.}, a: {component_type: AgentNode, agent: {component_type: Swarm, name: sw, first_agent: '@alice', relationships: [['@alice', '@bob'], ['@bob', '@alice']], outputs: [{title: r, type: string}]}}, o: {component_type: OutputMessageNode, message: Hello.}, e: {component_type: EndNode}}, go: [s > m1 > a > o > e]}
alice: {component_type: Agent, llm_config: '@m', system_prompt: A, human_in_the_loop: false}
bob: {component_type: Agent, llm_config: '@m', system_prompt: B, human_in_the_loop: false}
`
	aliceScript = `rules:
- {after: send_message, call: [{tool: submit_result, arguments: {r: bob}}]}
- {node: a, call: [{tool: send_message, arguments: {recipient: bob, message: "Who?"}}]}
- {say: Me.}
`
)

func aroundNode(node, more, data string) string {
	return strings.NewReplacer("NODE", node, "MORE", more, "DATA", data).Replace(around)
}

func conversationCases() map[string]conversationCase {
	overQs := ", data: [s.qs > n.iterated_q]"
	talkScript := "rules:\n- {node: a2, call: [{tool: submit_result, arguments: {r: same}}]}\n"
	return map[string]conversationCase{
		"repeated texts":                  {doc: sameTexts, answers: -1, from: "m3", want: 7},
		"long texts":                      {doc: longTexts, answers: -1, want: 6},
		"an unanswered question":          {doc: sameTexts, want: 3},
		"an unanswered second question":   {doc: sameTexts, answers: 1, want: 5},
		"cancelled":                       {doc: sameTexts, answers: 1, end: cancelRun, want: 5},
		"terminated":                      {doc: sameTexts, answers: 1, end: terminateRun, want: 5},
		"an agent with tools":             {doc: withTools, script: withToolsScript, answers: -1, from: "t", want: 11},
		"a waiting agent":                 {doc: withTools, script: withToolsScript, want: 3},
		"a fork after an agent":           {doc: withTools, script: withToolsScript, answers: 1, from: "i", want: 10},
		"a map":                           {doc: aroundNode("{component_type: MapNode, subflow: '@el'}", "", overQs), answers: -1, from: "e", want: 10},
		"agents in a map":                 {doc: aroundNode("{component_type: MapNode, subflow: '@talk'}", "", overQs), script: talkScript, answers: -1, from: "n", want: 10},
		"agents in a parallel map":        {doc: aroundNode("{component_type: ParallelMapNode, subflow: '@talk'}", "", overQs), script: talkScript, answers: -1, unordered: true, want: 10},
		"a parallel map in a caught flow": {doc: aroundNode("{component_type: CatchExceptionNode, subflow: '@inner'}", ", n.caught_exception_branch > e", ""), answers: -1, unordered: true, from: "o", want: 10},
		"a caught failure":                {doc: aroundNode("{component_type: CatchExceptionNode, subflow: '@bad'}", ", n.caught_exception_branch > o", ""), answers: -1, from: "o", want: 4},
		"a failure":                       {doc: aroundNode("{component_type: ParallelFlowNode, subflows: ['@bad']}", "", ""), answers: -1, want: 3},
		"a failing element":               {doc: aroundNode("{component_type: MapNode, subflow: '@worse'}", "", overQs), answers: -1, want: 3},
		"failing parallel elements":       {doc: aroundNode("{component_type: ParallelMapNode, subflow: '@worse'}", "", overQs), answers: -1, unordered: true},
		"a failing nested flow":           {doc: aroundNode("{component_type: ParallelFlowNode, subflows: ['@outer', '@bad']}", "", ""), answers: -1, unordered: true},
		"a swarm":                         {doc: swarmFlow, script: aliceScript, answers: -1, from: "o", want: 7},
		"a rejected call": {doc: aroundNode("{component_type: ToolNode, tool: {component_type: ServerTool, name: echo, requires_confirmation: true, outputs: [{title: e, type: string}]}}", "", ""),
			answers: -1, rejected: true, want: 2},
		"a graph": {name: "graph.json", doc: harness.ForkAndJoin, answers: -1},
	}
}

// TestEndToEndConversationsAgree checks that the status, the transcript, follow and the trace have the same entries, whether a run
// has ended or waits. By default, branches are child workflows in runs that continue as new whenever possible, and in no others;
// with YIELDS set, all four combinations are tested.
func TestEndToEndConversationsAgree(t *testing.T) {
	t.Parallel()
	functions := []tool.Function{
		tool.Func("echo", "", func(context.Context, struct{}) (string, error) { return "same", nil }),
		tool.Func("broken", "", func(context.Context, struct{}) (string, error) { return "", errors.New("out of paper") }),
	}
	h := yieldWorker(t, harness.TestRun{Functions: functions})
	options := specadapter.Options{}
	options.UnboundTools = map[string]bool{"echo": true, "broken": true}
	for name, tc := range conversationCases() {
		long := strings.NewReplacer("DEFAULT", strings.Repeat("long ", 8_000), "THRICE", strings.Repeat("{{x}}", 45), "TWICE", strings.Repeat("{{x}}", 30))
		text, file := long.Replace(tc.doc), tc.name
		if file == "" {
			text, file = specDoc(t, text), "flow.json"
		}
		res, diags := specadapter.Load(file, []byte(text), options)
		if res == nil {
			t.Fatalf("%s: %v", name, diags)
		}
		for _, policy := range []string{"", plan.BranchesAsChildren} {
			for _, events := range []int{0, 1} {
				if os.Getenv("YIELDS") == "" && (policy == plan.BranchesAsChildren) != (events == 1) {
					continue
				}
				t.Run(fmt.Sprint(name, policy, events), func(t *testing.T) {
					t.Parallel()
					flow := *res.Flow
					flow.Policy.Branches = policy
					in := contract.RunInput{Flow: contract.FlowRef{Plan: &flow, Source: &res.Source}, MaxEvents: events, OnError: contract.OnErrorFail}
					if tc.script != "" {
						in.Script = harness.Script(t, tc.script)
					}
					run := h.Start(t, in)
					id := run.GetID()
					tc.play(t, h, id)
					tc.compare(t, h, id, tc.want)
					if tc.doc == longTexts && events == 0 {
						h.PlayRecording(t, id, run.GetRunID())
					}
					if tc.from != "" {
						tc.fork(t, h, id)
					}
				})
			}
		}
	}
}

// play answers requests of a run, and then ends it by end if that is set.
func (tc *conversationCase) play(t *testing.T, h *harness.Worker, id string) {
	t.Helper()
	for n := 0; ; {
		st := h.Status(t, id)
		r := tc.find(t, h, id)
		if !r.Open() {
			return
		}
		if len(st.Requests) == 0 {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if n == tc.answers {
			break
		}
		var err error
		switch q := st.Requests[0]; q.Kind {
		case contract.RequestMessage:
			_, err = h.Update(t, id, q.Kind, contract.MessageAnswer{ID: q.ID, Text: "yes"})
		case contract.RequestToolResult:
			_, err = h.Update(t, id, q.Kind, contract.ToolResultAnswer{ID: q.ID, Result: []byte(`"seen"`)})
		default:
			approve := !tc.rejected
			_, err = h.Update(t, id, q.Kind, contract.ConfirmAnswer{ID: q.ID, Approve: &approve})
		}
		if n++; err != nil && tc.find(t, h, id).Open() {
			t.Logf("answer: %v", err) // the run has continued as new meanwhile
			n--
		}
	}
	if tc.end != nil {
		tc.end(t, h, id)
		harness.WaitFor(t, "the end", func() bool { return !tc.find(t, h, id).Open() })
	}
}

func (tc *conversationCase) find(t *testing.T, h *harness.Worker, id string) *runs.Run {
	t.Helper()
	r, err := (&runs.Connection{Temporal: &config.Temporal{Client: h.Client}}).Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fork forks a run and checks the fork's conversation.
func (tc *conversationCase) fork(t *testing.T, h *harness.Worker, id string) {
	t.Helper()
	r := tc.find(t, h, id)
	tree, err := runtree.Read(t.Context(), history.From(h.Client), id, r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	in, err := fork.Input(t.Context(), r, tree, fork.Options{From: tc.from, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	run, err := h.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: h.Queue, ID: id + "-fork"}, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	again := *tc
	again.answers = -1
	again.play(t, h, run.GetID())
	again.compare(t, h, run.GetID(), 0)
}

// compare compares the conversation as read from each source; want, if positive, is the number of entries.
func (tc *conversationCase) compare(t *testing.T, h *harness.Worker, id string, want int) {
	t.Helper()
	r := tc.find(t, h, id)
	st, _, err := r.CurrentStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Open() && len(st.Requests) > 0 {
		t.Errorf("a closed run has open requests: %v", st.Requests)
	}
	var entries []string
	for i := range st.Conversation {
		entries = append(entries, entryLine(&st.Conversation[i]))
	}
	if want > 0 && len(entries) != want {
		t.Errorf("%d entries, want %d: %q", len(entries), want, entries)
	}
	read, err := transcript.Read(t.Context(), history.From(h.Client), id, r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range transcript.Lines(read.Threads()) {
		switch {
		case l.Message == nil:
			t.Errorf("message %d of %s is missing", l.N, l.Thread)
		case l.Thread == contract.ConversationThread:
			lines = append(lines, entryLine(l.Message))
			if l.Execution == "" && l.N > 0 || l.Time.IsZero() {
				t.Errorf("entry %d has no execution or no time: %+v", l.N, l)
			}
		}
	}
	agree(t, "transcript", lines, entries)
	followed := &followedEntries{}
	first := r.FromFirst(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { _, err := follow.New(first, followed).Follow(ctx); done <- err }()
	if r.Open() {
		harness.WaitFor(t, "all entries from follow", func() bool { return len(followed.all()) >= len(entries) })
	} else if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := followed.all()
	if !r.Open() {
		for range 3 {
			again := &followedEntries{}
			f := follow.New(first, again)
			f.Resume(follow.Position{})
			if _, err := f.Follow(ctx); err != nil {
				t.Fatal(err)
			}
			agree(t, "follow, once more", again.all(), got)
		}
	}
	if tc.unordered {
		slices.Sort(got)
		entries = slices.Clone(entries)
		slices.Sort(entries)
	}
	agree(t, "follow", got, entries)
	tc.compareTrace(t, h, id, r.RunID, st.Conversation)
}

// compareTrace compares the entries with those of the run's trace, and checks that each span starts and ends once.
func (tc *conversationCase) compareTrace(t *testing.T, h *harness.Worker, id, run string, entries []contract.Message) {
	t.Helper()
	tree, err := trace.Read(t.Context(), history.From(h.Client), id, run, trace.Options{Content: true})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, s := range tree.Spans {
		starts, ends := 0, 0
		for _, e := range s.Events {
			switch kind := e["type"].(string); {
			case kind == "ConversationMessageAdded":
				m := e["message"].(trace.Object)
				got = append(got, fmt.Sprintf("%s %s", m["role"], contract.Shown(m["content"].(string))))
			case strings.HasSuffix(kind, "ExecutionStart"):
				starts++
			case strings.HasSuffix(kind, "ExecutionEnd"), kind == "ExceptionRaised":
				ends++
			}
		}
		if strings.HasSuffix(s.Type, "ExecutionSpan") && s.Tool == nil && (starts != 1 || ends != 1 && tc.answers < 0) {
			t.Errorf("%s %s: %d starts, %d ends", s.Type, s.ID, starts, ends)
		}
	}
	for _, m := range entries {
		want = append(want, fmt.Sprintf("%s %s", m.Role, contract.Shown(harness.MessageText(m))))
	}
	slices.Sort(got)
	slices.Sort(want)
	agree(t, "trace", got, want)
}

// agree compares the entries of a source with those of the status.
func agree(t *testing.T, source string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant, as in the status:\n%s", source, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// entryLine formats a message as the status shows it.
func entryLine(m *contract.Message) string {
	line := fmt.Sprintf("%s %s %v %s", m.Role, m.Name, m.Error, contract.Shown(harness.MessageText(*m)))
	for _, c := range m.Calls {
		line += " → " + c.Name
	}
	return line
}

// followedEntries collects the messages of a followed run.
type followedEntries struct {
	mu    sync.Mutex
	lines []string
}

func (f *followedEntries) Notify(n progress.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.Event == progress.EventMessage {
		f.lines = append(f.lines, entryLine(n.Message))
	}
}

func (f *followedEntries) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}
