package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/workflows/plan"
)

// published lists the types that clients send and receive, each with its file in schema. Input
// types reject unknown fields, so that a misspelt one is found; others may gain fields.
var published = []struct {
	file  string
	v     any
	input bool
	// inner lists fields that only the interpreter sets.
	inner []string
	// required replaces the default: all fields without omitempty.
	required []string
}{
	{file: "run-input", v: RunInput{}, input: true, inner: []string{"depth", "snapshot", "max_payload", "entries", "owner", "parent", "script_ref", "conversation", "server_sessions"}, required: []string{"v", "flow"}},
	{file: "run-result", v: RunResult{}, inner: []string{"conversation", "yielded", "server_sessions"}},
	{file: "failure", v: Failure{}},
	{file: "prompt", v: PromptInput{}, input: true, required: []string{"prompt"}},
	{file: "close-session", v: CloseSessionInput{}, input: true, required: []string{}},
	{file: "turn", v: Turn{}},
	{file: "status", v: Status{}},
	{file: "transcript-query", v: TranscriptQuery{}, input: true, required: []string{}},
	{file: "transcript-page", v: TranscriptPage{}},
	{file: "content-query", v: ContentQuery{}, input: true},
	{file: "executions-query", v: ExecutionsQuery{}, input: true},
	{file: "executions-page", v: ExecutionsPage{}},
	{file: "content-page", v: ContentPage{}},
	{file: "message", v: Message{}},
	{file: "message-answer", v: MessageAnswer{}, input: true},
	{file: "tool-result-answer", v: ToolResultAnswer{}, input: true},
	{file: "confirm-answer", v: ConfirmAnswer{}, input: true},
	{file: "retry-answer", v: RetryAnswer{}, input: true},
	{file: "receipt", v: Receipt{}},
	{file: "heartbeat", v: Heartbeat{}},
	{file: "watching", v: Watching{}},
}

// constraints holds schema rules that Go types cannot express, by Type.Field.
var constraints = map[string]map[string]any{
	"RunInput.V":           {"const": Version},
	"RunResult.Status":     {"enum": []string{"completed", "stopped"}},
	"Turn.Status":          {"enum": []string{TurnQueued, TurnRunning, TurnCompleted, TurnFailed, TurnStopped}},
	"Message.Role":         {"enum": []string{RoleUser, RoleAssistant, RoleTool}},
	"Request.Kind":         {"enum": Requests},
	"RunInput.OnError":     {"enum": []string{"", OnErrorWait, OnErrorFail}},
	"Status.Status":        {"enum": []string{StatusRunning, StatusWaiting, StatusIdle, StatusCompleted, StatusFailed, StatusCancelled}},
	"RunInput.MaxSteps":    {"minimum": 0},
	"RunInput.MaxEvents":   {"minimum": 0},
	"RunInput.Params":      {"type": "object"},
	"RunInput.Model":       {"pattern": "^$|^script$|^[^/]+/.+$"},
	"TranscriptQuery.Upto": {"minimum": 0},
	"TranscriptQuery.From": {"minimum": 0},
	"ContentQuery.Offset":  {"minimum": 0},
	"ExecutionsQuery.From": {"minimum": 0},
	"RunResult.FlowHash":   {"pattern": "^[0-9a-f]{64}$"},
}

// TestGoldenSchemas generates the schemas of the Go types and compares them with the files; UPDATE=1
// rewrites the files.
func TestGoldenSchemas(t *testing.T) {
	docs := comments(t, ".", "../../workflows/plan")
	for _, p := range published {
		s := schemer{docs: docs, definitions: map[string]any{}, closed: p.input}
		root := s.object(reflect.TypeOf(p.v), p.inner, p.required)
		root["$schema"] = "http://json-schema.org/draft-07/schema#"
		root["title"] = reflect.TypeOf(p.v).Name()
		if flow, ok := s.definitions["FlowRef"].(map[string]any); ok {
			flow["anyOf"] = []any{needs("text"), needs("name"), needs("plan")}
		}
		if len(s.definitions) > 0 {
			root["definitions"] = s.definitions
		}
		var buf bytes.Buffer
		encode := json.NewEncoder(&buf)
		encode.SetEscapeHTML(false)
		encode.SetIndent("", "  ")
		if err := encode.Encode(root); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("schema", p.file+".json")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		old, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(old, buf.Bytes()) {
			t.Errorf("%s does not match the Go types (%v); run make golden and review the diff", file, err)
		}
		compile(t, p.file)
	}
}

