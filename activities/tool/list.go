package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
)

// maxPages bounds a listing that never ends.
const maxPages = 1000

// toolsPage is a page of tools/list in the server's own bytes.
type toolsPage struct {
	Tools []struct {
		Name        string          `json:"name"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	} `json:"tools"`
	NextCursor string `json:"nextCursor"`
}

// list returns all tools, page by page. A tool that a page repeats is taken once.
func (s *session) list(ctx context.Context) ([]contract.ToolSpec, error) {
	var (
		specs  []contract.ToolSpec
		bytes  int
		req    mcp.ListToolsRequest
		seen   = map[string]bool{}
		cursor = map[mcp.Cursor]bool{"": true}
	)
	for range maxPages {
		page, err := s.page(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, raw := range page.Tools {
			spec, err := s.spec(raw.Name, raw.Title, raw.Description, raw.InputSchema)
			if err != nil {
				return nil, err
			}
			if seen[spec.Name] {
				continue
			}
			seen[spec.Name] = true
			specs = append(specs, spec)
			bytes += len(spec.Name) + len(spec.Description) + len(spec.Schema)
		}
		if bytes > s.at.settings.MaxResultBytes {
			return nil, s.at.failure(contract.ClassTooLarge,
				fmt.Sprintf("its tools have more than %d bytes of names, descriptions and schemas", s.at.settings.MaxResultBytes),
				"split the server, or raise max_result_bytes")
		}
		next := mcp.Cursor(page.NextCursor)
		if next == "" {
			s.listed.Store(true)
			sort.Slice(specs, func(i, j int) bool { return specs[i].Name < specs[j].Name })
			return specs, nil
		}
		if cursor[next] {
			return nil, s.at.failure(contract.ClassBadRequest, fmt.Sprintf("tools/list repeats the cursor %q", next), "report it to the server's author")
		}
		cursor[next] = true
		req.Params.Cursor = next
	}
	return nil, s.at.failure(contract.ClassTooLarge, fmt.Sprintf("tools/list has more than %d pages", maxPages), "report it to the server's author")
}

// page asks for one page. The library's reading of it serves only to leave out the tools
// that the protocol tells a client to leave out.
func (s *session) page(ctx context.Context, req mcp.ListToolsRequest) (*toolsPage, error) {
	var kept *mcp.ListToolsResult
	a, err := s.ask(ctx, func(ctx context.Context) (err error) {
		kept, err = s.client.ListToolsByPage(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if a.problem != nil {
		return nil, s.listProblem(a.problem)
	}
	var page toolsPage
	if err := json.Unmarshal(a.result, &page); err != nil {
		return nil, s.at.failure(contract.ClassBadRequest, fmt.Sprintf("tools/list: %v", err), "report it to the server's author")
	}
	if kept == nil || len(kept.Tools) == len(page.Tools) {
		return &page, nil
	}
	names := map[string]bool{}
	for _, t := range kept.Tools {
		names[t.Name] = true
	}
	all := page.Tools
	page.Tools = page.Tools[:0]
	for _, t := range all {
		if names[t.Name] {
			page.Tools = append(page.Tools, t)
		}
	}
	return &page, nil
}

func (s *session) listProblem(p *mcp.JSONRPCErrorDetails) error {
	class, remedy := contract.ClassBadRequest, ""
	switch p.Code {
	case mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return fmt.Errorf("%w: %s", errForgotten, p.Message)
	case mcp.METHOD_NOT_FOUND:
		class, remedy = contract.ClassConnection, "is it an MCP server with tools?"
	case mcp.INTERNAL_ERROR:
		class = contract.ClassUnavailable
	case codeTooLarge:
		return s.at.tooLarge()
	}
	return s.at.failure(class, fmt.Sprintf("tools/list (%d): %s", p.Code, p.Message), remedy)
}

// spec checks what a server says of one tool. The schema keeps the server's own words
// and order, without white space.
func (s *session) spec(name, title, description string, schema json.RawMessage) (contract.ToolSpec, error) {
	if name == "" {
		return contract.ToolSpec{}, s.at.failure(contract.ClassBadRequest, "tools/list has a tool without a name", "report it to the server's author")
	}
	if description == "" {
		description = title
	}
	if len(schema) == 0 || string(schema) == "null" {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, schema); err != nil || out.Bytes()[0] != '{' {
		return contract.ToolSpec{}, s.at.failure(contract.ClassBadRequest,
			fmt.Sprintf("inputSchema of tool %q is not an object: %s", name, short(string(schema))), "report it to the server's author")
	}
	return contract.ToolSpec{Name: name, Description: s.at.secrets.result(description), Schema: out.Bytes()}, nil
}
