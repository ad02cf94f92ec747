package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/activities/webhook"
	"weft/worker/host"
	"weft/workflows"
)

// TestRun is a run of a document with the scripted model in Temporal's test environment.
type TestRun struct {
	Document, Script, Input string
	// SetInput changes the run's input before the start.
	SetInput func(in *contract.RunInput)
	// Tools answers the calls of the connection web, a real MCP server.
	Tools map[string]func(args string) (text string, failed bool)
	// Denied makes that server reject all calls; Expired does so while it is true.
	Denied  bool
	Expired *atomic.Bool
	// Pictures are files that tools of the connection web add to their results.
	Pictures map[string][]byte
	// Settings are the worker's settings for workflows, ToolSettings those for tools other than web.
	Settings     workflows.Settings
	ToolSettings tool.Settings
	Hooks        *webhook.Hooks
	// Functions are tools of the worker.
	Functions []tool.Function
	// Prepare changes the environment; BeforeStart is called after it, immediately before the start.
	Prepare     func(env *testsuite.TestWorkflowEnvironment)
	BeforeStart func(Outcome)
	// Wrap wraps the activities before they are registered.
	Wrap func(worker.ActivityRegistry) worker.ActivityRegistry
	// Stores are messages, in addition to the input, that activities read from the run.
	Stores []*contract.Message
	// Models replace the scripted one.
	Models *llm.Models
	// Profile is the dialect's profile.
	Profile string
	// Answers are the answers to the run's requests, one per hour.
	Answers []string
	// Compile, if set, returns the plan instead of compiling the document.
	Compile func(contract.FlowRef) (*contract.CompileFlowResult, error)
}

// Execute runs the document to its end.
func (r TestRun) Execute(t *testing.T) Outcome {
	t.Helper()
	env := newEnv()
	models := modelsOrScripted(t, r.Models)
	r.Settings.Scripts, r.Settings.Models = true, models
	r.Settings.Register(env)
	in := contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: r.Document, Name: "flow.json", Profile: r.Profile}, Input: r.Input, Model: "script"}
	if r.Script != "" {
		in.Script = Script(t, r.Script)
	}
	if r.SetInput != nil {
		r.SetInput(&in)
	}
	var registry worker.ActivityRegistry = env
	if r.Wrap != nil {
		registry = r.Wrap(env)
	}
	compile := r.Compile
	if compile == nil {
		compile = CompileWith(r.Functions...)
	}
	activities.New(activities.Deps{Models: models, Tools: r.OpenTools(t), Compile: compile, Begin: host.Begin, Source: newSource(t, &in, r.Stores...), Webhooks: r.Hooks}).Register(registry)
	for i, text := range r.Answers {
		AtTime(env, time.Duration(i+1)*time.Hour, func() { env.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{Text: text}) })
	}
	if r.Prepare != nil {
		r.Prepare(env)
	}
	if r.BeforeStart != nil {
		r.BeforeStart(Outcome{Env: env})
	}
	env.ExecuteWorkflow(contract.WorkflowFlow, in)
	p := Outcome{Env: env}
	if !env.IsWorkflowCompleted() {
		t.Fatal("the workflow did not complete")
	}
	Query(t, env, contract.QueryStatus, &p.Status)
	Query(t, env, contract.QueryState, &p.State)
	if err := env.GetWorkflowError(); err != nil {
		p.Err = contract.FailureOf(err)
		return p
	}
	p.Result = &contract.RunResult{}
	if err := env.GetWorkflowResult(p.Result); err != nil {
		t.Fatal(err)
	}
	return p
}

// AtTime runs a step some time after the run's start. Virtual time does not wait for signals in
// transit between runs, so it first waits some real time for them.
func AtTime(env *testsuite.TestWorkflowEnvironment, at time.Duration, step func()) {
	for n := range time.Duration(4) {
		env.RegisterDelayedCallback(func() { time.Sleep(20 * time.Millisecond) }, at-(4-n)*time.Millisecond)
	}
	env.RegisterDelayedCallback(step, at)
}