func needs(field string) map[string]any { return map[string]any{"required": []string{field}} }

// compile compiles a published schema, as clients do.
func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft7
	raw, err := os.ReadFile(filepath.Join("schema", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource(name, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check validates JSON against a schema.
func check(t *testing.T, schema string, raw []byte) error {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("%w in %s", err, raw)
	}
	return compile(t, schema).Validate(v)
}

// schemer generates the schema of a type and of the types to which it refers.
type schemer struct {
	docs        map[string]string
	definitions map[string]any
	closed      bool
}

func (s *schemer) object(t reflect.Type, inner, required []string) map[string]any {
	properties, needed := map[string]any{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || contains(inner, name) {
			continue
		}
		if f.Anonymous && name == "" {
			embedded := s.object(f.Type, nil, nil)
			maps.Copy(properties, embedded["properties"].(map[string]any))
			needed = append(needed, embedded["required"].([]string)...)
			continue
		}
		p := s.of(f.Type, strings.Contains(options, "omitempty"))
		place := t.Name() + "." + f.Name
		if _, refers := p["$ref"]; !refers {
			if doc := s.docs[t.PkgPath()+"."+place]; doc != "" {
				p["description"] = doc
			}
			maps.Copy(p, constraints[place])
		}
		properties[name] = p
		if !strings.Contains(options, "omitempty") {
			needed = append(needed, name)
		}
	}
	if required != nil {
		needed = required
	}
	out := map[string]any{"type": "object", "properties": properties, "required": needed}
	if doc := s.docs[t.PkgPath()+"."+t.Name()]; doc != "" {
		out["description"] = doc
	}
	if s.closed {
		out["additionalProperties"] = false
	}
	return out
}

// of returns the schema of a field's type. A field without omitempty may be null if its Go value may be nil.
func (s *schemer) of(t reflect.Type, omitted bool) map[string]any {
	kind := func(name string) map[string]any {
		if !omitted && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
			return map[string]any{"type": []string{name, "null"}}
		}
		return map[string]any{"type": name}
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return map[string]any{}
	}
	if t == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	if t == reflect.TypeFor[plan.Seconds]() {
		return map[string]any{"type": "string", "pattern": "^([0-9]+(h|m|s))+$"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Struct {
			return s.of(t.Elem(), omitted)
		}
		return kind(s.of(t.Elem(), true)["type"].(string))
	case reflect.Struct:
		name := t.Name()
		if strings.HasSuffix(t.PkgPath(), "plan") {
			name = "plan." + name
		}
		if _, done := s.definitions[name]; !done {
			s.definitions[name] = nil // a type may contain itself
			s.definitions[name] = s.object(t, nil, nil)
		}
		return map[string]any{"$ref": "#/definitions/" + name}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		out := kind("array")
		out["items"] = s.of(t.Elem(), true)
		return out
	case reflect.Map:
		out := kind("object")
		out["additionalProperties"] = s.of(t.Elem(), true)
		return out
	case reflect.String:
		return kind("string")
	case reflect.Bool:
		return kind("boolean")
	case reflect.Float64:
		return kind("number")
	}
	return kind("integer")
}

func contains(list []string, s string) bool {
	return slices.Contains(list, s)
}

var link = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// comments returns the doc comments of types and fields, which become the descriptions in the schemas.
func comments(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for dir, path := range map[string]string{dirs[0]: reflect.TypeFor[RunInput]().PkgPath(), dirs[1]: reflect.TypeFor[plan.Flow]().PkgPath()} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range f.Decls {
				if g, ok := decl.(*ast.GenDecl); ok {
					declared(out, path, g)
				}
			}
		}
	}
	return out
}

func declared(out map[string]string, path string, g *ast.GenDecl) {
	text := func(c *ast.CommentGroup) string {
		return link.ReplaceAllString(strings.Join(strings.Fields(c.Text()), " "), "$1")
	}
	for _, spec := range g.Specs {
		ts, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		st, ok := ts.Type.(*ast.StructType)
		if !ok {
			continue
		}
		key := path + "." + ts.Name.Name
		out[key] = text(g.Doc)
		for _, f := range st.Fields.List {
			for _, n := range f.Names {
				out[key+"."+n.Name] = text(f.Doc)
			}
		}
	}
}
