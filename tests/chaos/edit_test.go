package chaos

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/tests/harness"
	"weft/worker/config"
	"weft/worker/host"
)

// emptyEnv is an empty environment.
type emptyEnv struct{}

func (emptyEnv) LookupEnv(string) (string, bool) { return "", false }

func (emptyEnv) Environ() []string { return nil }

// editable is a flow of two nodes, which the test edits.
const editable = `{"name":"editable","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"[a]","tools":[{"name":"search","data_connection_id":"web"}]},
{"id":"b","name":"B","prompt":"[old]","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"b"},{"id":"e3","source":"b","target":"END"}]}`

// TestEditedFlowsDoNotChangeRuns edits a flow in the worker's flow directory in the middle of a run. It
// checks that the open run keeps its plan, and that the next run uses the edited flow or is rejected.
func TestEditedFlowsDoNotChangeRuns(t *testing.T) {
	tests := map[string]struct {
		edited string
		// next is the result of a run that starts after the edit; class is the class of its failure.
		next, class string
	}{
		"different prompt": {edited: strings.Replace(editable, "[old]", "[new]", 1), next: "new"},
		"different edges": {edited: strings.NewReplacer(`"source":"a","target":"b"`, `"source":"a","target":"c"`, `"source":"b","target":"END"`, `"source":"c","target":"END"`,
			`"id":"b","name":"B"`, `"id":"c","name":"C"`, "[old]", "[c]").Replace(editable), next: "elsewhere"},
		"invalid flow": {edited: strings.Replace(editable, `"target":"b"`, `"target":"nowhere"`, 1), class: contract.ClassInvalidFlow},
		"removed":      {class: contract.ClassInvalidFlow},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "editable.json")
			write := func(text string) error {
				if text == "" {
					return os.Remove(file)
				}
				return os.WriteFile(file, []byte(text), 0o600)
			}
			if err := write(editable); err != nil {
				t.Fatal(err)
			}
			settings := filepath.Join(t.TempDir(), "weft.yaml")
			if err := os.WriteFile(settings, []byte("flows: {dir: "+dir+"}\nconnections: {web: {url: 'http://127.0.0.1:1/mcp'}}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(config.Options{File: settings, Env: emptyEnv{}})
			if err != nil {
				t.Fatal(err)
			}
			r := harness.TestRun{
				Compile: host.Compiler(cfg), Models: editableModel(t),
				SetInput: func(in *contract.RunInput) { in.Flow, in.Model = contract.FlowRef{Name: "editable"}, "fake/m" },
				Tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) {
					if err := write(tc.edited); err != nil {
						return err.Error(), true
					}
					return "edited", false
				}},
			}
			p := r.Execute(t)
			if p.Err != nil || *p.Result.ResultText != "old" {
				t.Fatalf("open run: %+v, %v", p.Result, p.Err)
			}
			r.Tools["search"] = func(string) (string, bool) { return "nothing to do", false }
			p = r.Execute(t)
			switch {
			case harness.FailureClass(p.Err) != tc.class:
				t.Errorf("next run: %v, want class %q", p.Err, tc.class)
			case tc.class == "" && *p.Result.ResultText != tc.next:
				t.Errorf("next run: result text = %q, want %q", *p.Result.ResultText, tc.next)
			}
		})
	}
}

// editableModel answers according to the prompt.
func editableModel(t *testing.T) *llm.Models {
	t.Helper()
	always := func(s string) func(conversation) modelReply {
		return func(conversation) modelReply { return text("%s", s) }
	}
	f := &chaosFlow{models: map[string]func(conversation) modelReply{"[old]": always("old"), "[new]": always("new"), "[c]": always("elsewhere"), "[a]": func(t conversation) modelReply {
		if t.turn == 1 {
			return calls(toolCall{"search", "{}"})
		}
		return text("begun")
	}}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.complete(w, body)
	}))
	t.Cleanup(srv.Close)
	models, err := llm.Open(llm.Settings{Default: "fake/m", Providers: map[string]llm.ProviderSettings{"fake": {Kind: "compatible", BaseURL: srv.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	return models
}
