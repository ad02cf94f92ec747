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

// Requests of MCP servers to the client.
const (
	elicitation = `{"method":"elicitation/create","params":{"message":"For how many?","requestedSchema":{"type":"object",` +
		`"properties":{"n":{"type":"integer"},"when":{"type":"string","default":"noon"}},"required":["n"]}}}`
	urlElicitation  = `{"method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"https://example.com/in","elicitationId":"e1"}}`
	samplingRequest = `{"method":"sampling/createMessage","params":{"systemPrompt":"Be brief.","messages":[{"role":"user","content":{"type":"text","text":"Guess."}}],"maxTokens":9000}}`
	rootsRequest    = `{"method":"roots/list"}`
)

// serveAsking serves an MCP server that sends requests, and returns its URL.
func serveAsking(t *testing.T, s *programs.RequestingServer) string {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL + "/mcp"
}

// withTools gives the agents of a flow tools of the connection web.
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

// toolWorker starts the only worker of a task queue, with the connection web. replace replaces it with a new worker.
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

// TestEndToEndToolAsksInACall checks requests for user input that a server sends during a call.
func TestEndToEndToolAsksInACall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer   map[string]any
		timeout  time.Duration
		replaced bool
		want     string
	}{
		"accepted":        {answer: map[string]any{"result": map[string]any{"n": 4}}, want: `{"action":"accept","content":{"n":4,"when":"noon"}}`},
		"declined":        {answer: map[string]any{"error": "we stay at home"}, want: `{"action":"decline"}`},
		"no answer":       {timeout: time.Second, want: "nobody answered in time"},
		"the worker dies": {replaced: true, want: "outcome unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serveAsking(t, &programs.RequestingServer{Requests: []string{elicitation}})
			h, replace := toolWorker(t, tool.Connection{URL: url, Timeout: 30 * time.Second, Elicitation: tc.timeout})
			f := withTools(harness.OneAgent(), "book")
			raw, _ := json.Marshal(tc.want)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: book}]}
- {contains: `+string(raw)+`, say: done}
- {say: something else}`)})
			if tc.timeout == 0 {
				q := h.WaitForRequests(t, run.GetID(), 1)[0]
				if q.Kind != contract.RequestToolResult || q.Text != "book asks: For how many?" || q.Tool != "book" {
					t.Errorf("request = %+v", q)
				}
				if tc.replaced {
					replace()
				} else {
					if _, err := h.Update(t, run.GetID(), q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"n": "four"}}); err == nil || !strings.Contains(err.Error(), "integer") {
						t.Errorf("invalid answer: error = %v", err)
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
				t.Errorf("result text = %q", *out.ResultText)
			}
		})
	}
}

// TestEndToEndToolAsksTheModel checks sampling and roots requests of servers of both protocol generations.
func TestEndToEndToolAsksTheModel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		modern bool
		// events, if set, makes the run continue as new.
		events int
		budget *contract.Budget
		asks   int
		rule   string
		want   string
		calls  int
		// thread is the transcript's thread of the sampling request.
		thread string
	}{
		"during a call":                 {asks: 1, want: `"text":"Four."`, calls: 3, thread: "b1#1:book~1.1.held1"},
		"before the response":           {modern: true, asks: 1, want: `"text":"Four."`, calls: 3, thread: "b1#1:book~1.1.1.1"},
		"continued as new":              {modern: true, asks: 1, events: 1, want: `"text":"Four."`, calls: 3},
		"too many requests":             {modern: false, asks: 25, want: "at most 20 requests are allowed per call", calls: 22},
		"model failure during a call":   {asks: 1, rule: "fail: {class: refused}", want: "the model did not answer: refused", calls: 2},
		"model failure":                 {modern: true, asks: 1, rule: "fail: {class: refused}", want: "the model did not answer the question of the server", calls: 2},
		"exceeded budget during a call": {asks: 2, budget: &contract.Budget{Calls: 3}, want: "x"},
		"exceeded budget":               {modern: true, asks: 2, budget: &contract.Budget{Calls: 2}, want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &programs.RequestingServer{Modern: tc.modern, Requests: append(slices.Repeat([]string{samplingRequest}, tc.asks), rootsRequest)}
			h, _ := toolWorker(t, tool.Connection{URL: serveAsking(t, s), SamplingTokens: 50, Roots: []string{"file:///srv/a"}})
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
					t.Errorf("error = %v, want class %q", err, contract.ClassBudget)
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
					t.Errorf("thread messages = %s, %v", page.Messages, err)
				}
			}
			if *out.ResultText != "done" || out.Usage.Made() != tc.calls {
				t.Errorf("result text = %q after %d calls", *out.ResultText, out.Usage.Made())
			}
			if strings.HasPrefix(tc.want, `"text"`) && (out.Usage.Input < 5 || out.Usage.Output < 7) {
				t.Errorf("usage = %+v", out.Usage)
			}
		})
	}
}

// TestEndToEndNestedToolRequests checks that requests of servers in inline branches, child workflows and sub-agents
// are answered through the root run, and withdrawn if the run is cancelled.
func TestEndToEndNestedToolRequests(t *testing.T) {
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
		"inline":      {fork, 2},
		"as children": {func() *plan.Flow { return harness.WithChildBranches(fork()) }, 2},
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
				h, _ := toolWorker(t, tool.Connection{URL: serveAsking(t, &programs.RequestingServer{Requests: []string{elicitation}})})
				run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: tc.flow()}, Script: harness.Script(t, script)})
				open := h.WaitForRequests(t, run.GetID(), tc.asks)
				if cancel {
					if err := h.Client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
						t.Fatal(err)
					}
					if _, err := harness.Result(t, run); !contract.Cancelled(err) && !temporal.IsCanceledError(err) {
						t.Errorf("got error %v, want a cancellation", err)
					}
					if s := h.Status(t, run.GetID()); len(s.Requests) != 0 {
						t.Errorf("open requests = %+v, want none", s.Requests)
					}
					return
				}
				for _, q := range open {
					if _, err := h.Update(t, run.GetID(), q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"n": 4}}); err != nil {
						t.Fatal(err)
					}
				}
				if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
					t.Errorf("result = %v, %v", out, err)
				}
			})
		}
	}
}

// TestEndToEndURLs checks servers that require the user to open a URL, during a call and before they accept one.
func TestEndToEndURLs(t *testing.T) {
	t.Parallel()
	urls := `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/in","message":"Log in"}]}`
	for name, tc := range map[string]struct {
		server *programs.RequestingServer
		answer map[string]any
		want   string
		calls  int
	}{
		"during a call":           {server: &programs.RequestingServer{Requests: []string{urlElicitation}}, answer: map[string]any{"result": true}, want: `{"action":"accept"}`, calls: 1},
		"during a call, declined": {server: &programs.RequestingServer{Requests: []string{urlElicitation}}, answer: map[string]any{"error": "no"}, want: `{"action":"decline"}`, calls: 1},
		"before a call":           {server: &programs.RequestingServer{URLs: urls, Refusals: 1}, answer: map[string]any{"result": true}, want: "booked", calls: 2},
		"before a call, declined": {server: &programs.RequestingServer{URLs: urls, Refusals: 1}, answer: map[string]any{"error": "no"}, want: "book was not called", calls: 1},
		"completion notification": {server: &programs.RequestingServer{Requests: []string{urlElicitation}, Note: `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`}, want: `{"action":"accept"}`, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.server
			h, _ := toolWorker(t, tool.Connection{URL: serveAsking(t, s)})
			want, _ := json.Marshal(tc.want)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: withTools(harness.OneAgent(), "book")}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: book}]}
