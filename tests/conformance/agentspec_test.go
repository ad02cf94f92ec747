package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/worker/host"
	"weft/workflows"
)

// suiteCase is a case of the Agent Spec conformance suite.
type suiteCase struct {
	ID, Config string
	LLM        map[string]json.RawMessage
	Steps      []suiteStep
	Note       string
}

type suiteStep struct {
	Op       string
	Inputs   json.RawMessage
	Text     string
	Content  json.RawMessage
	Decision string
	suiteExpect
}

type suiteExpect struct {
	OutputsEqual   json.RawMessage   `json:"outputs_equal"`
	OutputEquals   []json.RawMessage `json:"output_equals"`
	OutputContains []string          `json:"output_contains"`
	OutputApprox   []json.RawMessage `json:"output_approx"`
	AnyOf          []suiteExpect     `json:"any_of"`
	LastMessage    json.RawMessage   `json:"last_agent_message_contains"`
	Status         string
	StatusIn       []string `json:"status_in"`
	StatusNot      string   `json:"status_not"`
	Name           string
	Args           json.RawMessage
	Count          int
	Called         string `json:"tool_called"`
	CalledOnce     string `json:"tool_called_once"`
	NoneCalled     bool   `json:"no_tool_called"`
	NoServerTool   bool   `json:"no_server_tool_called"`
}

// suiteSecrets replaces inline secrets in the suite's documents, which are rejected, with references, as
// the error message recommends.
var suiteSecrets = strings.NewReplacer("auth_file_location: Auth File Location", `auth_file_location: {"$component_ref": "oci.auth_file_location"}`)

// TestAgentSpecSuite executes the cases of the conformance suite with a model that answers like the
// suite's stub, and with the suite's tools as functions of the worker.
func TestAgentSpecSuite(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(string(harness.SpecFile(t, "corpus/agentspec/CTS_CASES.jsonl"))), "\n")
	if len(lines) < 89 {
		t.Fatalf("got %d cases, want at least 89", len(lines))
	}
	var passed atomic.Int32
	t.Run("cases", func(t *testing.T) {
		for _, line := range lines {
			var c suiteCase
			harness.DecodeJSON(t, []byte(line), &c)
			t.Run(c.ID, func(t *testing.T) {
				t.Parallel()
				text := string(harness.SpecFile(t, "corpus/agentspec/"+c.Config))
				c.execute(t, suiteSecrets.Replace(text))
				if !t.Failed() {
					passed.Add(1)
				}
			})
		}
	})
	t.Logf("Agent Spec's suite: %d of %d cases pass", passed.Load(), len(lines))
}

// suiteRun is the execution of one case.
type suiteRun struct {
	t     *testing.T
	env   *testsuite.TestWorkflowEnvironment
	calls *suiteCalls
	last  contract.Status
}

