package dialects

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/tests/harness"
)

func greet(t *testing.T, dir, params string, reach tool.Settings) harness.Outcome {
	t.Helper()
	folder, err := specadapter.ReadFolder(os.DirFS(dir), "agents/greeter/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	return blueprintRun(t, harness.TestRun{ToolSettings: reach}, folder, params)
}

// A procedural agent is a program: its parameters are flags, what it prints is the result, no
// model is asked.
func TestBlueprintProgram(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ script, params, want, failure string }{
		"JSON":             {`echo "{\"said\": \"$*\"}"`, `{"who":"a b","loud":true}`, `{"said":"--who a b --loud"}`, ""},
		"text":             {`echo "<hello> $2"`, `{"who":"x","loud":false}`, `{"return_code":0,"stdout":"<hello> x","stderr":""}`, ""},
		"a code":           {`echo no >&2; exit 4`, `{"who":"x"}`, `{"return_code":4,"stdout":"","stderr":"no"}`, "the program greet exited with code 4"},
		"JSON and a code":  {`echo '{"half": true}'; exit 1`, `{"who":"x"}`, `{"half":true}`, "exited with code 1"},
		"wrong parameters": {`echo x`, `{"loud":true}`, "", "'who' is a required property"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := harness.ProgramFolder(t, tc.script)
			p := greet(t, dir, tc.params, tool.Settings{Trusted: []string{dir}})
			if tc.failure != "" {
				if p.Err == nil || !strings.Contains(p.Err.Text, tc.failure) || same(p.Err.Data) != same([]byte(tc.want)) {
					t.Errorf("the run failed with %v and %s, want %s and %s", p.Err, p.Err.Data, tc.failure, tc.want)
				}
				return
			}
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if p.Result.ResultText != nil || same(p.Result.ResultData) != same([]byte(tc.want)) || p.Result.Usage.Calls != 0 {
				t.Errorf("the result is %s, want %s", p.Result.ResultData, tc.want)
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
	t.Parallel()
	dir, mark := harness.ProgramFolder(t, `touch "$2"`), filepath.Join(t.TempDir(), "mark")
	p := greet(t, dir, `{"who":"`+mark+`"}`, tool.Settings{Trusted: []string{t.TempDir()}})
	if p.Err == nil || p.Err.Class != contract.ClassDenied || !strings.Contains(p.Err.Remedy, "agents: {trusted: [/PATH/TO/FOLDER]}") {
		t.Errorf("the run gave %v", p.Err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran")
	}
}
