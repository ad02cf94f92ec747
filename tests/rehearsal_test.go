package tests

import (
	"bytes"
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
	"weft/specadapter"
	"weft/worker/host"
	"weft/workflows"
)

// rehearsal is a run of a document with the scripted model in Temporal's test environment.
type rehearsal struct {
	doc, script string
	input       string
	set         func(in *contract.RunInput)
	// tools answers the calls of the connection web, a real MCP server. It refuses calls
	// when denied.
	tools  map[string]func(args string) (text string, failed bool)
	denied bool
	// pictures are files that tools of the connection web add to their texts.
	pictures map[string][]byte
	// settings are the worker's.
	settings workflows.Settings
	// hooks, if set, are told of the run.
	hooks *webhook.Hooks
	// expired, if set, says whether it refuses them now.
	expired *atomic.Bool
	// functions are tools of the worker itself.
	functions []tool.Function
	// begun is called before the run is started.
	begun func(played)
	// wrap, if set, stands between the activities and the worker.
	wrap func(worker.ActivityRegistry) worker.ActivityRegistry
	// stores are messages besides the input that activities ask the run for.
	stores []*contract.Message
	// models, if set, are asked instead of the scripted one.
	models *llm.Models
	// profile is the dialect's reading; reach are the worker's settings for tools, besides web.
	profile string
	reach   tool.Settings
	// answers are given to what the run asks a person, one an hour.
	answers []string
	// compile, if set, makes the plan instead of the documents' loader.
	compile func(contract.FlowRef) (*contract.PrepareResult, error)
	// before, if set, prepares the environment.
	before func(env *testsuite.TestWorkflowEnvironment)
}

// played is what came of a rehearsal.
type played struct {
	result *contract.RunResult
	err    *contract.Failure
	status contract.Status
	env    *testsuite.TestWorkflowEnvironment
	state  map[string]json.RawMessage
}

func (r rehearsal) play(t *testing.T) played {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(unhurried)
	env.SetTestTimeout(4 * time.Minute)
	r.settings.Register(env)
	var err error
	models := r.models
	if models == nil {
		if models, err = llm.Open(llm.Settings{Default: "script"}); err != nil {
			t.Fatal(err)
		}
	}
	in := contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: r.doc, Name: "flow.json", Profile: r.profile}, Input: r.input, Model: "script"}
	if r.script != "" {
		if in.Script, err = llm.ParseScript("flow.script", []byte(r.script)); err != nil {
			t.Fatal(err)
		}
	}
	if r.set != nil {
		r.set(&in)
	}
	var registry worker.ActivityRegistry = env
	if r.wrap != nil {
		registry = r.wrap(env)
	}
	compile := r.compile
	if compile == nil {
		compile = compileWith(r.functions...)
	}
	activities.New(activities.Deps{Models: models, Tools: r.serve(t), Compile: compile, Begin: host.Begin, Source: knownOf(t, &in, r.stores...), Webhooks: r.hooks}).Register(registry)
	for i, text := range r.answers {
		atTime(env, time.Duration(i+1)*time.Hour, func() { env.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{Text: text}) })
	}
	if r.before != nil {
		r.before(env)
	}
	if r.begun != nil {
		r.begun(played{env: env})
	}
	env.ExecuteWorkflow(contract.WorkflowFlow, in)
	p := played{env: env}
	if !env.IsWorkflowCompleted() {
		t.Fatal("the run did not end")
	}
	query(t, env, contract.QueryStatus, &p.status)
	query(t, env, contract.QueryState, &p.state)
	if err := env.GetWorkflowError(); err != nil {
		p.err = contract.FailureOf(err)
		return p
	}
	p.result = &contract.RunResult{}
	if err := env.GetWorkflowResult(p.result); err != nil {
		t.Fatal(err)
	}
	return p
}

// atTime runs a step at a time after the run's start, more than some seconds. Virtual time does
// not wait for signals that are on their way between runs, so real time is given to them before.
func atTime(env *testsuite.TestWorkflowEnvironment, at time.Duration, step func()) {
	for n := range time.Duration(4) {
		env.RegisterDelayedCallback(func() { time.Sleep(20 * time.Millisecond) }, at-(4-n)*time.Millisecond)
	}
	env.RegisterDelayedCallback(step, at)
}

