package services

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/workflows/plan"
)

// What servers of tools ask.
const (
	asksPerson = `{"method":"elicitation/create","params":{"message":"For how many?","requestedSchema":{"type":"object",` +
		`"properties":{"n":{"type":"integer"},"when":{"type":"string","default":"noon"}},"required":["n"]}}}`
	asksURL   = `{"method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"https://example.com/in","elicitationId":"e1"}}`
	asksModel = `{"method":"sampling/createMessage","params":{"systemPrompt":"Be brief.","messages":[{"role":"user","content":{"type":"text","text":"Guess."}}],"maxTokens":9000}}`
	asksRoots = `{"method":"roots/list"}`
)

// serving serves an asking server, and returns its address.
func serving(t *testing.T, s *programs.AskingServer) string {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL + "/mcp"
}

// withTools has the agents of a flow call tools of the connection web.
func withTools(f *plan.Flow, names ...string) *plan.Flow {
	f.Connections = append(f.Connections, plan.Connection{ID: "web"})
	for i := range f.Nodes {
		f.Nodes[i].Agent.Tools = nil
		for _, name := range names {
			f.Nodes[i].Agent.Tools = append(f.Nodes[i].Agent.Tools, plan.Tool{Name: name, As: name, Connection: "web"})
		}
	}
	return f
}

// toolWorker is the only worker of its queue, with the connection web. replace puts another one in its place.
func toolWorker(t *testing.T, c tool.Connection) (h *harness.Worker, replace func()) {
	t.Helper()
	h = &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	stop := func() {}
	replace = func() {
		t.Helper()
		stop()
		tools, err := tool.Open(tool.Settings{Connections: map[string]tool.Connection{"web": c}})
		if err != nil {
			t.Fatal(err)
		}
		w := harness.RunWorker(t, h.Client, h.Queue, 0, tools)
		stop = func() { w.Stop(); tools.Close() }
	}
	replace()
	t.Cleanup(func() { stop() })
	return h, replace
}

// TestEndToEndToolAsksInACall has a server ask a person while it holds the call.
func TestEndToEndToolAsksInACall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer map[string]any
		hold   time.Duration
		died   bool
		want   string
	}{
		"accepted":        {answer: map[string]any{"result": map[string]any{"n": 4}}, want: `{"action":"accept","content":{"n":4,"when":"noon"}}`},
		"declined":        {answer: map[string]any{"error": "we stay at home"}, want: `{"action":"decline"}`},
		"nobody":          {hold: time.Second, want: "nobody answered in time"},
		"the worker dies": {died: true, want: "outcome unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serving(t, &programs.AskingServer{Asks: []string{asksPerson}})
			h, replace := toolWorker(t, tool.Connection{URL: url, Timeout: 30 * time.Second, Elicitation: tc.hold})
			f := withTools(harness.OneAgent(), "book")
			raw, _ := json.Marshal(tc.want)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: book}]}
- {contains: `+string(raw)+`, say: done}
- {say: something else}`)})
			if tc.hold == 0 {
				q := h.OpenRequests(t, run.GetID(), 1)[0]
				if q.Kind != contract.RequestToolResult || q.Text != "book asks: For how many?" || q.Tool != "book" {
					t.Errorf("the request is %+v", q)
				}
				if tc.died {
					replace()
				} else {
					if _, err := h.Update(t, run.GetID(), q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"n": "four"}}); err == nil || !strings.Contains(err.Error(), "integer") {
						t.Errorf("a wrong answer gives %v", err)
					}
					tc.answer["id"] = q.ID
					if _, err := h.Update(t, run.GetID(), q.Kind, tc.answer); err != nil {
						t.Fatal(err)
					}
				}
			}
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if *out.ResultText != "done" {
				t.Errorf("the model said %q", *out.ResultText)
			}
		})
	}
}

// TestEndToEndToolAsksTheModel has servers of both generations ask the run's model, and for roots.
func TestEndToEndToolAsksTheModel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		modern bool
		// events, if set, has the run continue as new.
		events int
		budget *contract.Budget
		asks   int
		rule   string
		want   string
		calls  int
		// thread is where the question stands in the transcript.
		thread string
	}{
		"while it holds the call": {asks: 1, want: `"text":"Four."`, calls: 3, thread: "b1#1:book~1.1.held1"},
		"before it answers":       {modern: true, asks: 1, want: `"text":"Four."`, calls: 3, thread: "b1#1:book~1.1.1.1"},
		"in several runs":         {modern: true, asks: 1, events: 1, want: `"text":"Four."`, calls: 3},
		"too often":               {modern: false, asks: 25, want: "at most 20 requests are allowed per call", calls: 22},
		"which fails, held":       {asks: 1, rule: "fail: {class: refused}", want: "the model did not answer: refused", calls: 2},
		"which fails":             {modern: true, asks: 1, rule: "fail: {class: refused}", want: "the model did not answer the question of the server", calls: 2},
		"beyond the budget, held": {asks: 2, budget: &contract.Budget{Calls: 3}, want: "x"},
		"beyond the budget":       {modern: true, asks: 2, budget: &contract.Budget{Calls: 2}, want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &programs.AskingServer{Modern: tc.modern, Asks: append(slices.Repeat([]string{asksModel}, tc.asks), asksRoots)}
			h, _ := toolWorker(t, tool.Connection{URL: serving(t, s), SamplingTokens: 50, Roots: []string{"file:///srv/a"}})
			rule := tc.rule
			if rule == "" {
				rule = "say: Four., usage: {input: 5, output: 7}"
			}
			want, _ := json.Marshal(tc.want)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: withTools(harness.OneAgent(), "book")}, MaxEvents: tc.events, Budget: tc.budget, Script: harness.Script(t, `rules:
