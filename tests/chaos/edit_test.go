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

// unset is an environment with nothing in it.
type unset struct{}

func (unset) LookupEnv(string) (string, bool) { return "", false }

func (unset) Environ() []string { return nil }

// editable is a flow of two nodes of the worker's folder; what the second is told is to be
// edited.
const editable = `{"name":"editable","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"[a]","tools":[{"name":"search","data_connection_id":"web"}]},
{"id":"b","name":"B","prompt":"[old]","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"b"},{"id":"e3","source":"b","target":"END"}]}`

// TestEditedFlowsDoNotChangeRuns edits a flow of the worker's folder in the middle of a run: the
// prompt and the edges, then into one that is wrong. The run goes on as it began; the next
// one is of the edited flow, or is refused.
func TestEditedFlowsDoNotChangeRuns(t *testing.T) {
	tests := map[string]struct {
		edited string
		// next is what a run says that starts after the edit; class is its failure's.
		next, class string
	}{
		"another prompt": {edited: strings.Replace(editable, "[old]", "[new]", 1), next: "new"},
		"another way": {edited: strings.NewReplacer(`"source":"a","target":"b"`, `"source":"a","target":"c"`, `"source":"b","target":"END"`, `"source":"c","target":"END"`,
			`"id":"b","name":"B"`, `"id":"c","name":"C"`, "[old]", "[c]").Replace(editable), next: "elsewhere"},
		"into one that is wrong": {edited: strings.Replace(editable, `"target":"b"`, `"target":"nowhere"`, 1), class: contract.ClassInvalidFlow},
		"removed":                {class: contract.ClassInvalidFlow},
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
			cfg, err := config.Load(config.Options{File: settings, Env: unset{}})
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
				t.Fatalf("the run under way: %+v, %v", p.Result, p.Err)
			}
			r.Tools["search"] = func(string) (string, bool) { return "nothing to do", false }
			p = r.Execute(t)
			switch {
			case harness.FailureClass(p.Err) != tc.class:
				t.Errorf("the next run: %v, want class %q", p.Err, tc.class)
			case tc.class == "" && *p.Result.ResultText != tc.next:
				t.Errorf("the next run says %q, want %q", *p.Result.ResultText, tc.next)
			}
		})
	}
}

// editableModel answers by the prompt that it is sent.
func editableModel(t *testing.T) *llm.Models {
	t.Helper()
	always := func(s string) func(talk) says { return func(talk) says { return text("%s", s) } }
	f := &chaosFlow{say: map[string]func(talk) says{"[old]": always("old"), "[new]": always("new"), "[c]": always("elsewhere"), "[a]": func(t talk) says {
		if t.turn == 1 {
			return calls(asks{"search", "{}"})
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
