package dialects

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/worker/config"
)

// toolKind is a kind of tool that a flow of examples/weather uses.
type toolKind struct {
	flow, settings string
	// functions are the worker's own tools; before prepares the rest of the environment.
	functions []tool.Function
	before    func(t *testing.T, env *testsuite.TestWorkflowEnvironment)
}

var toolKinds = map[string]toolKind{
	"MCP over streamable HTTP": {flow: "weather.json", settings: "http.yml"},
	"MCP over SSE":             {flow: "weather.json", settings: "sse.yml"},
	"MCP over stdio":           {flow: "weather.json", settings: "stdio.yml"},
	"Go function":              {flow: "weather.json", functions: exampleFunctions},
	"external activity": {flow: "weather.json", settings: "activity.yml", before: func(_ *testing.T, env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(forecastOf, activity.RegisterOptions{Name: "Weather"})
	}},
	"request over HTTP": {flow: "remote.yaml", settings: "http.yml"},
	"client-side": {flow: "client.yaml", before: func(t *testing.T, env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			q := openRequest(t, env)
			if q.Kind != contract.RequestToolResult {
				t.Errorf("open request = %+v, want a tool result", q)
			}
			var err error
			sendUpdate(env, contract.RequestToolResult, contract.ToolResultAnswer{ID: q.ID, Result: json.RawMessage(`{"sky":"clear","degrees":21}`)}, &err)
			if err != nil {
				t.Error(err)
			}
		}, time.Minute)
	}},
}

// TestExampleOfEachToolKind runs the flows of examples/weather with each kind of tool.
func TestExampleOfEachToolKind(t *testing.T) {
	t.Parallel()
	program, base := startWeather(t)
	for name, kind := range toolKinds {
		t.Run(name, func(t *testing.T) {
			file := "../examples/weather/" + kind.flow
			script := strings.TrimSuffix(file, filepath.Ext(file)) + ".script"
			r := harness.TestRun{
				Document: strings.ReplaceAll(harness.ReadFile(t, file), "http://127.0.0.1:3004", base), Script: harness.ReadFile(t, script),
				Input: strings.TrimSpace(harness.ReadFile(t, "../examples/weather/weather.input.txt")), Functions: kind.functions, Compile: compileWeather,
			}
			if kind.settings != "" {
				r.ToolSettings = weatherSettings(t, kind.settings, program, base)
			}
			if kind.before != nil {
				r.Prepare = func(env *testsuite.TestWorkflowEnvironment) { kind.before(t, env) }
			}
			r.SetInput = func(in *contract.RunInput) { in.Flow.Name = kind.flow }
			p := r.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if got := harness.ResultText(p.Result); !strings.Contains(got, weatherSaid) {
				t.Errorf("result = %q, want %q", got, weatherSaid)
			}
		})
	}
}

// weatherSettings returns the settings of a file of examples/weather, with this program and the base URL of its server.
func weatherSettings(t *testing.T, file, program, base string) tool.Settings {
	t.Helper()
	cfg, err := config.Load(config.Options{File: "../examples/weather/" + file})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := cfg.Tool()
	if err != nil {
		t.Fatal(err)
	}
	for id, c := range settings.Connections {
		if c.URL != "" {
			u, err := url.Parse(c.URL)
			if err != nil {
				t.Fatal(err)
			}
			c.URL = base + u.Path
		} else {
			c.Command, c.Dir = program, ""
		}
		settings.Connections[id] = c
	}
	return settings
}

// startWeather builds the program of examples/weather and starts it as an HTTP server, whose base URL is base.
func startWeather(t *testing.T) (program, base string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "weather")
	if out, err := exec.Command("go", "build", "-o", program, "../examples/weather").CombinedOutput(); err != nil {
		t.Fatalf("build examples/weather: %v\n%s", err, out)
	}
	return program, programs.StartAndReadLine(t, exec.Command(program, "-http", "127.0.0.1:0"), "")
}

// compileWeather compiles a document for a worker that has the tool weather.
func compileWeather(f contract.FlowRef) (*contract.CompileFlowResult, error) {
	res, diags := specadapter.Load(f.Name, []byte(f.Text), specadapter.Options{Host: source.Host{UnboundTools: map[string]bool{"weather": true}}})
	if res == nil {
		return nil, errors.New(diags[0].String())
	}
	hash, err := res.Flow.Hash()
	return &contract.CompileFlowResult{Plan: res.Flow, Source: res.Source, Hash: hash}, err
}

// forecastOf is the external activity of examples/weather.
func forecastOf(_ context.Context, in struct {
	City string `json:"city"`
}) (json.RawMessage, error) {
	if in.City != "Oslo" {
		return nil, errors.New("only for Oslo")
	}
	return json.RawMessage(`{"sky":"clear","degrees":21}`), nil
}