- {contains: Guess., `+rule+`}
- {turn: 1, call: [{tool: book}]}
- {contains: `+string(want)+`, say: done}
- {say: something else}`)})
			out, err := harness.Result(t, run)
			if tc.budget != nil {
				if class := harness.ErrorType(err); class != contract.ClassBudget {
					t.Errorf("the run ends with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.thread != "" {
				v, err := h.Client.QueryWorkflow(t.Context(), run.GetID(), "", contract.QueryTranscript, contract.TranscriptQuery{Thread: tc.thread})
				var page contract.TranscriptPage
				if err != nil || v.Get(&page) != nil || page.Total != 2 || !strings.Contains(string(page.Messages[1]), "Four.") {
					t.Errorf("the thread has %s, %v", page.Messages, err)
				}
			}
			if *out.ResultText != "done" || out.Usage.Made() != tc.calls {
				t.Errorf("the model said %q after %d calls", *out.ResultText, out.Usage.Made())
			}
			if strings.HasPrefix(tc.want, `"text"`) && (out.Usage.Input < 5 || out.Usage.Output < 7) {
				t.Errorf("the usage is %+v", out.Usage)
			}
		})
	}
}

// TestEndToEndToolAsksBelow has servers ask in branches, in the run itself and as children, and in sub-agents, which are
// answered at the run at the root; and one run that is cancelled while it is asked.
func TestEndToEndToolAsksBelow(t *testing.T) {
	t.Parallel()
	const script = `rules:
