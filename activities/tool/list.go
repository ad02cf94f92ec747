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

// maxPages bounds the number of pages of a listing.
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

// list returns the tools of all pages. If several tools have the same name, it returns the first.
func (s *session) list(ctx context.Context, _ *plan.Connection) ([]contract.ToolSpec, error) {
	var specs []contract.ToolSpec
	seen := map[string]bool{}
	var accepted *mcp.ListToolsResult // without the tools that the protocol requires clients to ignore
	err := s.pages(ctx, mcp.MethodToolsList, func(ctx context.Context, p mcp.PaginatedRequest) (err error) {
		accepted, err = s.client.ListToolsByPage(ctx, mcp.ListToolsRequest{PaginatedRequest: p})
		return err
	}, func(raw []byte) (bytes int, _ error) {
		var page struct {
			Tools []listedTool `json:"tools"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return 0, s.at.malformed("invalid tools/list result: %v", err)
		}
		for _, t := range page.Tools {
			spec, err := s.toolSpec(t)
			if err != nil {
				return 0, err
			}
			if seen[spec.Name] || accepted != nil && !slices.ContainsFunc(accepted.Tools, func(a mcp.Tool) bool { return a.Name == t.Name }) {
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

// pages requests a list page by page. parse returns how many bytes of a page count towards the size limit.
func (s *session) pages(ctx context.Context, method mcp.MCPMethod, request func(context.Context, mcp.PaginatedRequest) error, parse func(raw []byte) (bytes int, _ error)) error {
	var page mcp.PaginatedRequest
	bytes, seen := 0, map[mcp.Cursor]bool{"": true}
	for range maxPages {
		a, err := s.request(ctx, func(ctx context.Context) error { return request(ctx, page) })
		if err != nil {
			return err
		}
		if a.rpcError != nil {
			return s.listProblem(method, a.rpcError)
		}
		n, err := parse(a.result)
		if err != nil {
			return err
		}
		if bytes += n; bytes > s.at.settings.MaxResultBytes {
			return s.at.failure(contract.ClassTooLarge, fmt.Sprintf("%s has more than %d bytes of names, descriptions and schemas", method, s.at.settings.MaxResultBytes),
				"split the server, or have it list fewer items")
		}
		var next struct {
			NextCursor mcp.Cursor `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.result, &next); err != nil {
			return s.at.malformed("invalid %s result: %v", method, err)
		}
		if next.NextCursor == "" {
			return nil
		}
		if seen[next.NextCursor] {
			return s.at.malformed("%s repeats the cursor %q", method, next.NextCursor)
		}
		seen[next.NextCursor], page.Params.Cursor = true, next.NextCursor
	}
	return s.at.failure(contract.ClassTooLarge, fmt.Sprintf("%s has more than %d pages", method, maxPages), "report it to the server's author")
}

// errMethodUnsupported means that the server does not implement the method that lists prompts, resources or templates.
var errMethodUnsupported = errors.New("the server does not support the method")

// isMethodNotFound reports whether an error is a 404 with which a server of the newest protocol rejects an unsupported method.
func isMethodNotFound(err error) bool {
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
			return errMethodUnsupported
		}
		class, remedy = contract.ClassConnection, "use an MCP server that has tools"
	case mcp.INTERNAL_ERROR:
		class = contract.ClassUnavailable
	case lines.CodeTooLarge:
		return s.at.tooLarge()
	}
	return s.at.failure(class, fmt.Sprintf("%s (%d): %s", method, p.Code, p.Message), remedy)
}

// toolSpec validates a listed tool. The schema keeps the server's text and member order, without white space.
func (s *session) toolSpec(t listedTool) (contract.ToolSpec, error) {
	schema := t.InputSchema
	if len(schema) == 0 || string(schema) == "null" {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	var out bytes.Buffer
	switch err := json.Compact(&out, schema); {
	case t.Name == "":
		return contract.ToolSpec{}, s.at.malformed("tools/list returned a tool without a name")
	case err != nil || out.Bytes()[0] != '{':
		return contract.ToolSpec{}, s.at.malformed("inputSchema of tool %q must be an object, got %s", t.Name, short(string(schema)))
	}
	return contract.ToolSpec{Name: t.Name, Description: s.at.secrets.maskResult(cmp.Or(t.Description, t.Title)), Schema: out.Bytes(),
		Repeatable: t.Annotations.ReadOnly || t.Annotations.Idempotent, AsTask: s.tasks().Requested(t.Execution.TaskSupport),
		HoldsRequests: !mcp.IsModernProtocol(s.client.ProtocolVersion())}, nil
}
