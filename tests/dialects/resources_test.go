package dialects

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// docs starts a server whose tool returns a link to one of its two resources.
func docs(t *testing.T) string {
	s := server.NewMCPServer("docs", "1", server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true))
	for _, uri := range []string{"doc:///1", "doc:///2"} {
		s.AddResource(mcp.NewResource(uri, uri), func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, Text: "the text of " + r.Params.URI}}, nil
		})
	}
	s.AddTool(mcp.NewTool("find"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewResourceLink("doc:///1", "one", "", "text/plain")}}, nil
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	return web.URL
}

// TestReadResource checks that models can read the resources to which results in their conversations link, and no others, if
// the settings of the connection allow it.
func TestReadResource(t *testing.T) {
	t.Parallel()
	const find, read, readOther = "- {turn: 1, call: [{tool: find}]}\n", "- {turn: 2, call: [{tool: read_resource, arguments: {uri: 'doc:///1'}}]}\n", "- {turn: 2, call: [{tool: read_resource, arguments: {uri: 'doc:///2'}}]}\n"
	link, text := "[resource link doc:///1, one, text/plain]", "[resource doc:///1]\nthe text of doc:///1"
	yes, no := true, false
	for name, tc := range map[string]struct {
		script  string
		off     bool
		confirm *bool
		want    []string
	}{
		"a link":          {script: find + read, want: []string{link, text}},
		"no link":         {script: find + readOther, want: []string{link, "!no result in this conversation links to the resource doc:///2"}},
		"before the link": {script: "- {turn: 1, call: [{tool: read_resource, arguments: {uri: 'doc:///1'}}]}\n", want: []string{"!no result in this conversation links"}},
		"no URI":          {script: find + "- {turn: 2, call: [{tool: read_resource}]}\n", want: []string{link, "!read_resource expects"}},
		"not allowed":     {script: find + read, off: true, want: []string{link, `!unknown tool "read_resource"; available tools: `}},
		"user approves":   {script: find + read, confirm: &yes, want: []string{link, text}},
		"user rejects":    {script: find + read, confirm: &no, want: []string{link, "!a user rejected the call of read_resource"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := tool.Settings{Connections: map[string]tool.Connection{"docs": {URL: docs(t), Resources: !tc.off}}}
			if tc.confirm != nil {
				settings.Confirm = map[string]tool.ConfirmRule{"reads": {Tools: []string{"read_*"}}}
			}
			p := harness.TestRun{Document: harness.OneNode(`,"tools":[{"name":"find","data_connection_id":"docs"}]`), Script: "rules:\n" + tc.script + "- {say: done}", ToolSettings: settings,
				Prepare: func(env *testsuite.TestWorkflowEnvironment) {
					harness.AtTime(env, time.Hour, func() {
						var s contract.Status
						harness.Query(t, env, contract.QueryStatus, &s)
						for _, q := range s.Requests {
							env.SignalWorkflow(contract.RequestConfirm, contract.ConfirmAnswer{ID: q.ID, Approve: tc.confirm})
						}
					})
				}}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			got := toolReplies(t, p, "a#1")
			if len(got) != len(tc.want) {
				t.Fatalf("tool replies = %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("tool reply = %q, want %q", got[i], want)
				}
			}
		})
	}
}
