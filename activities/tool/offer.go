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

// Offer is what a connection has, for people. Prompts and resources are those of MCP servers; runs use tools alone.
type Offer struct {
	Tools     []contract.ToolSpec `json:"tools"`
	Prompts   []Prompt            `json:"prompts"`
	Resources []Resource          `json:"resources"`
	Templates []Resource          `json:"resource_templates"`
}

// Prompt is a prompt of a server.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Arguments   []Argument `json:"arguments,omitempty"`
}

// Argument is one of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Resource is a resource of a server, or a template of URIs.
type Resource struct {
	URI         string `json:"uri,omitempty"`
	URITemplate string `json:"uriTemplate,omitempty"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Size        *int64 `json:"size,omitempty"`
}

// Offer lists what a resolved connection has, in the server's order but for the tools. Errors are as those of [Tools.List].
func (t *Tools) Offer(ctx context.Context, c plan.Connection) (*Offer, error) {
	out := &Offer{Prompts: []Prompt{}, Resources: []Resource{}, Templates: []Resource{}}
	return out, t.reach(ctx, c, func(ctx context.Context, _ *target, server remote) (err error) {
		if out.Tools, err = server.list(ctx, &c); err != nil {
			return err
		}
		if s, ok := server.(*session); ok {
			return s.offer(ctx, out)
		}
		return nil
	})
}

func (s *session) offer(ctx context.Context, out *Offer) error {
	for _, of := range []struct {
		method  mcp.MCPMethod
		request func(context.Context, mcp.PaginatedRequest) error
		into    func([]byte) error
	}{
		{mcp.MethodPromptsList, func(ctx context.Context, p mcp.PaginatedRequest) error {
			return tasks.Request(s.client.ListPromptsByPage, mcp.ListPromptsRequest{PaginatedRequest: p})(ctx)
		}, func(raw []byte) error { return listed(s, raw, "prompts", &out.Prompts) }},
		{mcp.MethodResourcesList, func(ctx context.Context, p mcp.PaginatedRequest) error {
			return tasks.Request(s.client.ListResourcesByPage, mcp.ListResourcesRequest{PaginatedRequest: p})(ctx)
		}, func(raw []byte) error { return listed(s, raw, "resources", &out.Resources) }},
		{mcp.MethodResourcesTemplatesList, func(ctx context.Context, p mcp.PaginatedRequest) error {
			return tasks.Request(s.client.ListResourceTemplatesByPage, mcp.ListResourceTemplatesRequest{PaginatedRequest: p})(ctx)
		}, func(raw []byte) error { return listed(s, raw, "resourceTemplates", &out.Templates) }},
	} {
		err := s.pages(ctx, of.method, of.request, func(raw []byte) (int, error) { return len(raw), of.into(raw) })
		if err != nil && !errors.Is(err, errNotOffered) && !methodUnknown(err) {
			return err
		}
	}
	return nil
}

// listed appends the entries of a page to a list, without the connection's secrets.
func listed[T any](s *session, raw []byte, field string, list *[]T) error {
	var page map[string]json.RawMessage
	var more []T
	err := json.Unmarshal(raw, &page)
	if err == nil && page[field] != nil {
		err = json.Unmarshal([]byte(s.at.secrets.result(string(page[field]))), &more)
	}
	if err != nil {
		return s.at.malformed("the list of %s: %v", field, err)
	}
	*list = append(*list, more...)
	return nil
}

func (s *session) resource(ctx context.Context, uri string) (Result, error) {
	if !s.at.conn.Resources {
		return Result{Text: fmt.Sprintf("resources of %s are not read: its settings do not allow it", s.at.name()), Failed: true}, nil
	}
	a, err := s.ask(ctx, tasks.Request(s.client.ReadResource, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}}))
	switch {
	case methodUnknown(err):
		return Result{Text: fmt.Sprintf("the server of %s has no resources", s.at.name()), Failed: true}, nil
	case err != nil:
		return Result{}, err
	case a.problem != nil:
		return s.problem(a.problem)
	}
	r, err := render.Resource(a.result)
	var out Result
	if err == nil {
		out.Text, out.Media, err = r.Text(nil)
	}
	switch {
	case err != nil:
		return Result{}, s.at.malformed("resource %q: %v", short(uri), err)
	case len(r.Content) == 0:
		return Result{Text: "the server gave no contents of the resource " + uri, Failed: true}, nil
	}
	return out, nil
}
