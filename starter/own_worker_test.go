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
		"its own": {&dev.Dev{Embedded: true}, "set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in this environment, or model in deploy/weft.yaml, and run the command again " +
			"when no other starter -dev is running" + nothing.Remedy[len("set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in the worker's environment (not the client's), or model in its weft.yaml, and restart the worker"):], "set in deploy/weft.yaml: x"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{dev: tc.dev, cfg: &config.Config{File: "deploy/weft.yaml"}}
			got := a.localFailure(&contract.Failure{Remedy: nothing.Remedy, Text: "set in the worker's weft.yaml: x", Diagnostics: []string{"set in the worker's weft.yaml: x"}})
			if diff := cmp.Diff(&contract.Failure{Remedy: tc.remedy, Text: tc.other, Diagnostics: []string{tc.other}}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	a := &app{dev: &dev.Dev{Helped: true}}
	f := a.localFailure(&contract.Failure{Remedy: "set X_KEY in the worker's environment (not the client's) and restart the worker"})
	if want := "export X_KEY=VALUE, and run the command again when no other starter -dev is running"; f.Remedy != want {
		t.Errorf("the remedy is %q, want %q", f.Remedy, want)
	}
	a = &app{dev: &dev.Dev{Embedded: true}, cfg: &config.Config{}}
	a.flags.dev, a.flags.config = true, "my settings.yaml"
	for text, want := range map[string]string{
		`provider "openai" has no key: OPENAI_API_KEY is not set on the worker; set OPENAI_API_KEY in the worker's environment (not the client's) and restart the worker`: `provider "openai" has no key: OPENAI_API_KEY is not set here; export OPENAI_API_KEY=VALUE, and ` + startAgain,
		"the variable X is not set; set X or X_FILE in the worker's environment":                                                                                          "the variable X is not set; export X=VALUE, and " + startAgain,
		`no connection "web"; to allow it, set in the worker's weft.yaml: connections`:                                                                                    `no connection "web"; to allow it, set in weft.yaml: connections; then ` + startAgain,
		"May it?": "May it?",
	} {
		if got := a.localRequest(text); got != want {
			t.Errorf("%q is worded %q, want %q", text, got, want)
		}
	}
	if self := a.self(); self != "starter -dev -config 'my settings.yaml' " {
		t.Errorf("a command line begins with %q", self)
	}
}
