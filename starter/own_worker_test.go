package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/starter/dev"
	"weft/worker/config"
)

// TestOfOwnWorker words what a worker lacks for whoever started it with -dev.
func TestOfOwnWorker(t *testing.T) {
	models, err := llm.Open(llm.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = models.Default()
	nothing := contract.FailureOf(err)
	for name, tc := range map[string]struct {
		dev           *dev.Dev
		remedy, other string
	}{
		"another worker": {nil, nothing.Remedy, "set in the worker's weft.yaml: x"},
		"its own": {&dev.Dev{Embedded: true}, "set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in this environment, or model in deploy/weft.yaml, and run the command again, " +
			"once no other starter -dev runs" + nothing.Remedy[len("set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in the worker's environment (not the client's), or model in its weft.yaml, and restart the worker"):], "set in deploy/weft.yaml: x"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{dev: tc.dev, cfg: &config.Config{File: "deploy/weft.yaml"}}
			got := a.ofOwnWorker(&contract.Failure{Remedy: nothing.Remedy, Text: "set in the worker's weft.yaml: x", Diagnostics: []string{"set in the worker's weft.yaml: x"}})
			if diff := cmp.Diff(&contract.Failure{Remedy: tc.remedy, Text: tc.other, Diagnostics: []string{tc.other}}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	a := &app{dev: &dev.Dev{Helped: true}}
	f := a.ofOwnWorker(&contract.Failure{Remedy: "set X_KEY in the worker's environment (not the client's) and restart the worker"})
	if want := "export X_KEY=VALUE, and run the command again, once no other starter -dev runs"; f.Remedy != want {
		t.Errorf("the remedy is %q, want %q", f.Remedy, want)
	}
}
