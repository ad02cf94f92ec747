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

// TestGoldenSchema checks that the published schema of weft.yaml is up to date; UPDATE=1 rewrites it.
func TestGoldenSchema(t *testing.T) {
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

// TestEveryKeyIsDescribed checks that every section and setting has a description, which editors show.
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

// TestSchemaAgrees checks that the schema accepts a file if and only if Load does.
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
		"enum value":                  {"worker: { log: json }\n", true},
		"unknown enum value":          {"worker: { log: xml }\n", false},
		"unknown section":             {"wroker: {}\n", false},
		"unknown setting":             {"worker: { logs: text }\n", false},
		"list for a section":          {"worker: []\n", false},
		"number":                      {"worker: { activities: 7 }\n", true},
		"number as a string":          {"worker: { activities: '7' }\n", true},
		"number too small":            {"worker: { activities: 0 }\n", false},
		"not a number":                {"worker: { activities: many }\n", false},
		"special value zero":          {"worker: { sticky_cache: 0 }\n", true},
		"negative number":             {"worker: { sticky_cache: -1 }\n", false},
		"duration":                    {"timeouts: { model: 1h30m }\n", true},
		"duration without a unit":     {"timeouts: { model: 90 }\n", false},
		"boolean":                     {"codec: { compress: true }\n", true},
		"boolean as a string":         {"codec: { compress: 'true' }\n", true},
		"number for a boolean":        {"codec: { compress: 1 }\n", false},
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
				t.Errorf("schema error = %v, want valid: %v", err, tc.ok)
			}
			file := filepath.Join(t.TempDir(), config.DefaultFile)
			if err := os.WriteFile(file, []byte(tc.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Options{File: file, Env: config.OS}); (err == nil) != tc.ok {
				t.Errorf("Load() error = %v, want valid: %v", err, tc.ok)
			}
		})
	}
}
