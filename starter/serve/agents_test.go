package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// extractorAgent is the agent that is created in the framework's documentation.
const extractorAgent = `{
    "name": "data-extractor",
    "description": "Extracts structured data from text",
    "type": "autonomous",
    "output_schema": {
      "type": "object",
      "required": ["entities"],
      "properties": {"entities": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}}}}}
    }
  }`

func allowEditing(o *Options) { o.Settings.EditAgents = true }

func TestAgents(t *testing.T) {
	b := newBench(t)
	b.put("agents/broken/agent.json", `{"name": "broken"}`)
	b.put("agents/off/agent.json", `{"name": "off", "description": "x", "system_prompt": "y"}`)
	b.put("agents/off/.disabled", "")
	b.put("agents/.hidden/agent.json", `{}`)
	b.put("agents/empty/README.md", "")
	if err := os.Symlink("/etc", filepath.Join(b.dir, "agents", "out")); err != nil {
		t.Fatal(err)
	}
	first := b.call("GET", "/agents?limit=2", "").expect(200, `"name":"broken"`).expect(200, `"status":"invalid"`).expect(200, `"name":"off"`).expect(200, `"status":"inactive"`)
	b.call("GET", "/agents?limit=2&page_token="+first.field("next_page_token").(string), "").expect(200, `{"agents":[{"name":"parametric-agent"`)
	b.call("GET", "/agents/parametric-agent", "").expect(200, `"system_prompt":"You write."`).expect(200, `"parameters_schema":{"type":"object","required":["topic","format"],`).expect(200, `"status":"active","diagnostics":[]`)
	b.call("GET", "/agents/broken", "").expect(200, "agents/broken/agent.json:1:1: ")
	b.put("agents/long/agent.json", strings.Repeat(" ", 1<<20+1))
	b.call("POST", "/runs", `{"type": "start_session", "agent_name": "long", "parameters": {"prompt": "x"}}`).expect(422, "agents/long/agent.json: it exceeds the limit of 1048576 bytes")
	for _, name := range []string{"nobody", "empty", "out", ".hidden", "..", "a%2F..%2Foff"} {
		if got := b.call("GET", "/agents/"+name, ""); got.Code != 404 && got.Code != 307 {
			t.Errorf("GET /agents/%s = %d %s, want 404 or 307", name, got.Code, got.Body)
		}
	}
}

func TestAgentsReadOnlyByDefault(t *testing.T) {
	b := newBench(t)
	for _, call := range [][]string{{"POST", "/agents", extractorAgent}, {"PUT", "/agents/parametric-agent", extractorAgent}, {"DELETE", "/agents/parametric-agent", ""}} {
		b.call(call[0], call[1], call[2]).expect(403, "serve: {edit_agents: true}")
	}
	if list, err := os.ReadDir(filepath.Join(b.dir, "agents")); err != nil || len(list) != 1 {
		t.Errorf("files in agents = %v, %v, want one", list, err)
	}
}