// Query decodes the result of a query into out.
func Query(t *testing.T, env *testsuite.TestWorkflowEnvironment, name string, out any, args ...any) {
	t.Helper()
	v, err := env.QueryWorkflow(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Get(out); err != nil {
		t.Fatal(err)
	}
}

// Outcome is the outcome of a TestRun.
type Outcome struct {
	Result *contract.RunResult
	Err    *contract.Failure
	Status contract.Status
	Env    *testsuite.TestWorkflowEnvironment
	State  map[string]json.RawMessage
}

// Messages returns a thread of the root run.
func (p Outcome) Messages(t *testing.T, thread string) []contract.Message {
	t.Helper()
	var out []contract.Message
	for page := (contract.TranscriptPage{Total: 1}); len(out) < page.Total; {
		Query(t, p.Env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: thread, From: len(out)})
		for _, raw := range page.Messages {
			m, err := contract.DecodeMessage(raw)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, *m)
		}
	}
	return out
}

// FixedSource provides the run's input; everything else must come from the cache.
type FixedSource map[string][]byte

// Transcript always fails.
func (FixedSource) Transcript(context.Context, string, string, contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	return nil, fmt.Errorf("no run to query")
}

// Content returns content of the run's input.
func (k FixedSource) Content(_ context.Context, _, _ string, q contract.ContentQuery) (*contract.ContentPage, error) {
	raw, ok := k[q.SHA]
	if !ok {
		return nil, &contract.Failure{Class: contract.ClassTranscriptLost, Text: "no run to query"}
	}
	return &contract.ContentPage{Data: raw[q.Offset:], Total: len(raw)}, nil
}

// newSource returns the part of the input that a run stores, after encoding and decoding it as a payload.
func newSource(t *testing.T, in *contract.RunInput, stores ...*contract.Message) FixedSource {
	values := []any{contract.InputMessage(in.Input, in.Media), contract.Message{Role: contract.RoleUser, Text: string(EncodeJSON(t, in.History))}}
	for _, m := range stores {
		values = append(values, m)
	}
	if in.Script != nil {
		values = append(values, in.Script)
	}
	k := FixedSource{}
	for _, v := range values {
		raw := EncodeJSON(t, v)
		k[contract.SHA(raw)] = raw
	}
	return k
}

// ServeTools offers the run's tools over MCP.
func (r TestRun) ServeTools(t *testing.T) string {
	t.Helper()
	mcpServer := server.NewMCPServer("web", "1", server.WithToolCapabilities(false))
	for name, fn := range r.Tools {
		mcpServer.AddTool(mcp.NewTool(name), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args, err := json.Marshal(req.GetArguments())
			if err != nil {
				return nil, err
			}
			text, failed := fn(string(args))
			res := mcp.NewToolResultText(text)
			res.IsError = failed
			if file := r.Pictures[name]; file != nil {
				res.Content = append(res.Content, mcp.NewImageContent(base64.StdEncoding.EncodeToString(file), "image/png"))
			}
			return res, nil
		})
	}
	handler := server.NewStreamableHTTPServer(mcpServer)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if (r.Denied || r.Expired != nil && r.Expired.Load()) && strings.Contains(string(body), "tools/call") {
			http.Error(w, "expired", http.StatusUnauthorized)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// OpenTools offers the run's tools over MCP and returns the connection to them.
func (r TestRun) OpenTools(t *testing.T) *tool.Tools {
	t.Helper()
	settings := r.ToolSettings
	settings.Functions, settings.MaxResultBytes = r.Functions, cmp.Or(settings.MaxResultBytes, 10_000)
	settings.Connections = map[string]tool.Connection{"web": {URL: r.ServeTools(t)}}
	maps.Copy(settings.Connections, r.ToolSettings.Connections)
	tools, err := tool.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}
