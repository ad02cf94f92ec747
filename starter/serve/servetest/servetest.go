// Package servetest checks responses of the HTTP API against its description, for tests.
package servetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/textutil"
)

// Checker validates responses against a description.
type Checker struct {
	mux   *http.ServeMux
	paths map[string]map[string]json.RawMessage
	// mu guards compiler.
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

// where is the URL of the description for the schema compiler. Nothing is read from it.
const where = "mem:///openapi.json"

// New parses a description, an OpenAPI 3.1 document as JSON.
func New(description []byte) (*Checker, error) {
	c := &Checker{mux: http.NewServeMux(), compiler: jsonschema.NewCompiler()}
	c.compiler.Draft, c.compiler.AssertFormat = jsonschema.Draft2020, true
	if err := c.compiler.AddResource(where, bytes.NewReader(description)); err != nil {
		return nil, err
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(description, &doc); err != nil {
		return nil, err
	}
	c.paths = doc.Paths
	for path := range c.paths {
		c.mux.HandleFunc(path, func(http.ResponseWriter, *http.Request) {})
	}
	return c, nil
}

// Check validates the response to a request, and restores the body. It ignores unknown addresses.
func (c *Checker) Check(request *http.Request, got *http.Response) error {
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return err
	}
	got.Body = io.NopCloser(bytes.NewReader(body))
	_, path := c.mux.Handler(request)
	raw := c.paths[path][strings.ToLower(request.Method)]
	if len(raw) == 0 {
		return nil
	}
	if err := c.answer(raw, "/paths/"+escaped(path)+"/"+strings.ToLower(request.Method), got, body); err != nil {
		return fmt.Errorf("%s %s: %d: %w in %s", request.Method, request.URL.Path, got.StatusCode, err, body)
	}
	return nil
}

func (c *Checker) answer(operation json.RawMessage, at string, got *http.Response, body []byte) error {
	var op struct {
		Responses map[string]struct {
			Ref     string         `json:"$ref"`
			Content map[string]any `json:"content"`
		} `json:"responses"`
	}
	if err := json.Unmarshal(operation, &op); err != nil {
		return err
	}
	status := strconv.Itoa(got.StatusCode)
	if _, ok := op.Responses[status]; !ok {
		status = "default"
	}
	answer := op.Responses[status]
	at += "/responses/" + status
	media, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	switch {
	case answer.Ref != "" && media != "application/problem+json":
		return fmt.Errorf("the media type is %q", media)
	case answer.Ref != "":
		at = strings.TrimPrefix(answer.Ref, "#")
	case len(answer.Content) == 0 && len(body) > 0:
		return fmt.Errorf("there is a body")
	case len(answer.Content) == 0:
		return nil
	case answer.Content[media] == nil:
		return fmt.Errorf("the media type is %q", media)
	case !strings.HasSuffix(media, "json"):
		return nil
	}
	return c.validate(at+"/content/"+escaped(media)+"/schema", body)
}

// Schema validates JSON against a schema of the description's components.
func (c *Checker) Schema(name string, raw []byte) error {
	return c.validate("/components/schemas/"+escaped(name), raw)
}

func (c *Checker) validate(pointer string, raw []byte) error {
	v, ok := textutil.DecodeExact(raw)
	if !ok {
		return fmt.Errorf("the body is not one JSON value")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.compiler.Compile(where + "#" + pointer)
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func escaped(s string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(s))
}
