package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// extractor is the agent that the framework's documentation creates.
const extractor = `{
    "name": "data-extractor",
    "description": "Extracts structured data from text",
    "type": "autonomous",
    "output_schema": {
      "type": "object",
      "required": ["entities"],
      "properties": {"entities": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}}}}}
    }
  }`

func editing(o *Options) { o.Settings.EditAgents = true }

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
	first := b.call("GET", "/agents?limit=2", "").is(200, `"name":"broken"`).is(200, `"status":"invalid"`).is(200, `"name":"off"`).is(200, `"status":"inactive"`)
	b.call("GET", "/agents?limit=2&page_token="+first.field("next_page_token").(string), "").is(200, `{"agents":[{"name":"parametric-agent"`)
	b.call("GET", "/agents/parametric-agent", "").is(200, `"system_prompt":"You write."`).is(200, `"parameters_schema":{"type":"object","required":["topic","format"],`).is(200, `"status":"active","diagnostics":[]`)
	b.call("GET", "/agents/broken", "").is(200, "agents/broken/agent.json:1:1: ")
	b.put("agents/long/agent.json", strings.Repeat(" ", 1<<20+1))
	b.call("POST", "/runs", `{"type": "start_session", "agent_name": "long", "parameters": {"prompt": "x"}}`).is(422, "agents/long/agent.json: it exceeds the limit of 1048576 bytes")
	for _, name := range []string{"nobody", "empty", "out", ".hidden", "..", "a%2F..%2Foff"} {
		if got := b.call("GET", "/agents/"+name, ""); got.Code != 404 && got.Code != 307 {
			t.Errorf("%s gives %d %s", name, got.Code, got.Body)
		}
	}
}

func TestAgentsStayAsTheyAreUnlessAllowed(t *testing.T) {
	b := newBench(t)
	for _, call := range [][]string{{"POST", "/agents", extractor}, {"PUT", "/agents/parametric-agent", extractor}, {"DELETE", "/agents/parametric-agent", ""}} {
		b.call(call[0], call[1], call[2]).is(403, "serve: {edit_agents: true}")
	}
	if list, err := os.ReadDir(filepath.Join(b.dir, "agents")); err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}

func TestAgentsAreSaved(t *testing.T) {
	b := newBench(t, editing)
	got := b.call("POST", "/agents", extractor).is(201, `"name":"data-extractor"`).is(201, `"status":"active"`)
	if got.Header().Get("Location") != "/agents/data-extractor" {
		t.Errorf("the place is %q", got.Header().Get("Location"))
	}
	b.call("POST", "/agents", extractor).is(409, "agent-exists")
	b.put("agents/bare/README.md", "No agent yet.")
	b.call("POST", "/agents", `{"name": "bare", "description": "B"}`).is(409, "has no agent.json")
	if err := os.RemoveAll(filepath.Join(b.dir, "agents/bare")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(b.dir, "agents/data-extractor/agent.json"))
	if err != nil || !strings.HasPrefix(string(raw), "{\n  \"name\": \"data-extractor\",\n  \"description\":") {
		t.Errorf("the file is %s, %v", raw, err)
	}
	run := b.call("POST", "/runs", `{"type": "start_session", "agent_name": "data-extractor", "parameters": {"prompt": "x"}}`).is(201, "run_data-extractor-1")
	if out := b.runs.inputs[run.field("run_id").(string)].Flow.Plan.Nodes[0].Agent.Output; out == nil || out.Repairs != 1 {
		t.Errorf("the run's output is %+v", out)
	}
	b.call("PUT", "/agents/data-extractor", `{"description": "Other", "system_prompt": "You extract.", "tags": ["a"]}`).is(200, `"system_prompt":"You extract."`).is(200, `"output_schema":null`)
	b.call("PUT", "/agents/data-extractor", `{"description": "Other", "input_mode": "authoritative", "parameters_schema": {"type": "object"}}`).is(200, `"input_mode":"authoritative"`)
	b.put("agents/data-extractor/README.md", "keep me")
	b.call("PUT", "/agents/data-extractor", `{"description": "Other"}`).is(200, `"system_prompt":null`)
	var names []string
	list, _ := os.ReadDir(filepath.Join(b.dir, "agents/data-extractor"))
	for _, e := range list {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"README.md", "agent.json"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	b.call("DELETE", "/agents/data-extractor", "").is(204, "")
	b.call("DELETE", "/agents/data-extractor", "").is(404, "unknown-agent")
	b.call("PUT", "/agents/data-extractor", extractor).is(404, "unknown-agent")
	if list, _ := os.ReadDir(filepath.Join(b.dir, "agents")); len(list) != 1 {
		t.Errorf("the folder has %v", list)
	}
}

func TestAgentsThatAreNotSaved(t *testing.T) {
	tests := map[string]struct {
		body   string
		status int
		part   string
	}{
		"a parameters_schema that is none": {`{"name": "x", "description": "x", "parameters_schema": {"type": "objct"}}`, 422, "parameters_schema of agent"},
		"an output_schema that is none":    {`{"name": "x", "description": "x", "output_schema": {"required": 7}}`, 422, "output_schema of agent"},
		"a schema from elsewhere":          {`{"name": "x", "description": "x", "output_schema": {"$ref": "http://evil.example/s"}}`, 422, "invalid-agent"},
		"no description":                   {`{"name": "x"}`, 422, "has no description"},
		"no name":                          {`{"description": "x"}`, 422, "the name is"},
		"a name that leads out":            {`{"name": "../x", "description": "x"}`, 422, `the name is \"../x\"`},
		"a name without end":               {`{"name": "` + strings.Repeat("x", 61) + `", "description": "x"}`, 422, "at most 60"},
		"a name that is hidden":            {`{"name": ".x", "description": "x"}`, 422, "the name is"},
		"a procedural agent":               {`{"name": "x", "description": "x", "type": "procedural", "command": "rm"}`, 403, "the field command defines a procedural agent"},
		"a procedural agent by its type":   {`{"name": "x", "description": "x", "type": "procedural"}`, 403, "procedural"},
		"a script":                         {`{"name": "x", "description": "x", "script": "s"}`, 403, "the field script"},
		"an unknown type":                  {`{"name": "x", "description": "x", "type": "auto"}`, 422, "agent-type"},
		"a program as MCP server":          {`{"name": "x", "description": "x", "mcp_servers": {"a": {"command": "sh"}}}`, 422, "invalid-agent"},
		"a capability that is not there":   {`{"name": "x", "description": "x", "capabilities": ["zzz"]}`, 422, "zzz"},
		"a misspelt field":                 {`{"name": "x", "description": "x", "outputschema": {}}`, 422, `did you mean \"output_schema\"?`},
		"a text that is a number":          {`{"name": "x", "description": "x", "system_prompt": 7}`, 422, "body:1:52: system_prompt is 7, expected a string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, editing)
			b.call("POST", "/agents", tc.body).is(tc.status, tc.part)
			b.call("PUT", "/agents/parametric-agent", strings.Replace(tc.body, `"name": "x"`, `"name": "parametric-agent"`, 1)).Result()
			if list, _ := os.ReadDir(filepath.Join(b.dir, "agents")); len(list) != 1 {
				t.Errorf("the folder has %v", list)
			}
			if raw, _ := os.ReadFile(filepath.Join(b.dir, "agents/parametric-agent/agent.json")); string(raw) != parametric && name != "no name" {
				t.Errorf("the agent that was there is now %s", raw)
			}
		})
	}
}
