package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/activities/mask"
	"weft/specadapter/source"
	"weft/starter/progress"
)

// A command that has read the settings says nothing of their secrets, whatever an error repeats.
func TestSecretsAreNotPrinted(t *testing.T) {
	const key = "canary-4f0c9a7712"
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, []byte("task_queue: weft\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	a := &app{stdout: &out, stderr: &errs, env: mapEnv{
		"TEMPORAL_API_KEY": key, "TEMPORAL_ADDRESS": key + ".invalid:1", "TEMPORAL_TLS": "false", "TEMPORAL_CONFIG_FILE": file + ".none", "WEFT_CONFIG": file,
	}}
	if code := a.run(context.Background(), []string{"status", "x"}); code != exitNoTemporal {
		t.Errorf("exit code %d", code)
	}
	if said := out.String() + errs.String(); strings.Contains(said, key) || !strings.Contains(said, "[secret].invalid:1") {
		t.Errorf("it says %q", said)
	}
}

// Nothing that is shown holds one either: what is printed, as text and as JSON, and what is drawn.
func TestNothingIsShownOfSecrets(t *testing.T) {
	const key, pin, inline = "canary-4f0c9a7712", "8412997310", "canary-of-the-document"
	var out, errs strings.Builder
	a := &app{stderr: &errs, mask: mask.New(key, pin)}
	a.stdout = &checked{Writer: &out, mask: a.mask}
	a.object(map[string]any{"pin": 8412997310, "text": "it is " + key})
	words := "it is " + key
	a.printResult(&words, nil)
	if want := "{\n  \"pin\": \"[secret]\",\n  \"text\": \"it is [secret]\"\n}\nit is [secret]\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	l := progress.NewLive(a.stderr, a.mask, false, func() (int, int) { return 80, 24 }, a.handlePanic)
	l.Notify(progress.Notice{Event: progress.EventNote, Text: "a note of " + key})
	l.Notify(progress.Notice{Event: progress.EventStarted, Node: "a#1", Text: "text of " + key})
	l.Close()
	a.addSecret(source.InlineSecret{Ref: "c.token", Value: inline})
	a.addSecret(source.InlineSecret{Ref: "c.key", Value: "/home/somebody/key.pem", File: true})
	a.say("the document says %s, see /home/somebody/key.pem", inline)
	if said := errs.String(); strings.Contains(said, "canary") || strings.Count(said, "[secret]") != 3 || !strings.Contains(said, "key.pem") {
		t.Errorf("it shows %q", said)
	}
	if len(a.secrets) != 2 {
		t.Errorf("%d secrets are lent", len(a.secrets))
	}
}

// A command that reads the settings masks its output by itself.
func TestOutputIsMasked(t *testing.T) {
	const key = "canary-4f0c9a7712"
	file := filepath.Join(t.TempDir(), key+".json")
	flow := `{"name": "x", "nodes": [{"id": "a", "name": "A", "prompt": "Do.", "is_exit_node": true}],
 "edges": [{"id": "i", "source": "START", "target": "a"}, {"id": "o", "source": "a", "target": "END"}]}`
	if err := os.WriteFile(file, []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"validate", file}, {"validate", file, "-output", "json"}} {
		var out, errs strings.Builder
		a := &app{stdout: &out, stderr: &errs, env: mapEnv{"TEMPORAL_API_KEY": key, "TEMPORAL_CONFIG_FILE": file + ".none"}}
		if code := a.run(context.Background(), args); code != exitOK {
			t.Errorf("%q: exit code %d: %s", args, code, errs.String())
		}
		if said := out.String() + errs.String(); strings.Contains(said, key) || !strings.Contains(out.String(), "[secret].json") {
			t.Errorf("%q: it says %q", args, said)
		}
	}
}

// A result stays JSON, whatever is taken out of it, and without secrets it stays as it is; so does the
// id of a run that goes on alone.
func TestResultsStay(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"z":1.0, "pin":1, "a":"<é>"}`, `{"z":1.0, "pin":1, "a":"<é>"}` + "\n"},
		{`{"pin":8412997310,"a":"it is postgres"}`, `{"a":"it is [secret]","pin":"[secret]"}` + "\n"},
		{"a text of postgres\n", "a text of [secret]\n"},
		{"", "\n"},
	} {
		for _, words := range []*string{nil, &c.in} {
			var out strings.Builder
			a := &app{mask: mask.New("8412997310", "postgres")}
			a.stdout = &checked{Writer: &out, mask: a.mask}
			a.printResult(words, []byte(c.in))
			if out.String() != c.want {
				t.Errorf("%q is printed as %q, want %q", c.in, out.String(), c.want)
			}
		}
	}
	for _, output := range []string{"", outputJSON, outputLines} {
		var out, errs strings.Builder
		a := &app{stderr: &errs, mask: mask.New("postgres")}
		a.stdout, a.flags.output = &checked{Writer: &out, mask: a.mask}, output
		a.detached("postgres-x1")
		if !strings.Contains(out.String(), "postgres-x1") {
			t.Errorf("-output %q: the id is printed as %q", output, out.String())
		}
	}
}
