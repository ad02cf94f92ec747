package tests

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
)

// recordedExamples are the folders of examples whose histories are recorded.
var recordedExamples = []string{"agentspec"}

// TestEndToEndRecordExamples runs examples on a real server and replays what they leave, as
// TestEndToEndRecord does.
func TestEndToEndRecordExamples(t *testing.T) {
	c, shop := dial(t, temporalAddress(t)), articles(t)
	tools, err := tool.Open(tool.Settings{Functions: exampleFunctions, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	h := &hand{client: c, queue: "examples-" + time.Now().Format("150405.000000")}
	h.worker = work(t, c, h.queue, 0, tools)
	t.Cleanup(h.worker.Stop)
	for _, folder := range recordedExamples {
		files, err := filepath.Glob("examples/" + folder + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("there are no examples in %s: %v", folder, err)
		}
		for _, file := range files {
			base := strings.TrimSuffix(file, ".yaml")
			name := "example-" + folder + "-" + filepath.Base(base)
			t.Run(name, func(t *testing.T) {
				recordExample(t, h, name, base, strings.ReplaceAll(read(t, file), "http://localhost:3003", shop))
			})
		}
	}
}

func recordExample(t *testing.T, h *hand, name, base, doc string) {
	res, diags := specadapter.Load("flow.yaml", []byte(doc), specadapter.Options{})
	if res == nil {
		t.Fatal(diags)
	}
	in := contract.RunInput{Script: script(t, read(t, base+".script"))}
	begin(t, res, base, &in)
	if raw, err := os.ReadFile(base + ".input.txt"); err == nil {
		in.Input = strings.TrimSpace(string(raw))
	}
	run := h.start(t, in)
	if raw, err := os.ReadFile(base + ".answers"); err == nil {
		var done []string
		for line := range strings.Lines(strings.TrimSpace(string(raw))) {
			done = append(done, answerNext(t, h, run.GetID(), strings.TrimSpace(line), done))
		}
	}
	out, err := resultOf(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if want := read(t, base+".want"); !strings.HasSuffix(want, "\nresult: "+resultText(out)+"\n") {
		t.Errorf("the result is %s, want that of\n%s", resultText(out), want)
	}
	save(t, h.client, name, run.GetID(), run.GetRunID())
}

// answerNext answers the next message that a run asks for, and gives the request's id.
func answerNext(t *testing.T, h *hand, run, text string, done []string) string {
	t.Helper()
	id := ""
	waitFor(t, "a question of "+run, func() bool {
		for _, r := range h.status(t, run).Requests {
			if r.Kind == contract.RequestMessage && !slices.Contains(done, r.ID) {
				id = r.ID
			}
		}
		return id != ""
	})
	if _, err := h.update(t, run, contract.RequestMessage, contract.MessageAnswer{ID: id, Text: text}); err != nil {
		t.Fatal(err)
	}
	return id
}
