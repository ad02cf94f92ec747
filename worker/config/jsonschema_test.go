package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"go.yaml.in/yaml/v3"

	"weft/worker/config"
)

// TestSchemas compares the schema of weft.yaml with the published file; UPDATE=1 rewrites it.
func TestSchemas(t *testing.T) {
	got, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	const name = "schema.json"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v); rewrite it with UPDATE=1", name, err)
	}
}

// TestEveryKeyIsDescribed: an editor shows what a section or a setting is for.
func TestEveryKeyIsDescribed(t *testing.T) {
	text, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var root struct {
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(text, &root); err != nil || len(root.Properties) < 20 {
		t.Fatalf("%d keys, %v", len(root.Properties), err)
	}
	for name, p := range root.Properties {
		if p.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

// TestSchemaAgrees compares what the schema says about a file with what reading it says.
func TestSchemaAgrees(t *testing.T) {
	text, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.CompileString("schema.json", string(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		yaml string
		ok   bool
	}{
		"empty":                       {"", true},
		"schema":                      {"$schema: https://x.example/schema.json\n", true},
		"schema of a section":         {"worker: { $schema: x }\n", false},
		"empty section":               {"worker:\n", true},
		"empty setting":               {"worker: { activities: }\n", true},
		"a word":                      {"worker: { log: json }\n", true},
		"no such word":                {"worker: { log: xml }\n", false},
		"unknown section":             {"wroker: {}\n", false},
		"unknown setting":             {"worker: { logs: text }\n", false},
		"list for a section":          {"worker: []\n", false},
		"number":                      {"worker: { activities: 7 }\n", true},
		"number as a string":          {"worker: { activities: '7' }\n", true},
		"number too small":            {"worker: { activities: 0 }\n", false},
		"no number":                   {"worker: { activities: many }\n", false},
		"the number outside":          {"worker: { sticky_cache: 0 }\n", true},
		"below the number outside":    {"worker: { sticky_cache: -1 }\n", false},
		"duration":                    {"timeouts: { model: 1h30m }\n", true},
		"duration without a unit":     {"timeouts: { model: 90 }\n", false},
		"boolean":                     {"codec: { compress: true }\n", true},
		"boolean as a string":         {"codec: { compress: 'true' }\n", true},
		"no boolean":                  {"codec: { compress: 1 }\n", false},
		"address":                     {"worker: { health_listen: ':8086' }\n", true},
		"address without a port":      {"worker: { health_listen: localhost }\n", false},
		"list":                        {"serve: { origins: [a, b] }\n", true},
		"list in one string":          {"serve: { origins: a b }\n", true},
		"object for a list":           {"serve: { origins: {} }\n", false},
		"entry":                       {"connections: { web: { url: 'https://x.example' } }\n", true},
		"unknown setting of an entry": {"connections: { web: { urll: x } }\n", false},
		"empty entry":                 {"connections: { web: }\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			var v any
			if err := yaml.Unmarshal([]byte(tc.yaml), &v); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var doc any
			if err := json.Unmarshal(raw, &doc); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); (err == nil) != tc.ok {
				t.Errorf("the schema says %v, want valid: %v", err, tc.ok)
			}
			file := filepath.Join(t.TempDir(), config.DefaultFile)
			if err := os.WriteFile(file, []byte(tc.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Options{File: file, Env: config.OS}); (err == nil) != tc.ok {
				t.Errorf("reading says %v, want valid: %v", err, tc.ok)
			}
		})
	}
}