func (c *suiteCase) execute(t *testing.T, text string) {
	calls := &suiteCalls{}
	stub := suiteModel(t, c.LLM)
	text = strings.NewReplacer("http://localhost:5007/mcp", suiteServer(t), "http://localhost:5008", suiteHTTP(t)).Replace(text)
	models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{
		"compatible": {BaseURL: stub, Unary: true}, "vllm": {BaseURL: stub, Unary: true}, "ollama": {BaseURL: stub, Unary: true},
		"oci": {Kind: "compatible", BaseURL: stub, Unary: true}}})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.Open(tool.Settings{Functions: suiteTools(calls), AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(harness.NoLog)
	r := &suiteRun{t: t, env: suite.NewTestWorkflowEnvironment(), calls: calls}
	r.env.SetWorkerOptions(harness.EnvOptions)
	r.env.SetTestTimeout(4 * time.Minute)
	workflows.Register(r.env)
	in := contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: text, Name: "flow.yaml"}, OnError: contract.OnErrorFail, Model: "compatible/m"}
	activities.New(activities.Deps{Models: models, Tools: tools, Compile: harness.CompileWith(suiteTools(calls)...), Begin: host.Begin, Source: harness.FixedSource{}}).Register(r.env)
	steps := c.Steps
	if steps[0].Op != "start" {
		t.Fatalf("first step = %s, want start", steps[0].Op)
	}
	in.Params = steps[0].Inputs
	if steps = steps[1:]; steps[0].Op == "user_message" {
		in.Input, steps = steps[0].Text, steps[1:]
	}
	done := make([]bool, len(steps))
	for i, s := range steps {
		harness.AtTime(r.env, time.Duration(i+1)*time.Hour, func() { done[i] = r.step(&s) })
	}
	harness.AtTime(r.env, time.Duration(len(steps)+1)*time.Hour, r.env.CancelWorkflow)
	r.env.ExecuteWorkflow(contract.WorkflowFlow, in)
	if !r.env.IsWorkflowCompleted() {
		t.Fatal("the workflow did not complete")
	}
	if err := r.env.GetWorkflowError(); err != nil && !contract.Cancelled(err) {
		t.Fatal(contract.FailureOf(err))
	}
	// The test environment executes no callbacks after the workflow has completed.
	for i := range steps {
		switch {
		case done[i] || steps[i].Op == "run":
		case steps[i].Op == "expect":
			r.expect(&steps[i].suiteExpect)
		default:
			t.Errorf("the run ended before step %s", steps[i].Op)
		}
	}
}

// step executes one step; it returns false if the run has already ended.
func (r *suiteRun) step(s *suiteStep) bool {
	if r.env.IsWorkflowCompleted() {
		return false
	}
	harness.Query(r.t, r.env, contract.QueryStatus, &r.last)
	var id string
	if len(r.last.Requests) > 0 {
		id = r.last.Requests[0].ID
	}
	switch s.Op {
	case "run":
	case "user_message":
		r.env.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{Text: s.Text})
	case "tool_result":
		r.env.SignalWorkflow(contract.RequestToolResult, contract.ToolResultAnswer{ID: id, Result: s.Content})
	case "confirm":
		yes := s.Decision == "accept"
		r.env.SignalWorkflow(contract.RequestConfirm, contract.ConfirmAnswer{ID: id, Approve: &yes})
	case "expect":
		r.expect(&s.suiteExpect)
	default:
		r.t.Errorf("unknown step %s", s.Op)
	}
	return true
}

func (r *suiteRun) expect(e *suiteExpect) {
	r.t.Helper()
	if err := r.check(e); err != nil {
		r.t.Error(err)
	}
}

var suiteStatus = map[string]string{contract.RequestMessage: "user_message_request", contract.RequestToolResult: "tool_request", contract.RequestConfirm: "tool_confirmation"}

func (r *suiteRun) check(e *suiteExpect) error {
	if len(e.AnyOf) > 0 {
		var all []error
		for i := range e.AnyOf {
			err := r.check(&e.AnyOf[i])
			if err == nil {
				return nil
			}
			all = append(all, err)
		}
		return errors.Join(all...)
	}
	return errors.Join(r.checkStatus(e), r.checkOutputs(e), r.checkMessage(e), r.calls.check(e))
}

