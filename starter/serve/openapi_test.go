package serve

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"
	"go.yaml.in/yaml/v3"
)

// contractSchemas are the files in activities/contract/schema whose schemas openapi.json contains.
var contractSchemas = []string{"status", "message", "message-answer", "confirm-answer", "tool-result-answer", "retry-answer", "receipt", "run-result", "run-input"}

// TestGoldenDescription checks that openapi.json is testdata/openapi.yaml with the schemas of the
// contract, and a valid OpenAPI 3.1 document. UPDATE=1 rewrites it.
func TestGoldenDescription(t *testing.T) {
	doc := assemble(t)
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	raw = append(raw, '\n')
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile("openapi.json", raw, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(raw, description) {
		t.Error("openapi.json does not match testdata/openapi.yaml and the contract; run make golden and review the diff")
	}
	if err := openAPISchema(t).Validate(decodeJSON(t, raw)); err != nil {
		t.Errorf("invalid OpenAPI 3.1 document: %#v", err)
	}
}

// assemble returns testdata/openapi.yaml with the schemas of the contract that it refers to.
func assemble(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("testdata/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	all := doc["components"].(map[string]any)["schemas"].(map[string]any)
	add := func(name string, schema any) {
		if was, ok := all[name]; ok && !cmp.Equal(was, schema) {
			t.Fatalf("two different schemas named %s", name)
		}
		all[name] = schema
	}
	for _, name := range contractSchemas {
		title, root, parts := readSchema(t, name)
		if title == "RunInput" {
			title, root = "StartFlow", startFlowSchema(root)
		}
		if title != "RunResult" { // only its definitions are used
			add(title, root)
		}
		for _, part := range referenced(root, parts) {
			if part == "Media" && all[part] != nil {
				continue // run-input's, which forbids additional fields, is for requests only
			}
			if part != title && !slices.Contains(answerTitles, part) {
				add(part, parts[part])
			}
		}
	}
	// Omit the schemas that no path uses.
	used := referenced([]any{doc["paths"], doc["components"].(map[string]any)["responses"]}, all)
	for name := range all {
		if !slices.Contains(used, name) {
			delete(all, name)
		}
	}
	return doc
}

// answerTitles are the definitions that have their own schema file.
var answerTitles = []string{"MessageAnswer", "ConfirmAnswer", "ToolResultAnswer", "RetryAnswer"}

// readSchema reads a schema file of the contract, and returns the schema's title, the schema, and its definitions.
func readSchema(t *testing.T, name string) (title string, root, parts map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../activities/contract/schema", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.ReplaceAll(raw, []byte("#/definitions/"), []byte("#/components/schemas/"))
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	title, _ = root["title"].(string)
	parts, _ = root["definitions"].(map[string]any)
	for _, key := range []string{"definitions", "$schema", "title"} {
		delete(root, key)
	}
	return title, root, parts
}

// referenced returns the sorted names of the parts to which a schema refers, directly or indirectly.
func referenced(schema any, parts map[string]any) []string {
	found := map[string]bool{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				name := strings.TrimPrefix(ref, "#/components/schemas/")
				if !found[name] && parts[name] != nil {
					found[name] = true
					visit(parts[name])
				}
			}
			for _, inner := range v {
				visit(inner)
			}
		case []any:
			for _, inner := range v {
				visit(inner)
			}
		}
	}
	visit(schema)
	return slices.Sorted(maps.Keys(found))
}

// startFlowSchema returns the schema of a request that starts a flow: the fields of RunInput that HTTP clients may set, id, script, and flow.
func startFlowSchema(in map[string]any) map[string]any {
	properties := map[string]any{}
	for _, key := range flowFields {
		if p, ok := in["properties"].(map[string]any)[key]; ok {
			properties[key] = p
		}
	}
	text := map[string]any{"type": "string"}
	properties["id"] = map[string]any{"type": "string", "maxLength": maxName, "description": "The id that the run shall have."}
	properties["script"] = map[string]any{"type": []string{"object", "string"}, "description": "What the model script answers."}
	properties["flow"] = map[string]any{
		"type": "object", "additionalProperties": false,
		"description": "A document, whose file name chooses the parser, or the name of a flow or an agent of the server's folder.",
		"properties":  map[string]any{"text": text, "name": text, "dialect": text, "profile": text, "files": map[string]any{"type": "array", "items": map[string]any{"$ref": "#/components/schemas/Document"}}},
		"anyOf":       []any{map[string]any{"required": []string{"text"}}, map[string]any{"required": []string{"name"}}},
	}
	return map[string]any{"type": "object", "required": []string{"flow"}, "additionalProperties": false, "properties": properties}
}

// openAPISchema returns the schema of OpenAPI 3.1 documents (spec.openapis.org, 2022-10-07).
func openAPISchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open("testdata/oas-3.1-2022-10-07.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	const at = "https://spec.openapis.org/oas/3.1/schema/2022-10-07"
	if err := c.AddResource(at, text); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decodeJSON(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// TestRoutesDocumented checks that openapi.json has exactly the routes of the server.
func TestRoutesDocumented(t *testing.T) {
	var served, specified []string
	for _, r := range routes {
		served = append(served, r.method+" "+r.path)
	}
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(description, &doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			if method != "parameters" {
				specified = append(specified, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(specified)
	if diff := cmp.Diff(served, specified); diff != "" {
		t.Errorf("routes (-served +openapi.json):\n%s", diff)
	}
}
