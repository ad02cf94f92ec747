package dialects

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
)

// serverAgent returns an agent with one MCP server of the registry.
func serverAgent(address string) *specadapter.Folder {
	return &specadapter.Folder{Name: "agents/clerk/agent.json", Text: []byte(`{"name":"clerk","description":"Keeps things"}`), Files: []source.File{
		{Name: "agents/clerk/agent.system-prompt.md", Text: "You keep things for ${scope.tenant}."},
		{Name: "agents/clerk/agent.mcp.json", Text: `{"mcpServers":{"shelf":{"ref":"shelf","config":{"X-Tenant":"${scope.tenant}","X-Topic":"about ${params.prompt}","Authorization":"Bearer ${env.SHELF_TOKEN}"}}}}`},
		{Name: "mcp-servers/shelf/mcp-server.json", Text: `{"id":"shelf","name":"Shelf","url":"` + address + `","config_schema":{"X-Tenant":{"type":"string","required":true},` +
			`"Authorization":{"type":"string","sensitive":true,"required":true}},"default_config":{"X-Partition":"${runtime.session_id}","X-Auto":true,"X-Tenant":"nobody"}}`},
	}}
}

// TestBlueprintServers checks that the model can use all tools of an agent's servers, that config is sent as headers with placeholders
// replaced, and that a secret is sent to its host only.
func TestBlueprintServers(t *testing.T) {
	t.Parallel()
	address, seen := harness.NewToolServer(t)
	const secret = "hush-hush-4711"
	folder := serverAgent(address)
	settings := tool.Settings{AllowLoopback: true, Variables: map[string]tool.Secret{"SHELF_TOKEN": {Value: secret, Hosts: []string{address}}}}
	res, diags := specadapter.Load(folder.Name, folder.Text, specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: folder.Files}})
	if res == nil {
		t.Fatal(diags)
	}
	r := harness.TestRun{Script: `rules: [{turn: 1, call: [{tool: put}]}, {turn: 2, call: [{tool: take}]}, {turn: 3, say: Kept.}]`, ToolSettings: settings}
	r.SetInput = func(in *contract.RunInput) {
		in.Flow, in.Params, in.Scope = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(`{"prompt":"books"}`), json.RawMessage(`{"tenant":"blue"}`)
	}
	p := r.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if diff := cmp.Diff([]string{"put done", "take done"}, toolReplies(t, p, "clerk#1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := map[string]string{"X-Tenant": "blue", "X-Topic": "about books", "Authorization": "Bearer " + secret, "X-Auto": "true", "X-Partition": "default-test-workflow-id"}
	if missing := seen.Missing(want); len(missing) > 0 || len(seen.All) == 0 {
		t.Errorf("%d requests, missing headers: %v", len(seen.All), missing)
	}
	var flow struct{ Plan json.RawMessage }
	harness.Query(t, p.Env, contract.QueryPlan, &flow.Plan)
	if strings.Contains(string(flow.Plan), secret) || !strings.Contains(string(flow.Plan), "${env.SHELF_TOKEN}") {
		t.Errorf("plan = %s", flow.Plan)
	}
}

// TestBlueprintServersRefused checks that invalid config of a server fails the run before its first model call.
func TestBlueprintServersRefused(t *testing.T) {
	t.Parallel()
	address, seen := harness.NewToolServer(t)
	folder := serverAgent(address)
	token := map[string]tool.Secret{"SHELF_TOKEN": {Value: "hush-hush-4711", Hosts: []string{"elsewhere.example.com"}}}
	tests := map[string]struct {
		settings    tool.Settings
		scope, want string
	}{
		"no value for a required header": {tool.Settings{AllowLoopback: true}, `{}`, `the MCP server "shelf" requires the config X-Tenant, whose placeholders have no value`},
		"a secret for another host":      {tool.Settings{AllowLoopback: true, Variables: token}, `{"tenant":"b"}`, "requires the variable SHELF_TOKEN, which may not be sent to http://127.0.0.1"},
		"an address that is not allowed": {tool.Settings{Variables: token}, `{"tenant":"b"}`, "allow_loopback: true"},
		"a header with a line break":     {tool.Settings{AllowLoopback: true}, `{"tenant":"a\nb"}`, "has a line break"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res, diags := specadapter.Load(folder.Name, folder.Text, specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: folder.Files}})
			if res == nil {
				t.Fatal(diags)
			}
			r := harness.TestRun{Script: `rules: [{say: x}]`, ToolSettings: tc.settings, SetInput: func(in *contract.RunInput) {
				in.Flow, in.Params, in.Scope = contract.FlowRef{Plan: res.Flow}, json.RawMessage(`{"prompt":"p"}`), json.RawMessage(tc.scope)
			}}
			p := r.Execute(t)
			if p.Err == nil || !strings.Contains(p.Err.Error(), tc.want) {
				t.Errorf("the run ended with %v, want %q", p.Err, tc.want)
			}
		})
	}
	if len(seen.All) > 0 {
		t.Errorf("%d requests, want none", len(seen.All))
	}
}
