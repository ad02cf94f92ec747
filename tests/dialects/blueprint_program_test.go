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

func runGreeter(t *testing.T, dir, params string, settings tool.Settings) harness.Outcome {
	t.Helper()
	folder, err := specadapter.ReadFolder(os.DirFS(dir), "agents/greeter/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	return blueprintRun(t, harness.TestRun{ToolSettings: settings}, folder, params)
}

// TestBlueprintProgram checks that a procedural agent runs a program: parameters are passed as flags, the output is the result, and
// no model is called.
func TestBlueprintProgram(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ script, params, want, failure string }{
		"JSON":               {`echo "{\"said\": \"$*\"}"`, `{"who":"a b","loud":true}`, `{"said":"--who a b --loud"}`, ""},
		"text":               {`echo "<hello> $2"`, `{"who":"x","loud":false}`, `{"return_code":0,"stdout":"<hello> x","stderr":""}`, ""},
		"exit code":          {`echo no >&2; exit 4`, `{"who":"x"}`, `{"return_code":4,"stdout":"","stderr":"no"}`, "the program greet exited with code 4"},
		"JSON and exit code": {`echo '{"half": true}'; exit 1`, `{"who":"x"}`, `{"half":true}`, "exited with code 1"},
		"invalid parameters": {`echo x`, `{"loud":true}`, "", "'who' is a required property"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := harness.ProgramFolder(t, tc.script)
			p := runGreeter(t, dir, tc.params, tool.Settings{Trusted: []string{dir}})
			if tc.failure != "" {
				if p.Err == nil || !strings.Contains(p.Err.Text, tc.failure) || canonicalJSON(p.Err.Data) != canonicalJSON([]byte(tc.want)) {
					t.Errorf("failure = %v with data %s, want %s with %s", p.Err, p.Err.Data, tc.failure, tc.want)
				}
				return
			}
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if p.Result.ResultText != nil || canonicalJSON(p.Result.ResultData) != canonicalJSON([]byte(tc.want)) || p.Result.Usage.Calls != 0 {
				t.Errorf("result = %s, want %s", p.Result.ResultData, tc.want)
			}
		})
	}
}

// canonicalJSON re-encodes JSON, whose formatting and escapes change in a payload; other text is returned unchanged.
func canonicalJSON(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// TestBlueprintProgramNotTrusted checks that a program outside trusted folders is not run, and that the remedy names the setting.
func TestBlueprintProgramNotTrusted(t *testing.T) {
	t.Parallel()
	dir, mark := harness.ProgramFolder(t, `touch "$2"`), filepath.Join(t.TempDir(), "mark")
	p := runGreeter(t, dir, `{"who":"`+mark+`"}`, tool.Settings{Trusted: []string{t.TempDir()}})
	if p.Err == nil || p.Err.Class != contract.ClassDenied || !strings.Contains(p.Err.Remedy, "agents: {trusted: [/PATH/TO/FOLDER]}") {
		t.Errorf("the run ended with %v", p.Err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran")
	}
}
