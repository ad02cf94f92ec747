package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
)

// programFolder writes a folder with one procedural agent and its script.
func programFolder(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agents/greeter/agent.json": `{"name":"greeter","description":"Greets","type":"procedural","script":"greet"}`,
		"scripts/greet/script.json": `{"name":"greet","description":"Greets","script_file":"greet.sh","parameters_schema":{"type":"object","required":["who"],` +
			`"properties":{"who":{"type":"string"},"loud":{"type":"boolean"}},"additionalProperties":false}}`,
		"scripts/greet/greet.sh": "#!/bin/sh\n" + script,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func greet(t *testing.T, dir, params string, reach tool.Settings) played {
	t.Helper()
	folder, err := specadapter.ReadFolder(os.DirFS(dir), "agents/greeter/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	return blueprintRun(t, rehearsal{reach: reach}, folder, params)
}

// A procedural agent is a program: its parameters are flags, what it prints is the result, no
// model is asked.
func TestBlueprintProgram(t *testing.T) {
	tests := map[string]struct{ script, params, want, failure string }{
		"JSON":             {`echo "{\"said\": \"$*\"}"`, `{"who":"a b","loud":true}`, `{"said":"--who a b --loud"}`, ""},
		"text":             {`echo "<hello> $2"`, `{"who":"x","loud":false}`, `{"return_code":0,"stdout":"<hello> x","stderr":""}`, ""},
		"a code":           {`echo no >&2; exit 4`, `{"who":"x"}`, `{"return_code":4,"stdout":"","stderr":"no"}`, "the program greet ended with the code 4"},
		"JSON and a code":  {`echo '{"half": true}'; exit 1`, `{"who":"x"}`, `{"half":true}`, "ended with the code 1"},
		"wrong parameters": {`echo x`, `{"loud":true}`, "", "'who' is a required property"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := programFolder(t, tc.script)
			p := greet(t, dir, tc.params, tool.Settings{Trusted: []string{dir}})
			if tc.failure != "" {
				if p.err == nil || !strings.Contains(p.err.Text, tc.failure) || same(p.err.Data) != same([]byte(tc.want)) {
					t.Errorf("the run failed with %v and %s, want %s and %s", p.err, p.err.Data, tc.failure, tc.want)
				}
				return
			}
			if p.err != nil {
				t.Fatal(p.err)
			}
			if p.result.ResultText != nil || same(p.result.ResultData) != same([]byte(tc.want)) || p.result.Usage.Calls != 0 {
				t.Errorf("the result is %s, want %s", p.result.ResultData, tc.want)
			}
		})
	}
}

// same is JSON without what a way through a payload changes.
func same(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// What the operator does not trust is not run, and the failure has the line that allows it.
func TestBlueprintProgramRefused(t *testing.T) {
	dir, mark := programFolder(t, `touch "$2"`), filepath.Join(t.TempDir(), "mark")
	p := greet(t, dir, `{"who":"`+mark+`"}`, tool.Settings{Trusted: []string{t.TempDir()}})
	if p.err == nil || p.err.Class != contract.ClassDenied || !strings.Contains(p.err.Remedy, "agents: {trusted: [/PATH/TO/FOLDER]}") {
		t.Errorf("the run gave %v", p.err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran")
	}
}
