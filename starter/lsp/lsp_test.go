package lsp

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/specadapter"
)

func TestPositions(t *testing.T) {
	tests := map[string]struct {
		text      string
		line, col int
		want      string
	}{
		"quoted key":              {"{\"a\": 1,\n \"b c\": 2}", 2, 2, "1:1-1:6"},
		"escaped quote":           {`{"a\"b": 1}`, 1, 2, "0:1-0:7"},
		"YAML key":                {"name: x\n", 1, 1, "0:0-0:4"},
		"URL":                     {"url: http://x:1/y, b\n", 1, 6, "0:5-0:17"},
		"bracket":                 {"a: {}\n", 1, 4, "0:3-0:4"},
		"two code units":          {"{\"😀\": \"é\", x}", 1, 16, "0:12-0:13"},
		"after a byte order mark": {"\ufeffname: x", 1, 1, "0:1-0:5"},
		"after CRLF":              {"a: 1\r\nbc: 2", 2, 1, "1:0-1:2"},
		"after a carriage return": {"a: 1\rb: 2\nc: 3", 2, 1, "2:0-2:1"},
		"end":                     {"{", 1, 2, "0:1-0:1"},
		"past the end":            {"{", 1, 9, "0:1-0:1"},
		"no such line":            {"{", 9, 1, "0:0-0:0"},
		"entire document":         {"abc", 0, 0, "0:0-0:0"},
		"unterminated string":     {"{\"abc", 1, 2, "0:1-0:5"},
		"invalid UTF-8":           {"\xff\xfe: x", 1, 3, "0:2-0:3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := linesOf([]byte(tc.text))
			r := l.token(tc.line, tc.col)
			if got := fmt.Sprintf("%d:%d-%d:%d", r.Start.Line, r.Start.Character, r.End.Line, r.End.Character); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if tc.line > 0 && tc.line < 9 && l.position(l.offset(r.Start)) != r.Start {
				t.Errorf("the offset of %v is %d, whose position is %v", r.Start, l.offset(r.Start), l.position(l.offset(r.Start)))
			}
		})
	}
}

// TestServeBadMessages checks that the server answers malformed requests with errors and continues.
func TestServeBadMessages(t *testing.T) {
	in, out := io.Pipe()
	var output strings.Builder
	ended := make(chan bool)
	s := &Server{Options: func() specadapter.Options { return specadapter.Options{} }}
	go func() { ended <- s.Serve(context.Background(), in, &output) }()
	for i, body := range []string{
		`"method": "textDocument/hover"`, `"method": "textDocument/hover", "params": []`, `"method": "textDocument/hover", "params": {"position": {"line": -1, "character": 1000000}}`,
		`"method": "textDocument/didOpen", "params": 7`, `"method": "textDocument/didChange", "params": {"textDocument": {"uri": "file:///none"}}`,
		`"method": "unknown"`, `"method": "shutdown"`,
	} {
		text := fmt.Sprintf(`{"jsonrpc": "2.0", "id": %d, %s}`, i, body)
		fmt.Fprintf(out, "Content-Length: %d\r\n\r\n%s", len(text), text)
	}
	out.Close()
	select {
	case ok := <-ended:
		if !ok {
			t.Error("Serve() = false, want true after shutdown")
		}
	case <-time.After(time.Minute):
		t.Fatal("the server did not exit")
	}
	answers := strings.Split(output.String(), "Content-Length")[1:]
	for i, want := range []string{"-32602", "-32602", `"result":null`, "-32602", `"result":null`, "-32601", `"result":null`} {
		if i >= len(answers) || !strings.Contains(answers[i], want) {
			t.Errorf("the response to request %d does not contain %s: %s", i, want, &output)
		}
	}
}

// TestUnsaved checks an agent whose folder or files exist only in an editor.
func TestUnsaved(t *testing.T) {
	root := filepath.ToSlash(t.TempDir())
	agent := `{"name": "x", "description": "d", "capabilities": ["c"]}`
	doc := func(name, text string) *document {
		return &document{uri: "file://" + root + "/" + name, name: root + "/" + name, text: []byte(text)}
	}
	s := &Server{}
	codes := func(docs ...*document) (out []string) {
		for _, x := range s.check(docs[0], docs, specadapter.Options{}) {
			out = append(out, strings.TrimPrefix(x.File, root+"/")+" "+x.Code)
		}
		return out
	}
	for name, tc := range map[string]struct {
		docs []*document
		want string
	}{
		"invalid agent":          {[]*document{doc("new/agents/x/agent.json", `{"name": "x", "description": 7}`)}, "new/agents/x/agent.json"},
		"missing capability":     {[]*document{doc("new/agents/x/agent.json", agent)}, "capabilit"},
		"capability open, too":   {[]*document{doc("new/agents/x/agent.json", agent), doc("new/capabilities/c/capability.json", `{"name": "c", "description": "d", "type": "klingon"}`)}, "new/capabilities/c/capability.json capability"},
		"invalid MCP file":       {[]*document{doc("x/agent.json", `{"name": "x", "description": "d"}`), doc("x/agent.mcp.json", `{"mcpServers": 7}`)}, "x/agent.mcp.json"},
		"agent without a folder": {[]*document{doc("agent.json", `{"name": "x", "description": 7}`)}, "agent.json"},
	} {
		if got := codes(tc.docs...); !strings.Contains(strings.Join(got, "\n"), tc.want) {
			t.Errorf("%s: %q, want %s", name, got, tc.want)
		}
	}
	if got := codes(doc("fine/agents/x/agent.json", `{"name": "x", "description": "d", "system_prompt": "p"}`)); got != nil {
		t.Errorf("a valid agent has diagnostics %q", got)
	}
}

// FuzzHover requests hover texts at all positions.
func FuzzHover(f *testing.F) {
	f.Add([]byte(`{"name": "x", "nodes": [{"id": "a"}], "edges": []}`), 0, 20)
	f.Add([]byte("id: a\nagents: [&x {name: a, type: task}, *x]\n"), 1, 30)
	f.Fuzz(func(_ *testing.T, text []byte, line, character int) {
		s := &Server{Options: func() specadapter.Options { return specadapter.Options{} }, open: map[string]*document{"file:///f.yaml": {name: "/f.yaml", text: text}}}
		in := &positionParams{Position: position{line, character}}
		in.TextDocument.URI = "file:///f.yaml"
		s.hover(in)
		l := linesOf(text)
		_, diags := specadapter.Load("/f.yaml", text, specadapter.Options{})
		for _, d := range diags {
			l.token(d.Line, d.Col)
		}
	})
}
