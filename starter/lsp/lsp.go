// Package lsp is a language server for flows: diagnostics as they are edited, and descriptions of fields.
//
// It implements the Language Server Protocol 3.17 over a stream. Start at [Server.Serve].
package lsp

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/worker/build"
)

// Server is a language server.
type Server struct {
	// Options returns the options for reading documents. It is called at each check.
	Options func() specadapter.Options

	mu   sync.Mutex
	open map[string]*document
	// published are the URIs of files that have diagnostics.
	published map[string]bool
	// changed signals that a document was opened, changed or closed.
	changed  chan struct{}
	shutDown bool
}

type document struct {
	uri string
	// name is the file's path, or a substitute for an unsaved document.
	name    string
	version int
	text    []byte
}

// Serve serves a client until it sends exit or closes the stream. It reports whether the client sent shutdown
// before, as the protocol requires.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) bool {
	s.open, s.published, s.changed = map[string]*document{}, map[string]bool{}, make(chan struct{}, 1)
	conn := jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(stream{in, out}, jsonrpc2.VSCodeObjectCodec{}), jsonrpc2.HandlerWithError(s.handle).SuppressErrClosed())
	for {
		select {
		case <-conn.DisconnectNotify():
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.shutDown
		case <-s.changed:
			s.publish(ctx, conn)
		}
	}
}

// stream combines standard input and output.
type stream struct {
	io.Reader
	io.Writer
}

// Close does nothing.
func (stream) Close() error { return nil }

type (
	positionParams struct {
		TextDocument struct {
			URI string `json:"uri"`
		} `json:"textDocument"`
		Position position `json:"position"`
	}
	changeParams struct {
		TextDocument struct {
			URI        string `json:"uri"`
			LanguageID string `json:"languageId"`
			Version    int    `json:"version"`
			Text       string `json:"text"`
		} `json:"textDocument"`
		ContentChanges []struct {
			Text string `json:"text"`
		} `json:"contentChanges"`
	}
	diagnostic struct {
		Range    textRange `json:"range"`
		Severity int       `json:"severity"`
		Code     string    `json:"code"`
		Source   string    `json:"source"`
		Message  string    `json:"message"`
	}
	publishParams struct {
		URI         string       `json:"uri"`
		Version     *int         `json:"version,omitempty"`
		Diagnostics []diagnostic `json:"diagnostics"`
	}
)

type object = map[string]any

func (s *Server) handle(_ context.Context, conn *jsonrpc2.Conn, req *jsonrpc2.Request) (any, error) {
	switch req.Method {
	case "initialize":
		version, _ := build.Info()
		return object{"serverInfo": object{"name": "weft", "version": version}, "capabilities": object{
			"positionEncoding": "utf-16", "textDocumentSync": object{"openClose": true, "change": 1}, "hoverProvider": true}}, nil
	case "shutdown":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shutDown = true
		return nil, nil
	case "exit":
		return nil, conn.Close()
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose":
		var in changeParams
		if err := read(req, &in); err != nil {
			return nil, err
		}
		s.update(req.Method, &in)
		return nil, nil
	case "textDocument/hover":
		var in positionParams
		if err := read(req, &in); err != nil {
			return nil, err
		}
		return s.hover(&in), nil
	}
	if req.Notif {
		return nil, nil // initialized, and notifications that a server may ignore
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "unsupported method " + req.Method}
}

func read(req *jsonrpc2.Request, in any) error {
	if req.Params == nil {
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: req.Method + " has no params"}
	}
	if err := json.Unmarshal(*req.Params, in); err != nil {
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
	}
	return nil
}

func (s *Server) update(method string, in *changeParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uri := in.TextDocument.URI
	switch d := s.open[uri]; {
	case method == "textDocument/didOpen":
		s.open[uri] = &document{uri, fileName(uri, in.TextDocument.LanguageID), in.TextDocument.Version, []byte(in.TextDocument.Text)}
	case method == "textDocument/didClose":
		delete(s.open, uri)
	case d != nil && len(in.ContentChanges) > 0:
		s.open[uri] = &document{uri, d.name, in.TextDocument.Version, []byte(in.ContentChanges[len(in.ContentChanges)-1].Text)}
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// publish checks all open documents, since the files of a folder depend on each other.
func (s *Server) publish(ctx context.Context, conn *jsonrpc2.Conn) {
	s.mu.Lock()
	docs := slices.SortedFunc(maps.Values(s.open), func(a, b *document) int { return strings.Compare(a.uri, b.uri) })
	s.mu.Unlock()
	o := s.Options()
	found := map[string][]source.Diagnostic{}
	for _, d := range docs {
		for _, x := range s.check(d, docs, o) {
			uri := d.uri
			if x.File != d.name {
				uri = (&url.URL{Scheme: "file", Path: filepath.ToSlash(x.File)}).String()
			}
			if !slices.Contains(found[uri], x) {
				found[uri] = append(found[uri], x)
			}
		}
	}
	uris := maps.Clone(s.published) // including files whose diagnostics must be cleared
	for _, d := range docs {
		uris[d.uri] = true
	}
	for uri := range found {
		uris[uri] = true
	}
	clear(s.published)
	for _, uri := range slices.Sorted(maps.Keys(uris)) {
		out := publishParams{URI: uri, Diagnostics: []diagnostic{}}
		text := textOf(uri)
		if i := slices.IndexFunc(docs, func(d *document) bool { return d.uri == uri }); i >= 0 {
			out.Version, text = &docs[i].version, docs[i].text
		}
		lines := linesOf(text)
		for _, x := range found[uri] {
			s.published[uri] = true
			message := x.Text
			if x.Help != "" {
				message += "\n" + x.Help
			}
			out.Diagnostics = append(out.Diagnostics, diagnostic{Range: lines.token(x.Line, x.Col), Severity: int(x.Severity) + 1, Code: x.Code, Source: "weft", Message: message})
		}
		if err := conn.Notify(ctx, "textDocument/publishDiagnostics", out); err != nil {
			return // the client has disconnected
		}
	}
}

// check returns the diagnostics of a document and of the files in its folder. A document that is not a flow has none.
func (s *Server) check(d *document, docs []*document, o specadapter.Options) []source.Diagnostic {
	if path.Base(d.name) == specadapter.FolderMain {
		folder, err := readFolder(d.name, docs)
		if err != nil {
			return []source.Diagnostic{{File: d.name, Code: "unreadable", Text: err.Error()}}
		}
		_, diags := folder.Load(o)
		return diags
	}
	_, diags := specadapter.Load(d.name, d.text, o)
	if len(diags) == 1 && diags[0].Code == specadapter.CodeDialect && o.Dialect == "" {
		return nil
	}
	return diags
}