- {node: a, turn: 1, call: [{tool: book}]}
- {node: b, turn: 1, call: [{tool: book}]}
- {node: b1, turn: 1, call: [{tool: ask, arguments: {user_question: Book it.}}]}
- {contains: '"n":4', say: booked}
- {contains: booked, say: done}
- {say: something else}`
	fork := func() *plan.Flow {
		f := harness.FanIn("fork", "a", "b")
		nodes := f.Nodes
		f = withTools(f, "book")
		nodes[0].Agent.Tools = nil
		return f
	}
	for name, tc := range map[string]struct {
		flow func() *plan.Flow
		asks int
	}{
		"in place":    {fork, 2},
		"as children": {func() *plan.Flow { return harness.AsChildren(fork()) }, 2},
		"a sub-agent": {func() *plan.Flow {
			f := harness.OneAgent()
			sub := withTools(harness.GraphPlan("sub", []harness.GraphNode{{ID: "a", Exit: true}},
				[]harness.GraphEdge{{Source: plan.Start, Target: "a"}, {Source: "a", Target: plan.End}}), "book")
			f.Agents = []plan.Flow{*sub}
			f.Connections = []plan.Connection{{ID: "helper", Kind: plan.ConnectionAgent, Agent: "sub"}, {ID: "web"}}
			f.Nodes[0].Agent.Tools = []plan.Tool{{Name: "call_sub_agent", As: "ask", Connection: "helper"}}
			f.Agents[0].ID = "sub"
			return f
		}, 1},
	} {
		for _, cancel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/cancel=%t", name, cancel), func(t *testing.T) {
				t.Parallel()
				h, _ := toolWorker(t, tool.Connection{URL: serving(t, &programs.AskingServer{Asks: []string{asksPerson}})})
				run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: tc.flow()}, Script: harness.Script(t, script)})
				open := h.OpenRequests(t, run.GetID(), tc.asks)
				if cancel {
					if err := h.Client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
						t.Fatal(err)
					}
					if _, err := harness.Result(t, run); !contract.Cancelled(err) && !temporal.IsCanceledError(err) {
						t.Errorf("the run ends with %v", err)
					}
					if s := h.Status(t, run.GetID()); len(s.Requests) != 0 {
						t.Errorf("open is still %+v", s.Requests)
					}
					return
				}
				for _, q := range open {
					if _, err := h.Update(t, run.GetID(), q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"n": 4}}); err != nil {
						t.Fatal(err)
					}
				}
				if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
					t.Errorf("the run ends with %v, %v", out, err)
				}
			})
		}
	}
}

// TestEndToEndURLs has servers want URLs to be opened: in a call, and before they take one.
func TestEndToEndURLs(t *testing.T) {
	t.Parallel()
	urls := `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/in","message":"Log in"}]}`
	for name, tc := range map[string]struct {
		server *programs.AskingServer
		answer map[string]any
		want   string
		calls  int
	}{
		"in a call":              {server: &programs.AskingServer{Asks: []string{asksURL}}, answer: map[string]any{"result": true}, want: `{"action":"accept"}`, calls: 1},
		"in a call, refused":     {server: &programs.AskingServer{Asks: []string{asksURL}}, answer: map[string]any{"error": "no"}, want: `{"action":"decline"}`, calls: 1},
		"before a call":          {server: &programs.AskingServer{URLs: urls, Refusals: 1}, answer: map[string]any{"result": true}, want: "booked", calls: 2},
		"before a call, refused": {server: &programs.AskingServer{URLs: urls, Refusals: 1}, answer: map[string]any{"error": "no"}, want: "book was not called", calls: 1},
		"it is told":             {server: &programs.AskingServer{Asks: []string{asksURL}, Note: `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`}, want: `{"action":"accept"}`, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.server
			h, _ := toolWorker(t, tool.Connection{URL: serving(t, s)})
			want, _ := json.Marshal(tc.want)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: withTools(harness.OneAgent(), "book")}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: book}]}
- {contains: `+string(want)+`, say: done}
- {say: something else}`)})
			if tc.answer != nil {
				q := h.OpenRequests(t, run.GetID(), 1)[0]
				if q.Text != "book asks: Log in https://example.com/in" {
					t.Errorf("the request is %+v", q)
				}
				tc.answer["id"] = q.ID
				if _, err := h.Update(t, run.GetID(), q.Kind, tc.answer); err != nil {
					t.Fatal(err)
				}
			}
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if *out.ResultText != "done" || s.Calls() != tc.calls {
				t.Errorf("the model said %q after %d calls of the tool", *out.ResultText, s.Calls())
			}
		})
	}
}

// TestEndToEndCancelledWhileItYields cancels a run whose branch has yielded while it waits for a task, and whose other branch
// keeps it from going on in a new run: the task is cancelled.
func TestEndToEndCancelledWhileItYields(t *testing.T) {
	t.Parallel()
	s := &programs.TaskServer{Modern: true, States: []string{"working"}, PollMillis: 1000}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	h, _ := toolWorker(t, tool.Connection{URL: web.URL})
	f := harness.AsChildren(harness.FanIn("fork", "a", "b", "c"))
	f.Connections = []plan.Connection{{ID: "web"}}
	f.Nodes[1].Agent.Tools = []plan.Tool{{Name: "search", As: "search", Connection: "web"}}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: 80, Script: harness.Script(t, `rules:
- {node: a, turn: 1, call: [{tool: search}]}
- {node: b, say: late, delay: 1h}
- {say: done}`)})
	asked := func(method string) bool { return slices.Contains(s.Requests(), method) }
	harness.WaitFor(t, "a look at the task", func() bool { return asked("tasks/get") })
	for range 25 { // until the run wants to go on in a new one
		if _, err := h.Update(t, run.GetID(), contract.RequestMessage, map[string]any{"text": "Hello."}); err != nil {
			t.Fatal(err)
		}
	}
	harness.WaitFor(t, "the branch to yield", func() bool {
		out, err := h.Client.DescribeWorkflowExecution(t.Context(), run.GetID()+"/a#1", "")
		return err == nil && out.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
	if asked("tasks/cancel") {
		t.Error("the task was cancelled too early")
	}
	if err := h.Client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); !temporal.IsCanceledError(err) {
		t.Errorf("the run ends with %v", err)
	}
	if !asked("tasks/cancel") {
		t.Errorf("the server was asked %q", s.Requests())
	}
}