func (r *suiteRun) checkStatus(e *suiteExpect) error {
	now := "finished"
	if !r.env.IsWorkflowCompleted() && len(r.last.Requests) > 0 {
		now = suiteStatus[r.last.Requests[0].Kind]
	}
	switch {
	case e.Status != "" && e.Status != now, e.StatusNot != "" && e.StatusNot == now, len(e.StatusIn) > 0 && !slices.Contains(e.StatusIn, now):
		return fmt.Errorf("status = %s, want %s%v, not %q", now, e.Status, e.StatusIn, e.StatusNot)
	case e.Count > 0 && len(r.last.Requests) != e.Count:
		return fmt.Errorf("got %d open requests, want %d", len(r.last.Requests), e.Count)
	case e.Name != "" && r.last.Requests[0].Name != e.Name:
		return fmt.Errorf("request name = %s, want %s", r.last.Requests[0].Name, e.Name)
	// A value in <> is a placeholder.
	case e.Args != nil && !bytes.Contains(e.Args, []byte(`"<`)) && !sameJSON(e.Args, r.last.Requests[0].Arguments):
		return fmt.Errorf("request arguments = %s, want %s", r.last.Requests[0].Arguments, e.Args)
	}
	return nil
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

func (r *suiteRun) checkOutputs(e *suiteExpect) error {
	if e.OutputsEqual == nil && e.OutputEquals == nil && e.OutputContains == nil && e.OutputApprox == nil {
		return nil
	}
	var out contract.RunResult
	if !r.env.IsWorkflowCompleted() || r.env.GetWorkflowError() != nil {
		return fmt.Errorf("the run has not ended, so it has no outputs")
	}
	if err := r.env.GetWorkflowResult(&out); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(out.ResultData, &all); err != nil {
		return fmt.Errorf("outputs %s: %w", out.ResultData, err)
	}
	name := func(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }
	switch {
	case e.OutputsEqual != nil && !sameJSON(e.OutputsEqual, out.ResultData):
	case e.OutputEquals != nil && !sameJSON(e.OutputEquals[1], all[name(e.OutputEquals[0])]):
	case e.OutputContains != nil && !strings.Contains(string(all[e.OutputContains[0]]), e.OutputContains[1]):
	case e.OutputApprox != nil && !approxEqual(e.OutputApprox[1], all[name(e.OutputApprox[0])]):
	default:
		return nil
	}
	return fmt.Errorf("outputs = %s, want %s%s%v%s", out.ResultData, e.OutputsEqual, e.OutputEquals, e.OutputContains, e.OutputApprox)
}

func approxEqual(a, b json.RawMessage) bool {
	var x, y []float64
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || len(x) != len(y) {
		return false
	}
	for i := range x {
		if math.Abs(x[i]-y[i]) > 1e-9 {
			return false
		}
	}
	return true
}

// checkMessage checks the last assistant message with a text or a submitted result.
func (r *suiteRun) checkMessage(e *suiteExpect) error {
	if e.LastMessage == nil {
		return nil
	}
	var want []string
	var one string
	if json.Unmarshal(e.LastMessage, &one) == nil {
		want = []string{one}
	} else if err := json.Unmarshal(e.LastMessage, &want); err != nil {
		return err
	}
	var page contract.TranscriptPage
	harness.Query(r.t, r.env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: "conversation"})
	last := ""
	for _, raw := range page.Messages {
		m, err := contract.DecodeMessage(raw)
		switch {
		case err != nil || m.Role != contract.RoleAssistant:
		case len(m.Calls) == 1 && m.Calls[0].Name == "submit_result":
			last = m.Calls[0].Arguments
		case m.Text != "":
			last = m.Text
		}
	}
	for _, w := range want {
		if !strings.Contains(last, w) {
			return fmt.Errorf("last message = %q, want it to contain %q", last, w)
		}
	}
	return nil
}

// suiteCalls records tool calls.
type suiteCalls struct {
	mu    sync.Mutex
	names []string
}

func (s *suiteCalls) record(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
}

func (s *suiteCalls) check(e *suiteExpect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	once := 0
	for _, n := range s.names {
		if n == e.CalledOnce {
			once++
		}
	}
	switch {
	case e.Called != "" && !slices.Contains(s.names, e.Called), e.CalledOnce != "" && once != 1, (e.NoneCalled || e.NoServerTool) && len(s.names) > 0:
		return fmt.Errorf("tool calls = %v, want %s%s, none: %v", s.names, e.Called, e.CalledOnce, e.NoneCalled || e.NoServerTool)
	}
	return nil
}
