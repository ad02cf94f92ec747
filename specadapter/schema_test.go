package specadapter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/specadapter"
	"weft/specadapter/shape"
	"weft/specadapter/source"
)

// TestGoldenSchemas compares the schema of each dialect with the published file (UPDATE=1 rewrites it) and validates all
// examples against it.
func TestGoldenSchemas(t *testing.T) {
	for _, d := range specadapter.Dialects {
		t.Run(d.Name(), func(t *testing.T) {
			got, err := shape.Marshal(d.Schema())
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(d.Name(), "schema.json")
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(name, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is out of date (%v); rewrite it with UPDATE=1", name, err)
			}
			if bytes.Contains(got, []byte(`"description": ""`)) {
				t.Errorf("%s has an empty description", name)
			}
			schema, err := jsonschema.CompileString("https://weft.example/"+name, string(got))
			if err != nil {
				t.Fatal(err)
			}
			if n := examples(t, d, schema); n < 5 {
				t.Errorf("%d examples", n)
			}
		})
	}
}

// TestSchemaOfPlugins checks that the schema accepts WayFlow's types wherever validate does.
func TestSchemaOfPlugins(t *testing.T) {
	schema, err := jsonschema.Compile(filepath.Join("agentspec", "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	const flow = `{"component_type":"ExtendedFlow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"component_type":"PluginTemplateNode","name":"n","template":"t"},{"$component_ref":"e"}],
"control_flow_connections":[],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e"}}}`
	doc, diags := source.Parse("f.json", []byte(flow))
	if doc == nil {
		t.Fatal(diags)
	}
	if problem := validate(t, schema, doc); problem != "" {
		t.Error(problem)
	}
}

// examples validates the examples of a dialect against its schema and returns how many there are.
func examples(t *testing.T, d specadapter.Adapter, schema *jsonschema.Schema) int {
	n := 0
	root := filepath.Join("..", "tests", "examples")
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if ext := filepath.Ext(name); err != nil || ext != ".json" && ext != ".yaml" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		doc, diags := source.Parse(name, text)
		if doc == nil {
			t.Errorf("%s: %v", name, diags)
			return nil
		}
		if ok, _ := d.Detect(doc); !ok {
			return nil
		}
		n++
		if problem := validate(t, schema, doc); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// validate returns the schema's errors for a document, or "".
func validate(t *testing.T, schema *jsonschema.Schema, doc *source.Document) string {
	t.Helper()
	v, err := decode(doc.Root.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		return strings.TrimSpace(err.Error()) + " " + detail(err)
	}
	return ""
}

func detail(err error) string {
	var out []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			out = append(out, e.InstanceLocation+": "+e.Message)
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	if e, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		walk(e)
	}
	return strings.Join(out, "; ")
}

func decode(text []byte) (out any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return out, d.Decode(&out)
}

// TestSchemaOfSchemas checks that the schema rejects an invalid JSON Schema in a document exactly if validate does.
func TestSchemaOfSchemas(t *testing.T) {
	documents := map[string]string{
		"blueprint": `{"name":"x","description":"d","system_prompt":"s","parameters_schema":SCHEMA}`,
		"koog":      `{"id":"x","version":"1.0","agents":[{"name":"a","type":"task","params":{"task":"t"},"output":{"schema":SCHEMA}}]}`,
		"continuum": `{"name":"f","generation_prompt":"g","response_format":{"type":2,"payload":{"format":"JSON","output_schema":SCHEMA}},"nodes":[{"id":"a","name":"A","prompt":"p","is_exit_node":true}],
"edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"a","target":"END"}],"execution_plan":"graph TD\n  START --> a\n  a --> END"}`,
	}
	schemas := map[string]bool{
		`{"type":"object"}`: true, `{"type":["string","null"]}`: true, `{"properties":{"a":true,"b":{"items":[{}]}}}`: true, `{"items":false,"x-more":7}`: true,
		`{"type":"objct"}`: false, `{"type":[]}`: false, `{"properties":7}`: false, `{"properties":{"a":7}}`: false, `{"properties":{"a":{"type":"strin"}}}`: false, `{"required":"a"}`: false,
		`{"required":[1]}`: false, `{"enum":1}`: false, `{"minimum":"1"}`: false, `{"maxLength":-1}`: false, `{"items":7}`: false, `{"anyOf":[]}`: false, `{"additionalProperties":"no"}`: false, `{"uniqueItems":1}`: false,
	}
	for dialect, document := range documents {
		schema, err := jsonschema.Compile(filepath.Join(dialect, "schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		for text, valid := range schemas {
			raw := []byte(strings.Replace(document, "SCHEMA", text, 1))
			doc, _ := source.Parse("x.json", raw)
			res, diags := specadapter.Load("x.json", raw, specadapter.Options{Dialect: dialect})
			if problem := validate(t, schema, doc); (problem == "") != valid || (res != nil) != valid {
				t.Errorf("%s in %s: schema error %q, validate %v, want valid %v", text, dialect, problem, diags, valid)
			}
		}
	}
}
