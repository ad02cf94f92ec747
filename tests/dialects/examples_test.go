package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
)

// exampleTools are the tools that the connection web offers to the examples.
var exampleTools = map[string]func(string) (string, bool){
	"search": func(string) (string, bool) {
		return "durable-execution.md: a run's event history lets any worker go on", false
	},
	"send_mail": func(string) (string, bool) { return "sent", false },
}

// exampleFunctions are the worker's own tools, which examples use without a connection, as the
// worker in examples/embed registers them.
var exampleFunctions = []tool.Function{
	tool.Func("weather", "", func(_ context.Context, in struct {
		City string `json:"city"`
		Day  int    `json:"day,omitempty"`
	}) (map[string]any, error) {
		if in.City != "Oslo" {
			return nil, fmt.Errorf("there is no forecast for %q, only for Oslo", in.City)
		}
		return map[string]any{"sky": "clear", "degrees": 21 + in.Day}, nil
	}),
	tool.Func("reserve", "", func(_ context.Context, in struct {
		Park   string `json:"park"`
		People int    `json:"people"`
	}) (string, error) {
		return fmt.Sprintf("a table for %d in %s", in.People, in.Park), nil
	}, tool.RetryNever()),
}

// TestGoldenExamples runs every example with its script, and without one. NAME.want holds the expected
// outcome with the script; UPDATE=1 rewrites it.
func TestGoldenExamples(t *testing.T) {
	t.Parallel()
	eachExample(t, runExample)
}

// needsTools are the examples with a tool node, which fails on a worker that lacks the tool.
var needsTools = []string{"forecast", "stock", "word-count"}

// TestExamplesAlone runs every example on the scripted model, without a script, tools or servers.
func TestExamplesAlone(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, file, base string) {
		r := exampleRun(t, base, harness.TestRun{Document: harness.ReadFile(t, file)})
		res := loadExample(t, file)
		r.SetInput = func(in *contract.RunInput) {
			setExampleFlow(t, res, base, in)
			in.OnError = contract.OnErrorFail
		}
		if p := r.Execute(t); (p.Err != nil) != slices.Contains(needsTools, filepath.Base(base)) {
			t.Error(p.Err)
		}
	})
}

// eachExample runs a test for every example; the files of an example are base.*.
func eachExample(t *testing.T, run func(t *testing.T, file, base string)) {
	files, err := filepath.Glob("../examples/*/*.*")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob("../examples/*/agents/*/" + specadapter.FolderMain)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range folders {
		ran++
		// The script and the expected outcome of an agent's folder are next to agents/.
		folder := filepath.Dir(file)
		base := filepath.Join(filepath.Dir(filepath.Dir(folder)), filepath.Base(folder))
		t.Run(base, func(t *testing.T) { run(t, file, base) })
	}
	for _, file := range files {
		ext := filepath.Ext(file)
		if ext != ".json" && ext != ".yaml" || strings.HasPrefix(file, "../examples/elsewhere/") || strings.HasPrefix(file, "../examples/weather/") {
			continue // tested with their own servers in other_worker_test.go and weather_test.go
		}
		ran++
		base := strings.TrimSuffix(file, ext)
		t.Run(base, func(t *testing.T) { run(t, file, base) })
	}
	if ran == 0 {
		t.Fatal("found no examples")
	}
}

func runExample(t *testing.T, file, base string) {
	res := loadExample(t, file)
	doc, settings := harness.ReadFile(t, file), tool.Settings{}
	if address := "http://localhost:3002/sse"; strings.Contains(doc, address) {
		doc = strings.ReplaceAll(doc, address, greetings(t)+"/sse")
		settings.AllowPrivate = true
	}
	if address := "http://localhost:3003"; strings.Contains(doc, address) {
		doc = strings.ReplaceAll(doc, address, articles(t))
		settings.AllowPrivate = true
		res, _ = specadapter.Load(filepath.Base(file), []byte(doc), specadapter.Options{})
	}
	if root, err := filepath.Abs(filepath.Dir(base)); err == nil {
		settings.Trusted = []string{root} // the programs of the examples
	}
	r := exampleRun(t, base, harness.TestRun{ToolSettings: settings, Document: doc, Script: harness.ReadFile(t, base+".script"), Tools: exampleTools, Functions: exampleFunctions})
	if res.Flow.Inputs != nil {
		r.SetInput = func(in *contract.RunInput) { setExampleFlow(t, res, base, in) }
	}
	p := r.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	unscripted := r
	unscripted.Script = ""
	if p := unscripted.Execute(t); p.Err != nil {
		t.Errorf("without a script: %v", p.Err)
	}
	got := formatOutcome(t, p)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(base+".want", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(harness.ReadFile(t, base+".want"), got); diff != "" {
		t.Errorf("%s.want (-want +got):\n%s", base, diff)
	}
}

// exampleRun adds an example's input and answers to a run.
func exampleRun(t *testing.T, base string, r harness.TestRun) harness.TestRun {
	t.Helper()
	if raw, err := os.ReadFile(base + ".input.txt"); err == nil {
		r.Input = strings.TrimSpace(string(raw))
	}
	if raw, err := os.ReadFile(base + ".answers"); err == nil {
		r.Answers = strings.Split(strings.TrimSpace(string(raw)), "\n")
	}
	return r
}

// articles starts the service from which examples fetch articles. Its first request fails with status 503.
func articles(t *testing.T) string {
	t.Helper()
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case requests.Add(1) == 1:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case r.URL.Path != "/articles/green lamp" || r.URL.Query().Get("currency") != "EUR":
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, `{"there": true, "price": 12.5}`)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// loadExample loads a flow, with the files of its folder if it has one.
func loadExample(t *testing.T, file string) *specadapter.Result {
	t.Helper()
	folder := &specadapter.Folder{Name: filepath.Base(file), Text: []byte(harness.ReadFile(t, file))}
	if filepath.Base(file) == specadapter.FolderMain {
		root, main := specadapter.Locate(file)
		var err error
		if folder, err = specadapter.ReadFolder(os.DirFS(root), main); err != nil {
			t.Fatal(err)
		}
	}
	o := specadapter.Options{Host: source.Host{Files: folder.Files, UnboundTools: map[string]bool{}}}
	for _, f := range exampleFunctions {
		o.UnboundTools[f.Name()] = true
	}
	res, diags := specadapter.Load(folder.Name, folder.Text, o)
	if res == nil {
		t.Fatalf("the example does not load: %v", diags)
	}
	return res
}

// setExampleFlow sets the flow of a run, and its parameters if there is a NAME.params. The
// text of NAME.input.txt is set elsewhere.
func setExampleFlow(t *testing.T, res *specadapter.Result, base string, in *contract.RunInput) {
	t.Helper()
	in.Flow = contract.FlowRef{Plan: res.Flow, Source: &res.Source}
	if raw, err := os.ReadFile(base + ".params"); err == nil {
		in.Params = raw
	}
}

// formatOutcome formats the outcome of a run: its executions, its state and its result.
func formatOutcome(t *testing.T, p harness.Outcome) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "executions: %s\n", strings.Join(harness.Executions(p.Status), " "))
	state, err := json.Marshal(p.State)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "state: %s\n", state)
	b.WriteString("result: " + harness.ResultText(p.Result) + "\n")
	return b.String()
}
