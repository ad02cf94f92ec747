package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
	"weft/activities/tool/render"
	"weft/activities/tool/tasks"
	"weft/workflows/plan"
)

// Offer lists what a connection provides, for display to users. Runs do not use prompts and resources, which only MCP servers have.
type Offer struct {
	Tools     []contract.ToolSpec `json:"tools"`
	Prompts   []Prompt            `json:"prompts"`
	Resources []Resource          `json:"resources"`
	Templates []Resource          `json:"resource_templates"`
}

// Prompt describes a prompt of a server.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Arguments   []Argument `json:"arguments,omitempty"`
}

// Argument describes an argument of a [Prompt].
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Resource describes a resource or a resource template of a server.
type Resource struct {
	URI         string `json:"uri,omitempty"`
	URITemplate string `json:"uriTemplate,omitempty"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Size        *int64 `json:"size,omitempty"`
}

// Offer lists what a resolved connection provides: tools by name, the rest in the server's order. Its errors are those of [Tools.List].
func (t *Tools) Offer(ctx context.Context, c plan.Connection) (*Offer, error) {
	out := &Offer{Prompts: []Prompt{}, Resources: []Resource{}, Templates: []Resource{}}
	return out, t.withConnection(ctx, c, func(ctx context.Context, _ *target, server remote) (err error) {
		if out.Tools, err = server.list(ctx, &c); err != nil {
			return err
		}
		if s, ok := server.(*session); ok {
			return s.listAll(ctx, out)
		}
		return nil
	})
}

func (s *session) listAll(ctx context.Context, out *Offer) error {
	for _, list := range []struct {
		method  mcp.MCPMethod
		request func(context.Context, mcp.PaginatedRequest) error
		parse   func([]byte) error
	}{
		{mcp.MethodPromptsList, func(ctx context.Context, p mcp.PaginatedRequest) error {
			return tasks.Request(s.client.ListPromptsByPage, mcp.ListPromptsRequest{PaginatedRequest: p})(ctx)
		}, func(raw []byte) error { return appendPage(s, raw, "prompts", &out.Prompts) }},
		{mcp.MethodResourcesList, func(ctx context.Context, p mcp.PaginatedRequest) error {
			return tasks.Request(s.client.ListResourcesByPage, mcp.ListResourcesRequest{PaginatedRequest: p})(ctx)
		}, func(raw []byte) error { return appendPage(s, raw, "resources", &out.Resources) }},
		{mcp.MethodResourcesTemplatesList, func(ctx context.Context, p mcp.PaginatedRequest) error {
			return tasks.Request(s.client.ListResourceTemplatesByPage, mcp.ListResourceTemplatesRequest{PaginatedRequest: p})(ctx)
		}, func(raw []byte) error { return appendPage(s, raw, "resourceTemplates", &out.Templates) }},
	} {
		err := s.pages(ctx, list.method, list.request, func(raw []byte) (int, error) { return len(raw), list.parse(raw) })
		if err != nil && !errors.Is(err, errMethodUnsupported) && !isMethodNotFound(err) {
			return err
		}
	}
	return nil
}

// appendPage appends the entries of a page to a list, with the connection's secrets masked.
func appendPage[T any](s *session, raw []byte, field string, list *[]T) error {
	var page map[string]json.RawMessage
	var more []T
	err := json.Unmarshal(raw, &page)
	if err == nil && page[field] != nil {
		err = json.Unmarshal([]byte(s.at.secrets.maskResult(string(page[field]))), &more)
	}
	if err != nil {
		return s.at.malformed("invalid list of %s: %v", field, err)
	}
	*list = append(*list, more...)
	return nil
}

func (s *session) readResource(ctx context.Context, uri string) (Result, error) {
	if !s.at.conn.Resources {
		return Result{Text: fmt.Sprintf("reading resources of %s is not allowed by its settings", s.at.name()), Failed: true}, nil
	}
	a, err := s.request(ctx, tasks.Request(s.client.ReadResource, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}}))
	switch {
	case isMethodNotFound(err):
		return Result{Text: fmt.Sprintf("the server of %s does not support resources", s.at.name()), Failed: true}, nil
	case err != nil:
		return Result{}, err
	case a.rpcError != nil:
		return s.errorResult(a.rpcError)
	}
	r, err := render.Resource(a.result)
	var out Result
	if err == nil {
		out.Text, out.Media, err = r.Text(nil)
	}
	switch {
	case err != nil:
		return Result{}, s.at.malformed("invalid resource %q: %v", short(uri), err)
	case len(r.Content) == 0:
		return Result{Text: "the server returned no contents for the resource " + uri, Failed: true}, nil
	}
	return out, nil
}