func query(t *testing.T, env *testsuite.TestWorkflowEnvironment, name string, out any, args ...any) {
	t.Helper()
	v, err := env.QueryWorkflow(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Get(out); err != nil {
		t.Fatal(err)
	}
}

// serve offers the rehearsal's tools over MCP and returns how to reach them.
func (r rehearsal) serve(t *testing.T) *tool.Tools {
	t.Helper()
	mcpServer := server.NewMCPServer("rehearsal", "1", server.WithToolCapabilities(false))
	for name, fn := range r.tools {
		mcpServer.AddTool(mcp.NewTool(name), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args, err := json.Marshal(req.GetArguments())
			if err != nil {
				return nil, err
			}
			text, failed := fn(string(args))
			res := mcp.NewToolResultText(text)
			res.IsError = failed
			if file := r.pictures[name]; file != nil {
				res.Content = append(res.Content, mcp.NewImageContent(base64.StdEncoding.EncodeToString(file), "image/png"))
			}
			return res, nil
		})
	}
	handler := server.NewStreamableHTTPServer(mcpServer)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if (r.denied || r.expired != nil && r.expired.Load()) && strings.Contains(string(body), "tools/call") {
			http.Error(w, "expired", http.StatusUnauthorized)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(web.Close)
	settings := r.reach
	settings.Functions, settings.MaxResultBytes = r.functions, 10_000
	settings.Connections = map[string]tool.Connection{"web": {URL: web.URL}}
	maps.Copy(settings.Connections, r.reach.Connections)
	tools, err := tool.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}

// known answers for what the run was given; all else must come from the cache.
type known map[string][]byte

func (known) Transcript(context.Context, string, string, contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	return nil, fmt.Errorf("no run can be asked here")
}

func (k known) Content(_ context.Context, _, _ string, q contract.ContentQuery) (*contract.ContentPage, error) {
	raw, ok := k[q.SHA]
	if !ok {
		return nil, &contract.Failure{Class: contract.ClassTranscriptLost, Text: "no run can be asked here"}
	}
	return &contract.ContentPage{Data: raw[q.Offset:], Total: len(raw)}, nil
}

// knownOf is what a run with this input stores of it.
func knownOf(t *testing.T, in *contract.RunInput, stores ...*contract.Message) known {
	k := known{}
	for _, m := range stores {
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		k[contract.SHA(raw)] = raw
	}
	if in.Script != nil {
		// As it is after a journey through a payload.
		raw, err := json.Marshal(in.Script)
		if err != nil {
			t.Fatal(err)
		}
		k[contract.SHA(raw)] = raw
	}
	chat, err := json.Marshal(in.History)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*contract.Message{contract.InputMessage(in.Input, in.Images), {Role: contract.RoleUser, Text: string(chat)}} {
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		k[contract.SHA(raw)] = raw
	}
	return k
}

func compileText(f contract.FlowRef) (*contract.PrepareResult, error) { return compileWith()(f) }

// compileWith compiles documents for a worker with functions.
func compileWith(functions ...tool.Function) func(contract.FlowRef) (*contract.PrepareResult, error) {
	return func(f contract.FlowRef) (*contract.PrepareResult, error) {
		o := specadapter.Options{Dialect: f.Dialect, Profile: f.Profile, UnboundTools: map[string]bool{}}
		for _, fn := range functions {
			o.UnboundTools[fn.Name()] = true
		}
		res, diags := specadapter.Load(f.Name, []byte(f.Text), o)
		if res == nil {
			fail := &contract.Failure{Class: contract.ClassInvalidFlow, Text: "the document has errors"}
			for _, d := range diags {
				fail.Diagnostics = append(fail.Diagnostics, d.String())
			}
			return nil, fail
		}
		hash, err := res.Flow.Hash()
		return &contract.PrepareResult{Plan: res.Flow, Source: res.Source, Hash: hash}, err
	}
}

// messages reads a thread of the root run.
func (p played) messages(t *testing.T, thread string) []contract.Message {
	t.Helper()
	var out []contract.Message
	for page := (contract.TranscriptPage{Total: 1}); len(out) < page.Total; {
		query(t, p.env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: thread, From: len(out)})
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

// replies lists the texts of a thread's tool messages, with ! before errors.
func (p played) replies(t *testing.T, thread string) []string {
	var out []string
	for _, m := range p.messages(t, thread) {
		if m.Role == contract.RoleTool {
			text := m.Text
			if m.Error {
				text = "!" + text
			}
			out = append(out, text)
		}
	}
	return out
}

// oneNode is a document with the node a, which gives the result.
func oneNode(node string) string {
	return `{"name":"one","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"do it","is_exit_node":true` + node + `}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"END"}]}`
}

const searchTool = `,"tools":[{"name":"search","data_connection_id":"web"}]`
