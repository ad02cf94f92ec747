package plan

import "encoding/json"

// ConnectionHTTP is a server that is asked over HTTP, without a protocol above it: a connection
// of this kind has [Connection.Requests], and its URL is scheme and host alone.
const ConnectionHTTP = "http"

// Request is a tool that is one HTTP request. Its texts hold placeholders, {{NAME}}, of the
// arguments of a call; the host holds none.
//
// Sources: Agent Spec's RemoteTool and ApiNode.
type Request struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments object.
	Schema json.RawMessage `json:"schema"`
	Method string          `json:"method"`
	// Path is what comes behind the connection's URL, with a query if it has one.
	Path    string   `json:"path"`
	Query   []Header `json:"query,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	// Body is sent as JSON; an object as a form where a header says so; a text as JSON where it
	// is some, else as it is. Absent: no body.
	Body json.RawMessage `json:"body,omitempty"`
	// Allow, if set, are the beginnings of addresses that may be asked.
	Allow []string `json:"allow,omitempty"`
}
