package dialects

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/tests/harness"
)

// recordedExamples are the folders of examples whose histories are recorded.
var recordedExamples = []string{"agentspec"}

// TestEndToEndRecordExamples runs examples on a real server and replays their histories, as
// TestEndToEndRecord does.
func TestEndToEndRecordExamples(t *testing.T) {
	t.Parallel()
	c, shop := harness.Dial(t, harness.ServerAddress(t)), articles(t)
	tools, err := tool.Open(tool.Settings{Functions: exampleFunctions, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	h := &harness.Worker{Client: c, Queue: "examples-" + time.Now().Format("150405.000000")}
	h.Worker = harness.RunWorker(t, c, h.Queue, 0, tools)
	t.Cleanup(h.Worker.Stop)
	for _, folder := range recordedExamples {
		files, err := filepath.Glob("../examples/" + folder + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("no examples in %s: %v", folder, err)
		}
		for _, file := range files {
			base := strings.TrimSuffix(file, ".yaml")
			name := "example-" + folder + "-" + filepath.Base(base)
			t.Run(name, func(t *testing.T) {
				recordExample(t, h, name, base, strings.ReplaceAll(harness.ReadFile(t, file), "http://localhost:3003", shop))
			})
		}
	}
}

func recordExample(t *testing.T, h *harness.Worker, name, base, doc string) {
	res, diags := specadapter.Load("flow.yaml", []byte(doc), specadapter.Options{})
	if res == nil {
		t.Fatal(diags)
	}
	in := contract.RunInput{Script: harness.Script(t, harness.ReadFile(t, base+".script"))}
	setExampleFlow(t, res, base, &in)
	if raw, err := os.ReadFile(base + ".input.txt"); err == nil {
		in.Input = strings.TrimSpace(string(raw))
	}
	run := h.Start(t, in)
	if raw, err := os.ReadFile(base + ".answers"); err == nil {
		var done []string
		for line := range strings.Lines(strings.TrimSpace(string(raw))) {
			done = append(done, answerNext(t, h, run.GetID(), strings.TrimSpace(line), done))
		}
	}
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if want := harness.ReadFile(t, base+".want"); !strings.HasSuffix(want, "\nresult: "+harness.ResultText(out)+"\n") {
		t.Errorf("result is %s, want the result of\n%s", harness.ResultText(out), want)
	}
	harness.Record(t, h.Client, name, run.GetID(), run.GetRunID())
}

// answerNext answers the next open message request of a run and returns the request's id.
func answerNext(t *testing.T, h *harness.Worker, run, text string, done []string) string {
	t.Helper()
	id := ""
	harness.WaitFor(t, "a message request of "+run, func() bool {
		for _, r := range h.Status(t, run).Requests {
			if r.Kind == contract.RequestMessage && !slices.Contains(done, r.ID) {
				id = r.ID
			}
		}
		return id != ""
	})
	if _, err := h.Update(t, run, contract.RequestMessage, contract.MessageAnswer{ID: id, Text: text}); err != nil {
		t.Fatal(err)
	}
	return id
}
