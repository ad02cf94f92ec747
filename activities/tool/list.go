package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
	"weft/activities/tool/lines"
)

// maxPages bounds a listing that never ends.
const maxPages = 1000

// toolsPage is a page of tools/list in the server's own bytes.
type toolsPage struct {
	Tools      []listedTool `json:"tools"`
	NextCursor string       `json:"nextCursor"`
}

type listedTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations struct {
		ReadOnly   bool `json:"readOnlyHint"`
		Idempotent bool `json:"idempotentHint"`
	} `json:"annotations"`
	Execution struct {
		TaskSupport mcp.TaskSupport `json:"taskSupport"`
	} `json:"execution"`
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
			spec, err := s.spec(raw)
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
				"split the server, or have it list fewer tools")
		}
		next := mcp.Cursor(page.NextCursor)
		if next == "" {
			s.isConfigured.Store(true)
			sort.Slice(specs, func(i, j int) bool { return specs[i].Name < specs[j].Name })
			return specs, nil
		}
		if cursor[next] {
			return nil, s.at.malformed("tools/list repeats the cursor %q", next)
		}
		cursor[next] = true
		req.Params.Cursor = next
	}
	return nil, s.at.failure(contract.ClassTooLarge, fmt.Sprintf("tools/list has more than %d pages", maxPages), "report it to the server's author")
}

// page requests one page. The library's result only says which tools the protocol has a client ignore.
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
		return nil, s.at.malformed("tools/list: %v", err)
	}
	if kept == nil || len(kept.Tools) == len(page.Tools) {
		return &page, nil
	}
	names := map[string]bool{}
	for _, t := range kept.Tools {
		names[t.Name] = true
	}
	page.Tools = slices.DeleteFunc(page.Tools, func(t listedTool) bool { return !names[t.Name] })
	return &page, nil
}

func (s *session) listProblem(p *mcp.JSONRPCErrorDetails) error {
	class, remedy := contract.ClassBadRequest, ""
	switch p.Code {
	case mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return fmt.Errorf("%w: %s", errSessionUnknown, p.Message)
	case mcp.METHOD_NOT_FOUND:
		class, remedy = contract.ClassConnection, "is it an MCP server with tools?"
	case mcp.INTERNAL_ERROR:
		class = contract.ClassUnavailable
	case lines.CodeTooLarge:
		return s.at.tooLarge()
	}
	return s.at.failure(class, fmt.Sprintf("tools/list (%d): %s", p.Code, p.Message), remedy)
}

// spec checks a listed tool. The schema keeps the server's text and order, without white space.
func (s *session) spec(t listedTool) (contract.ToolSpec, error) {
	schema := t.InputSchema
	if len(schema) == 0 || string(schema) == "null" {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	var out bytes.Buffer
	switch err := json.Compact(&out, schema); {
	case t.Name == "":
		return contract.ToolSpec{}, s.at.malformed("tools/list has a tool without a name")
	case err != nil || out.Bytes()[0] != '{':
		return contract.ToolSpec{}, s.at.malformed("inputSchema of tool %q is not an object: %s", t.Name, short(string(schema)))
	}
	return contract.ToolSpec{Name: t.Name, Description: s.at.secrets.result(cmp.Or(t.Description, t.Title)), Schema: out.Bytes(),
		Repeatable: t.Annotations.ReadOnly || t.Annotations.Idempotent, AsTask: s.tasks().Wanted(t.Execution.TaskSupport),
		Held: !mcp.IsModernProtocol(s.client.ProtocolVersion())}, nil
}
