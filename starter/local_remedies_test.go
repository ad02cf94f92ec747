package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/starter/dev"
	"weft/worker/config"
)

// TestLocalRemedies checks that remedies about the worker's settings are reworded for a user whose starter -dev runs the worker itself.
func TestLocalRemedies(t *testing.T) {
	models, err := llm.Open(llm.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = models.Default()
	noModel := contract.FailureOf(err)
	for name, tc := range map[string]struct {
		dev          *dev.Dev
		remedy, text string
	}{
		"separate worker": {nil, noModel.Remedy, "set in the worker's weft.yaml: x"},
		"embedded worker": {&dev.Dev{Embedded: true}, "set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in this environment, or model in deploy/weft.yaml, and run the command again " +
			"when no other starter -dev is running" + noModel.Remedy[len("set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in the worker's environment (not the client's), or model in its weft.yaml, and restart the worker"):], "set in deploy/weft.yaml: x"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{dev: tc.dev, cfg: &config.Config{File: "deploy/weft.yaml"}}
			got := a.localFailure(&contract.Failure{Remedy: noModel.Remedy, Text: "set in the worker's weft.yaml: x", Diagnostics: []string{"set in the worker's weft.yaml: x"}})
			if diff := cmp.Diff(&contract.Failure{Remedy: tc.remedy, Text: tc.text, Diagnostics: []string{tc.text}}, got); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
	a := &app{dev: &dev.Dev{Helped: true}}
	f := a.localFailure(&contract.Failure{Remedy: "set X_KEY in the worker's environment (not the client's) and restart the worker"})
	if want := "export X_KEY=VALUE, and run the command again when no other starter -dev is running"; f.Remedy != want {
		t.Errorf("Remedy = %q, want %q", f.Remedy, want)
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
			t.Errorf("localRequest(%q) = %q, want %q", text, got, want)
		}
	}
	if self := a.self(); self != "starter -dev -config 'my settings.yaml' " {
		t.Errorf("self() = %q", self)
	}
}