func TestEditAgents(t *testing.T) {
	b := newBench(t, allowEditing)
	got := b.call("POST", "/agents", extractorAgent).expect(201, `"name":"data-extractor"`).expect(201, `"status":"active"`)
	if got.Header().Get("Location") != "/agents/data-extractor" {
		t.Errorf("Location = %q", got.Header().Get("Location"))
	}
	b.call("POST", "/agents", extractorAgent).expect(409, "agent-exists")
	b.put("agents/bare/README.md", "No agent yet.")
	b.call("POST", "/agents", `{"name": "bare", "description": "B"}`).expect(409, "has no agent.json")
	if err := os.RemoveAll(filepath.Join(b.dir, "agents/bare")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(b.dir, "agents/data-extractor/agent.json"))
	if err != nil || !strings.HasPrefix(string(raw), "{\n  \"name\": \"data-extractor\",\n  \"description\":") {
		t.Errorf("agent.json = %s, %v", raw, err)
	}
	run := b.call("POST", "/runs", `{"type": "start_session", "agent_name": "data-extractor", "parameters": {"prompt": "x"}}`).expect(201, "run_data-extractor-1")
	if out := b.runs.inputs[run.field("run_id").(string)].Flow.Plan.Nodes[0].Agent.Output; out == nil || out.Repairs != 1 {
		t.Errorf("Output of the agent = %+v, want one repair", out)
	}
	b.call("PUT", "/agents/data-extractor", `{"description": "Other", "system_prompt": "You extract.", "tags": ["a"]}`).expect(200, `"system_prompt":"You extract."`).expect(200, `"output_schema":null`)
	b.call("PUT", "/agents/data-extractor", `{"description": "Other", "input_mode": "authoritative", "parameters_schema": {"type": "object"}}`).expect(200, `"input_mode":"authoritative"`)
	b.put("agents/data-extractor/README.md", "keep me")
	b.call("PUT", "/agents/data-extractor", `{"description": "Other"}`).expect(200, `"system_prompt":null`)
	var names []string
	list, _ := os.ReadDir(filepath.Join(b.dir, "agents/data-extractor"))
	for _, e := range list {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"README.md", "agent.json"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	b.call("DELETE", "/agents/data-extractor", "").expect(204, "")
	b.call("DELETE", "/agents/data-extractor", "").expect(404, "unknown-agent")
	b.call("PUT", "/agents/data-extractor", extractorAgent).expect(404, "unknown-agent")
	if list, _ := os.ReadDir(filepath.Join(b.dir, "agents")); len(list) != 1 {
		t.Errorf("files in agents = %v, want one", list)
	}
}

func TestInvalidAgents(t *testing.T) {
	tests := map[string]struct {
		body   string
		status int
		part   string
	}{
		"invalid parameters_schema":      {`{"name": "x", "description": "x", "parameters_schema": {"type": "objct"}}`, 422, "parameters_schema of agent"},
		"invalid output_schema":          {`{"name": "x", "description": "x", "output_schema": {"required": 7}}`, 422, "output_schema of agent"},
		"schema with a remote reference": {`{"name": "x", "description": "x", "output_schema": {"$ref": "http://evil.example/s"}}`, 422, "invalid-agent"},
		"no description":                 {`{"name": "x"}`, 422, "has no description"},
		"no name":                        {`{"description": "x"}`, 422, "the name is"},
		"name outside the folder":        {`{"name": "../x", "description": "x"}`, 422, `the name is \"../x\"`},
		"name too long":                  {`{"name": "` + strings.Repeat("x", 61) + `", "description": "x"}`, 422, "at most 60"},
		"hidden name":                    {`{"name": ".x", "description": "x"}`, 422, "the name is"},
		"procedural agent by command":    {`{"name": "x", "description": "x", "type": "procedural", "command": "rm"}`, 403, "the field command defines a procedural agent"},
		"procedural agent by type":       {`{"name": "x", "description": "x", "type": "procedural"}`, 403, "procedural"},
		"script":                         {`{"name": "x", "description": "x", "script": "s"}`, 403, "the field script"},
		"unknown type":                   {`{"name": "x", "description": "x", "type": "auto"}`, 422, "agent-type"},
		"command of an MCP server":       {`{"name": "x", "description": "x", "mcp_servers": {"a": {"command": "sh"}}}`, 422, "invalid-agent"},
		"unknown capability":             {`{"name": "x", "description": "x", "capabilities": ["zzz"]}`, 422, "zzz"},
		"misspelled field":               {`{"name": "x", "description": "x", "outputschema": {}}`, 422, `did you mean \"output_schema\"?`},
		"number instead of a string":     {`{"name": "x", "description": "x", "system_prompt": 7}`, 422, "body:1:52: system_prompt is 7, expected a string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, allowEditing)
			b.call("POST", "/agents", tc.body).expect(tc.status, tc.part)
			b.call("PUT", "/agents/parametric-agent", strings.Replace(tc.body, `"name": "x"`, `"name": "parametric-agent"`, 1)).Result()
			if list, _ := os.ReadDir(filepath.Join(b.dir, "agents")); len(list) != 1 {
				t.Errorf("files in agents = %v, want one", list)
			}
			if raw, _ := os.ReadFile(filepath.Join(b.dir, "agents/parametric-agent/agent.json")); string(raw) != parametricAgent && name != "no name" {
				t.Errorf("the existing agent was changed to %s", raw)
			}
		})
	}
}
