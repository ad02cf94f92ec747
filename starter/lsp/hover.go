package lsp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/textutil"
	"weft/specadapter"
	"weft/specadapter/shape"
	"weft/specadapter/source"
)

// hover returns the description of the field under the cursor, or nil.
func (s *Server) hover(in *positionParams) any {
	s.mu.Lock()
	d := s.open[in.TextDocument.URI]
	s.mu.Unlock()
	if d == nil {
		return nil
	}
	doc, _ := source.Parse(d.name, d.text)
	if doc == nil {
		return nil
	}
	dialect := specadapter.Recognize(doc, s.Options().Dialect)
	if dialect == nil {
		return nil
	}
	l := linesOf(d.text)
	path := pathTo(doc.Root, l, l.offset(in.Position))
	if len(path) == 0 {
		return nil
	}
	text := describe(compiled(dialect), doc.Root, path)
	if text == "" {
		return nil
	}
	at := path[len(path)-1].at
	return object{"contents": object{"kind": "markdown", "value": text}, "range": l.token(at.Line, at.Col)}
}

// step is a step of a path: a member by its key, or an element.
type step struct {
	key   string
	at    source.Pos
	value *source.Value
}

func pathTo(v *source.Value, l *lines, offset int) []step {
	var out []step
	for v != nil {
		var next *step
		take := func(s step) {
			if start := l.at(s.at); start <= offset && (next == nil || start >= l.at(next.at)) {
				next = &s
			}
		}
		for _, m := range v.Members {
			take(step{key: m.Key, at: m.KeyPos, value: m.Value})
		}
		for _, item := range v.Items {
			take(step{at: item.Pos, value: item})
		}
		if next == nil {
			break
		}
		out = append(out, *next)
		if v = next.value; l.at(v.Pos) > offset || v.Pos.Compare(next.at) < 0 {
			break // the cursor is before the value, or the value is in another place
		}
	}
	for len(out) > 0 && out[len(out)-1].key == "" {
		out = out[:len(out)-1]
	}
	return out
}

var (
	schemasMu sync.Mutex
	schemas   = map[string]*jsonschema.Schema{}
)

// compiled compiles the schema of a dialect once.
func compiled(dialect specadapter.Adapter) *jsonschema.Schema {
	schemasMu.Lock()
	defer schemasMu.Unlock()
	kind := dialect.Name()
	if s := schemas[kind]; s != nil {
		return s
	}
	text, err := shape.Marshal(dialect.Schema())
	if err != nil {
		panic(fmt.Sprintf("marshal the schema of %s: %v", kind, err))
	}
	c := jsonschema.NewCompiler()
	c.ExtractAnnotations = true
	name := "https://weft.invalid/" + kind
	if err := c.AddResource(name, bytes.NewReader(text)); err != nil {
		panic(fmt.Sprintf("read the schema of %s: %v", kind, err))
	}
	schemas[kind] = c.MustCompile(name)
	return schemas[kind]
}

func describe(root *jsonschema.Schema, v *source.Value, path []step) string {
	at := applying(root, v)
	for i, s := range path {
		var fields []*jsonschema.Schema
		for _, schema := range at {
			if s.key == "" {
				fields = append(fields, element(schema))
			} else {
				fields = append(fields, field(schema, s.key))
			}
		}
		at = nil
		for _, f := range slices.DeleteFunc(fields, func(f *jsonschema.Schema) bool { return f == nil }) {
			if i == len(path)-1 && f.Description != "" {
				return "**" + s.key + "**: " + f.Description + values(f)
			}
			at = append(at, applying(f, s.value)...)
		}
	}
	for _, schema := range at {
		if schema.Description != "" {
			return "**" + path[len(path)-1].key + "**: " + schema.Description
		}
	}
	return ""
}

func values(s *jsonschema.Schema) string {
	list := s.Enum
	for _, form := range s.AnyOf {
		list = append(list[:len(list):len(list)], form.Enum...)
	}
	var out []string
	for _, v := range list {
		if v == nil {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			continue
		}
		out = append(out, "`"+string(text)+"`")
	}
	if len(out) == 0 {
		return ""
	}
	return "\n\nOne of: " + strings.Join(out, ", ")
}

func applying(s *jsonschema.Schema, v *source.Value) []*jsonschema.Schema {
	value, ok := textutil.DecodeExact(v.JSON())
	if s == nil || !ok {
		return nil
	}
	var out []*jsonschema.Schema
	var add func(s *jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || slices.Contains(out, s) {
			return
		}
		out = append(out, s)
		add(s.Ref)
		for _, part := range s.AllOf {
			add(part)
		}
		if s.If != nil && s.If.Validate(value) == nil {
			add(s.Then)
		} else if s.If != nil {
			add(s.Else)
		}
		fits := func(form *jsonschema.Schema) bool { return form.Validate(value) == nil }
		for _, form := range s.AnyOf {
			if fits(form) || !slices.ContainsFunc(s.AnyOf, fits) {
				add(form)
			}
		}
	}
	add(s)
	return out
}

func field(s *jsonschema.Schema, key string) *jsonschema.Schema {
	if f := s.Properties[key]; f != nil {
		return f
	}
	f, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return f
}

func element(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Items2020 != nil {
		return s.Items2020
	}
	f, _ := s.Items.(*jsonschema.Schema)
	return f
}
