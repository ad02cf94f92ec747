package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/drawing"
	"weft/tests/harness"
)

// TestKoogManifest loads every file of the corpus in both profiles: the profile koog must accept
// what the version of Koog that it models accepts, and default what either version accepts.
func TestKoogManifest(t *testing.T) {
	t.Parallel()
	rows := strings.Split(strings.TrimSpace(string(harness.SpecFile(t, "corpus/koog/MANIFEST.tsv"))), "\n")[1:]
	if len(rows) < 30 {
		t.Fatalf("the manifest has %d rows, want at least 30", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(row, "\t")
		file, first, second := cells[0], cells[4], cells[5]
		t.Run(file, func(t *testing.T) {
			text := harness.SpecFile(t, "corpus/koog/"+file)
			name := filepath.Base(file)
			if filepath.Ext(name) != ".json" {
				name += ".json"
			}
			ok := func(s string) bool { return strings.HasPrefix(s, "parse ok") }
			want := map[string]bool{"default": ok(first) || ok(second), "koog": ok(first)}
			if later := laterSyntax(string(text)); later {
				want["koog"] = ok(second)
			}
			for profile, want := range want {
				res, diags := specadapter.Load(name, text, specadapter.Options{Profile: profile})
				if (res != nil) != want {
					t.Errorf("profile %s: accepted = %v, want %v: %v", profile, res != nil, want, diags)
				}
			}
		})
	}
}

// laterSyntax reports whether a file uses syntax that only the later code accepts.
func laterSyntax(text string) bool {
	for _, mark := range []string{`"react"`, `"parallel"`, `"transformation"`, `"output.`} {
		if strings.Contains(text, mark) {
			return json.Valid([]byte(text))
		}
	}
	return false
}

// koogRun is a run of the corpus with its expected outcome.
type koogRun struct {
	Name, Flow, Input string
	Script            []struct {
		When  []string
		Reply json.RawMessage
	}
	Want struct {
		Type, Contains, Error string
		Value                 json.RawMessage
		Success               bool
		Feedback              string
		Input                 struct {
			Type  string
			Value json.RawMessage
		}
	}
	Dialect    string
	Iterations int
	Override   map[string]int
}

// script converts the run's script to rules: the model replies according to the text of the last message.
func (c *koogRun) script(t *testing.T) string {
	var rules []map[string]any
	for _, s := range c.Script {
		var replies []json.RawMessage
		if json.Unmarshal(s.Reply, &replies) != nil {
			replies = []json.RawMessage{s.Reply}
		}
		for i, raw := range replies {
			rule := map[string]any{"match": regexp.QuoteMeta(s.When[0])}
			if i+1 < len(replies) {
				rule["step"] = 2 // the step in which the only agent with several replies runs first
			}
			var reply struct {
				Tool, Assistant string
				Result, Args    json.RawMessage
			}
			harness.DecodeJSON(t, raw, &reply)
			args := reply.Args
			if reply.Result != nil {
				if args = json.RawMessage(`{"__wrapped_value__":` + string(reply.Result) + `}`); reply.Result[0] == '{' {
					args = reply.Result
				}
			}
			if reply.Tool == "" {
				rule["say"] = reply.Assistant
			} else {
				rule["call"] = []any{map[string]any{"tool": reply.Tool, "arguments": args}}
			}
			rules = append(rules, rule)
		}
	}
	out, err := json.Marshal(map[string]any{"rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// document returns the run's flow with the address of its MCP server and, if limit is positive,
// with this maxIterations of its first agent.
func (c *koogRun) document(t *testing.T, limit int, server string) string {
	dir := "seed-652b437/"
	if c.Dialect == "later" {
		dir = "later/json/"
	}
	text := strings.ReplaceAll(string(harness.SpecFile(t, "corpus/koog/"+dir+c.Flow)), "http://localhost:3002", server)
	if limit == 0 {
		return text
	}
	var doc map[string]json.RawMessage
	harness.DecodeJSON(t, []byte(text), &doc)
	var agents []map[string]json.RawMessage
	harness.DecodeJSON(t, doc["agents"], &agents)
	agents[0]["config"] = fmt.Appendf(nil, `{"maxIterations":%d}`, limit)
	var err error
	if doc["agents"], err = json.Marshal(agents); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestKoogRuns executes the runs of the corpus in the profile koog, with the scripted model and a
// real MCP server over server-sent events.
func TestKoogRuns(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(string(harness.SpecFile(t, "cases/koog_runs.jsonl"))), "\n")
	if len(lines) < 20 {
		t.Fatalf("%d runs, want at least 20", len(lines))
	}
	for _, line := range lines {
		var c koogRun
		harness.DecodeJSON(t, []byte(line), &c)
		t.Run(c.Name, func(t *testing.T) {
			server := greetings(t)
			play := func(limit int) harness.Outcome {
				return harness.TestRun{Document: c.document(t, limit, server), Script: c.script(t), Input: c.Input, Profile: "koog", ToolSettings: tool.Settings{AllowPrivate: true}}.Execute(t)
			}
			p := play(c.Override["agents[0].config.maxIterations"])
			c.check(t, p)
			if c.Iterations > 0 && p.Err == nil {
				// The number of steps is exact: with one less the run fails.
				c.check(t, play(c.Iterations))
				if p := play(c.Iterations - 1); harness.FailureClass(p.Err) != contract.ClassStepLimit {
					t.Errorf("with %d steps: %v", c.Iterations-1, p.Err)
				}
			}
		})
	}
}

// defaultProfileErrors holds the errors of runs whose outcome differs in the profile default, or ""
// for a run that completes there.
var defaultProfileErrors = map[string]string{
	"branch_score_as_string_is_stuck":               "none of the conditions holds for \"95\"",
	"branch_score_as_string_later_coerces":          "none of the conditions holds for \"95\"",
	"retry_one_fix_default_limit":                   "",
	"retry_one_fix_limit_55":                        "",
	"unknown_tool_is_reported_to_model":             "the script has no rule", // the wording of the answer differs
	"plain_text_answer_fails_with_toolchoice_model": "the script has no rule", // the model is reminded
}

// TestKoogRunsInDefaultProfile executes the same runs in the profile default, in which the patterns of the
// documents, such as the retry loop, work as documented.
func TestKoogRunsInDefaultProfile(t *testing.T) {
	t.Parallel()
	for _, line := range strings.Split(strings.TrimSpace(string(harness.SpecFile(t, "cases/koog_runs.jsonl"))), "\n") {
		var c koogRun
		harness.DecodeJSON(t, []byte(line), &c)
		t.Run(c.Name, func(t *testing.T) {
			// The input is part of every agent's message, so it must not match a rule.
			p := harness.TestRun{Document: c.document(t, 0, greetings(t)), Script: c.script(t), Input: "begin", ToolSettings: tool.Settings{AllowPrivate: true}}.Execute(t)
			want, differs := defaultProfileErrors[c.Name]
			switch {
			case !differs:
				c.check(t, p)
			case want != "" && (p.Err == nil || !strings.Contains(p.Err.Error(), want)):
				t.Errorf("failure = %v, want %q", p.Err, want)
			case want == "" && (p.Err != nil || !strings.Contains(string(p.Result.ResultData), `"success":true,"feedback":"fine","input":"fixed"`)):
				t.Errorf("result = %v, %v", p.Result, p.Err)
			}
		})
	}
}

func (c *koogRun) check(t *testing.T, p harness.Outcome) {
	t.Helper()
	if c.Want.Error != "" {
		if p.Err == nil || !strings.Contains(p.Err.Error(), c.Want.Error) {
			t.Fatalf("error = %v, want %q", p.Err, c.Want.Error)
		}
		return
	}
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if c.Want.Type == "critique" {
		var got struct {
			Success  bool
			Feedback string
			Input    json.RawMessage
		}
		harness.DecodeJSON(t, p.Result.ResultData, &got)
		if got.Success != c.Want.Success || got.Feedback != c.Want.Feedback || string(got.Input) != string(c.Want.Input.Value) {
			t.Errorf("result is %s", p.Result.ResultData)
		}
		return
	}
	if p.Result.ResultText == nil {
		t.Fatalf("result is %s, want a string", p.Result.ResultData)
	}
	var want string
	if c.Want.Value != nil {
		harness.DecodeJSON(t, c.Want.Value, &want)
	}
	if got := *p.Result.ResultText; c.Want.Value != nil && got != want || !strings.Contains(got, c.Want.Contains) {
		t.Errorf("result is %q, want %q%q", got, want, c.Want.Contains)
	}
}

// greetings serves the tools greeting and empty over server-sent events.
func greetings(t *testing.T) string {
	t.Helper()
	s := server.NewMCPServer("greetings", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("greeting", mcp.WithString("name", mcp.Required()), mcp.WithString("title")),
		func(_ context.Context, q mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := "Hello, "
			if title := q.GetString("title", ""); title != "" {
				text += title + " "
			}
			return mcp.NewToolResultText(text + q.GetString("name", "") + "!"), nil
		})
	s.AddTool(mcp.NewTool("empty"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	web := httptest.NewUnstartedServer(nil)
	base := "http://" + web.Listener.Addr().String()
	sse := server.NewSSEServer(s, server.WithBaseURL(base))
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/" {
			q.URL.Path = "/sse"
		}
		sse.ServeHTTP(w, q)
	})
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return base
}

// TestKoogDocumentedFlows loads the flows that the protocol's text shows in full, with the "..." in their
// agents replaced.
func TestKoogDocumentedFlows(t *testing.T) {
	t.Parallel()
	text := string(harness.SpecFile(t, "specs/koog-agents-protocol.md"))
	loaded := 0
	for _, block := range strings.Split(text, "```json\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, `"transitions"`) || strings.Contains(block, "[...]") {
			continue
		}
		block = strings.ReplaceAll(block, ", ...}", `, "params": {"task": "t"}}`)
		res, diags := specadapter.Load("flow.json", []byte(block), specadapter.Options{})
		if res == nil {
			t.Errorf("%s: %v", block, diags)
			continue
		}
		loaded++
		if drawn := drawing.Mermaid(res.Flow, nil); !strings.Contains(drawn, `-->|"input.`) {
			t.Errorf("the drawing has no conditions:\n%s", drawn)
		}
	}
	if loaded != 2 {
		t.Errorf("%d complete flows, want 2", loaded)
	}
}