- {contains: `+string(want)+`, say: done}
- {say: something else}`)})
			if tc.answer != nil {
				q := h.WaitForRequests(t, run.GetID(), 1)[0]
				if q.Text != "book asks: Log in https://example.com/in" {
					t.Errorf("request = %+v", q)
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
				t.Errorf("result text = %q after %d tool calls", *out.ResultText, s.Calls())
			}
		})
	}
}

// TestEndToEndCancelledWhileItYields checks that a task is cancelled with its run when its branch has already yielded, but another
// branch delays the continue-as-new of the run.
func TestEndToEndCancelledWhileItYields(t *testing.T) {
	t.Parallel()
	s := &programs.TaskServer{Modern: true, States: []string{"working"}, PollMillis: 1000}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	h, _ := toolWorker(t, tool.Connection{URL: web.URL})
	f := harness.WithChildBranches(harness.FanIn("fork", "a", "b", "c"))
	f.Connections = []plan.Connection{{ID: "web"}}
	f.Nodes[1].Agent.Tools = []plan.Tool{{Name: "search", As: "search", Connection: "web"}}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: 80, Script: harness.Script(t, `rules:
- {node: a, turn: 1, call: [{tool: search}]}
- {node: b, say: late, delay: 1h}
- {say: done}`)})
	requested := func(method string) bool { return slices.Contains(s.Requests(), method) }
	harness.WaitFor(t, "polling of the task", func() bool { return requested("tasks/get") })
	for range 25 { // until the run is due to continue as new
		if _, err := h.Update(t, run.GetID(), contract.RequestMessage, map[string]any{"text": "Hello."}); err != nil {
			t.Fatal(err)
		}
	}
	harness.WaitFor(t, "the branch to yield", func() bool {
		out, err := h.Client.DescribeWorkflowExecution(t.Context(), run.GetID()+"/a#1", "")
		return err == nil && out.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
	if requested("tasks/cancel") {
		t.Error("the task was cancelled too early")
	}
	if err := h.Client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); !temporal.IsCanceledError(err) {
		t.Errorf("got error %v, want a cancellation", err)
	}
	if !requested("tasks/cancel") {
		t.Errorf("requests = %q, want tasks/cancel", s.Requests())
	}
}
