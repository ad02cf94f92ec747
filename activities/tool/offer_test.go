package tool

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/workflows/plan"
)

const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="

// library returns a server with several pages of prompts and resources, and a tool that links to some resources.
func library() *server.MCPServer {
	s := server.NewMCPServer("library", "1", server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(true, true), server.WithPaginationLimit(2))
	for i := range 5 {
		s.AddPrompt(mcp.NewPrompt(fmt.Sprintf("p%d", i), mcp.WithPromptDescription("a prompt"), mcp.WithArgument("of", mcp.RequiredArgument())), nil)
		s.AddResource(mcp.NewResource(fmt.Sprintf("doc:///%d", i), fmt.Sprintf("r%d", i), mcp.WithMIMEType("text/plain")), func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: "the text of " + r.Params.URI}}, nil
		})
	}
	for uri, size := range map[string]int{"doc:///long": 20_000, "doc:///picture": 0} {
		s.AddResource(mcp.NewResource(uri, uri), func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			if size > 0 {
				return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, Text: strings.Repeat("x", size)}}, nil
			}
			return []mcp.ResourceContents{mcp.BlobResourceContents{URI: r.Params.URI, MIMEType: "image/png", Blob: picture}}, nil
		})
	}
	s.AddResourceTemplate(mcp.NewResourceTemplate("doc:///{n}/page", "page"), nil)
	s.AddTool(mcp.NewTool("find"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent("two"), mcp.NewResourceLink("doc:///1", "one", "", "text/plain"), mcp.NewResourceLink("doc:///picture", "a picture", "", "image/png")}}, nil
	})
	return s
}

// forEachTransport runs a test with a connection over each transport, and over streamable HTTP with both protocol generations.
func forEachTransport(t *testing.T, s func() *server.MCPServer, mode string, test func(t *testing.T, c Connection)) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inner := server.NewStreamableHTTPServer(s())
	rejectDiscovery := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Body = io.NopCloser(bytes.NewReader(body)); bytes.Contains(body, []byte("server/discover")) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		inner.ServeHTTP(w, r)
	}
	for name, c := range map[string]Connection{
		"http":             {URL: start(t, inner).URL},
		"http, 2025-11-25": {URL: start(t, http.HandlerFunc(rejectDiscovery)).URL},
		"sse":              {URL: start(t, server.NewSSEServer(s())).URL + "/sse", Transport: TransportSSE},
		"stdio":            {Command: exe, Env: map[string]string{helperMode: mode}},
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// TestOffer checks that the tools, prompts and resources of a connection are listed from all pages.
func TestOffer(t *testing.T) {
	forEachTransport(t, library, "library", func(t *testing.T, c Connection) {
		got, err := open(t, c).Offer(withTimeout(t, time.Minute), plan.Connection{ID: connection})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range got.Tools {
			names = append(names, s.Name)
		}
		for _, p := range got.Prompts {
			names = append(names, p.Name+" "+p.Arguments[0].Name)
		}
		for _, r := range append(got.Resources, got.Templates...) {
			names = append(names, r.URI+r.URITemplate)
		}
		want := []string{"find", "p0 of", "p1 of", "p2 of", "p3 of", "p4 of", "doc:///long", "doc:///picture", "doc:///0", "doc:///1", "doc:///2", "doc:///3", "doc:///4", "doc:///{n}/page"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	forEachTransport(t, func() *server.MCPServer { return newServer(nil) }, "serve", func(t *testing.T, c Connection) {
		got, err := open(t, c).Offer(withTimeout(t, time.Minute), plan.Connection{ID: connection})
		if err != nil || len(got.Tools) == 0 || len(got.Prompts)+len(got.Resources)+len(got.Templates) > 0 {
			t.Errorf("server without prompts and resources: %d tools, %d prompts, %d resources and %d templates, %v", len(got.Tools), len(got.Prompts), len(got.Resources), len(got.Templates), err)
		}
		c.Resources = true
		read, err := open(t, c).Call(withTimeout(t, time.Minute), contract.ToolInput{Connection: plan.Connection{ID: connection}, Name: "echo", Resource: "doc:///1"}, Meta{})
		if err != nil || !read.Failed {
			t.Errorf("server without resources: read %+v, %v", read, err)
		}
	})
}

// TestReadResource checks that resources are read in the session of the call, if the connection allows it, and limited in size like results.
func TestReadResource(t *testing.T) {
	image, _ := base64.StdEncoding.DecodeString(picture)
	forEachTransport(t, library, "library", func(t *testing.T, c Connection) {
		c.Resources = true
		tools := open(t, c, func(s *Settings) { s.MaxResultBytes = 10_000 })
		in := contract.ToolInput{Connection: plan.Connection{ID: connection}, Name: "find", Arguments: []byte("{}")}
		found, err := tools.Call(withTimeout(t, time.Minute), in, Meta{})
		if diff := cmp.Diff([]string{"doc:///1", "doc:///picture"}, found.Links); diff != "" || err != nil {
			t.Fatalf("%v, links (-want +got):\n%s", err, diff)
		}
		read := func(uri string) (Result, error) {
			in.Resource = uri
			return tools.Call(withTimeout(t, time.Minute), in, Meta{Session: found.Session})
		}
		if got, err := read("doc:///1"); err != nil || got.Failed || got.Text != "[resource doc:///1]\nthe text of doc:///1" || got.Session != found.Session {
			t.Errorf("read %+v, %v; want session %+v", got, err, found.Session)
		}
		if got, err := read("doc:///picture"); err != nil || len(got.Media) != 1 || got.Text != got.Media[0].Note(1) || len(image) == 0 {
			t.Errorf("read %+v, %v", got, err)
		}
		if got, err := read("doc:///none"); err != nil || !got.Failed {
			t.Errorf("read %+v, %v", got, err)
		}
		_, err = read("doc:///long")
		wantFailure(t, err, contract.ClassTooLarge, "10000")
	})
	inner := start(t, server.NewStreamableHTTPServer(library()))
	tools := open(t, Connection{URL: inner.URL})
	in := contract.ToolInput{Connection: plan.Connection{ID: connection}, Name: "find", Arguments: []byte("{}")}
	if got, err := tools.Call(withTimeout(t, time.Minute), in, Meta{}); err != nil || got.Links != nil {
		t.Errorf("connection that does not allow resources: links %v, %v", got.Links, err)
	}
	in.Resource = "doc:///1"
	if got, err := tools.Call(withTimeout(t, time.Minute), in, Meta{}); err != nil || !got.Failed || !strings.Contains(got.Text, "is not allowed by its settings") {
		t.Errorf("connection that does not allow resources: read %+v, %v", got, err)
	}
}
