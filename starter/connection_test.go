package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/tool"
)

// TestConnection checks the list of a connection's tools, prompts and resources, as a table without control characters and as JSON.
func TestConnection(t *testing.T) {
	s := server.NewMCPServer("library", "1", server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(true, true), server.WithPaginationLimit(1))
	s.AddTool(mcp.NewTool("find", mcp.WithDescription("Finds\x1b[2J books")), nil)
	for _, name := range []string{"ask", "brief"} {
		s.AddPrompt(mcp.NewPrompt(name, mcp.WithPromptDescription("A prompt"), mcp.WithArgument("topic"), mcp.WithArgument("length")), nil)
	}
	s.AddResource(mcp.NewResource("doc:///1", "one", mcp.WithMIMEType("text/plain")), nil)
	s.AddResourceTemplate(mcp.NewResourceTemplate("doc:///{n}", "a document"), nil)
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, []byte("connections: {library: {url: "+web.URL+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) (stdout, stderr string, code int) {
		var out, errs bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: mapEnv{}}
		code = a.run(t.Context(), append([]string{"connection", "-config", file}, args...))
		return out.String(), errs.String(), code
	}
	got, errs, code := list("library")
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"tool find Finds[2J books", "prompt ask (topic, length) A prompt", "prompt brief (topic, length) A prompt", "resource doc:///1 text/plain one", "template doc:///{n} a document"}
	if diff := cmp.Diff(want, lines); diff != "" || code != exitOK {
		t.Errorf("exit code %d, %s (-want +got):\n%s", code, errs, diff)
	}
	got, _, code = list("library", "-output", "json")
	var offer tool.Offer
	if err := json.Unmarshal([]byte(got), &offer); err != nil || code != exitOK || len(offer.Tools) != 1 || len(offer.Prompts) != 2 || len(offer.Resources) != 1 || len(offer.Templates) != 1 {
		t.Errorf("exit code %d, %v: %s", code, err, got)
	}
	if _, errs, code = list("other"); code == exitOK || !strings.Contains(errs, `unknown connection "other"; available connections: library`) {
		t.Errorf("unknown connection: exit code %d, %s", code, errs)
	}
}
