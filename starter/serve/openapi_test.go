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

// fromContract are the schemas of activities/contract that the description refers to.
var fromContract = []string{"status", "message", "message-answer", "confirm-answer", "tool-result-answer", "retry-answer", "receipt", "run-result", "run-input"}

// TestDescription makes openapi.json of testdata/openapi.yaml and of the contract's schemas;
// UPDATE=1 rewrites it.
func TestDescription(t *testing.T) {
	doc := described(t)
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
		t.Error("openapi.json is not what testdata/openapi.yaml and the contract say; run make golden and look at the difference")
	}
	if err := published(t).Validate(plain(t, raw)); err != nil {
		t.Errorf("it is no OpenAPI 3.1: %#v", err)
	}
}

// described puts the description together.
func described(t *testing.T) map[string]any {
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
			t.Fatalf("there are two schemas %s", name)
		}
		all[name] = schema
	}
	for _, name := range fromContract {
		title, root, parts := fromFile(t, name)
		if title == "RunInput" {
			title, root = "StartFlow", startFlow(root)
		}
		if title != "RunResult" { // it has parts that a RunView has, too
			add(title, root)
		}
		for _, part := range reached(root, parts) {
			// Answers stand in a status as they are sent.
			if part == "Media" && all[part] != nil {
				continue // it stands in messages as it is sent
			}
			if part != title && !slices.Contains(answerTitles, part) {
				add(part, parts[part])
			}
		}
	}
	// Parts of the contract that nothing refers to any more are left out.
	used := reached([]any{doc["paths"], doc["components"].(map[string]any)["responses"]}, all)
	for name := range all {
		if !slices.Contains(used, name) {
			delete(all, name)
		}
	}
	return doc
}

// answerTitles are schemas of the contract that have files of their own.
var answerTitles = []string{"MessageAnswer", "ConfirmAnswer", "ToolResultAnswer", "RetryAnswer"}

// fromFile reads a schema of the contract: its name, itself, and what it refers to.
func fromFile(t *testing.T, name string) (title string, root, parts map[string]any) {
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

// reached are the parts to which a schema refers, in itself or through others.
func reached(schema any, parts map[string]any) []string {
	found := map[string]bool{}
	var compile func(v any)
	compile = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				name := strings.TrimPrefix(ref, "#/components/schemas/")
				if !found[name] && parts[name] != nil {
					found[name] = true
					compile(parts[name])
				}
			}
			for _, inner := range v {
				compile(inner)
			}
		case []any:
			for _, inner := range v {
				compile(inner)
			}
		}
	}
	compile(schema)
	return slices.Sorted(maps.Keys(found))
}

// startFlow is the contract's input of a run as far as HTTP clients set it.
func startFlow(in map[string]any) map[string]any {
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

// published is the schema of OpenAPI 3.1 documents (spec.openapis.org, 2022-10-07).
func published(t *testing.T) *jsonschema.Schema {
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

func plain(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// TestEveryRouteIsDescribed compares the table of routes with the description.
func TestEveryRouteIsDescribed(t *testing.T) {
	var there, told []string
	for _, r := range routes {
		there = append(there, r.method+" "+r.path)
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
				told = append(told, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(there)
	slices.Sort(told)
	if diff := cmp.Diff(there, told); diff != "" {
		t.Errorf("routes (-there +described):\n%s", diff)
	}
}
