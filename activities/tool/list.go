package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
	"weft/activities/tool/lines"
	"weft/workflows/plan"
)

// maxPages bounds a listing that never ends.
const maxPages = 1000

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
func (s *session) list(ctx context.Context, _ *plan.Connection) ([]contract.ToolSpec, error) {
	var specs []contract.ToolSpec
	seen := map[string]bool{}
	var kept *mcp.ListToolsResult // says which tools the protocol has a client ignore
	err := s.pages(ctx, mcp.MethodToolsList, func(ctx context.Context, p mcp.PaginatedRequest) (err error) {
		kept, err = s.client.ListToolsByPage(ctx, mcp.ListToolsRequest{PaginatedRequest: p})
		return err
	}, func(raw []byte) (bytes int, _ error) {
		var page struct {
			Tools []listedTool `json:"tools"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return 0, s.at.malformed("tools/list: %v", err)
		}
		for _, t := range page.Tools {
			spec, err := s.spec(t)
			if err != nil {
				return 0, err
			}
			if seen[spec.Name] || kept != nil && !slices.ContainsFunc(kept.Tools, func(k mcp.Tool) bool { return k.Name == t.Name }) {
				continue
			}
			seen[spec.Name] = true
			specs = append(specs, spec)
			bytes += len(spec.Name) + len(spec.Description) + len(spec.Schema)
		}
		return bytes, nil
	})
	if err != nil {
		return nil, err
	}
	s.isConfigured.Store(true)
	sort.Slice(specs, func(i, j int) bool { return specs[i].Name < specs[j].Name })
	return specs, nil
}

// pages requests a list page by page. take reads a page in the server's own bytes, and says how much of it is kept.
func (s *session) pages(ctx context.Context, method mcp.MCPMethod, request func(context.Context, mcp.PaginatedRequest) error, take func(raw []byte) (bytes int, _ error)) error {
	var page mcp.PaginatedRequest
	bytes, seen := 0, map[mcp.Cursor]bool{"": true}
	for range maxPages {
		a, err := s.ask(ctx, func(ctx context.Context) error { return request(ctx, page) })
		if err != nil {
			return err
		}
		if a.problem != nil {
			return s.listProblem(method, a.problem)
		}
		n, err := take(a.result)
		if err != nil {
			return err
		}
		if bytes += n; bytes > s.at.settings.MaxResultBytes {
			return s.at.failure(contract.ClassTooLarge, fmt.Sprintf("%s has more than %d bytes of names, descriptions and schemas", method, s.at.settings.MaxResultBytes),
				"split the server, or have it list less")
		}
		var rest struct {
			NextCursor mcp.Cursor `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.result, &rest); err != nil {
			return s.at.malformed("%s: %v", method, err)
		}
		if rest.NextCursor == "" {
			return nil
		}
		if seen[rest.NextCursor] {
			return s.at.malformed("%s repeats the cursor %q", method, rest.NextCursor)
		}
		seen[rest.NextCursor], page.Params.Cursor = true, rest.NextCursor
	}
	return s.at.failure(contract.ClassTooLarge, fmt.Sprintf("%s has more than %d pages", method, maxPages), "report it to the server's author")
}

// errNotOffered: the server does not have a kind of things to list.
var errNotOffered = errors.New("the server does not have the method")

// methodUnknown reports whether a server of the newest protocol does not have a method, which it says with 404.
func methodUnknown(err error) bool {
	var se *statusError
	var body struct{ Error *mcp.JSONRPCErrorDetails }
	return errors.As(err, &se) && json.Unmarshal([]byte(se.body), &body) == nil && body.Error != nil && body.Error.Code == mcp.METHOD_NOT_FOUND
}

func (s *session) listProblem(method mcp.MCPMethod, p *mcp.JSONRPCErrorDetails) error {
	class, remedy := contract.ClassBadRequest, ""
	switch p.Code {
	case mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return fmt.Errorf("%w: %s", errSessionUnknown, p.Message)
	case mcp.METHOD_NOT_FOUND:
		if method != mcp.MethodToolsList {
			return errNotOffered
		}
		class, remedy = contract.ClassConnection, "is it an MCP server with tools?"
	case mcp.INTERNAL_ERROR:
		class = contract.ClassUnavailable
	case lines.CodeTooLarge:
		return s.at.tooLarge()
	}
	return s.at.failure(class, fmt.Sprintf("%s (%d): %s", method, p.Code, p.Message), remedy)
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
