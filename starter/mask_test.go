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

// TestErrorsMasked checks that secrets of the settings are masked in error messages.
func TestErrorsMasked(t *testing.T) {
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
	if all := out.String() + errs.String(); strings.Contains(all, key) || !strings.Contains(all, "[secret].invalid:1") {
		t.Errorf("output = %q", all)
	}
}

// TestSecretsMasked checks that secrets are masked in text, in JSON, and in the live table, including secrets of the document.
func TestSecretsMasked(t *testing.T) {
	const key, pin, inline = "canary-4f0c9a7712", "8412997310", "canary-of-the-document"
	var out, errs strings.Builder
	a := &app{stderr: &errs, mask: mask.New(key, pin)}
	a.stdout = &checked{Writer: &out, mask: a.mask}
	a.object(map[string]any{"pin": 8412997310, "text": "it is " + key})
	text := "it is " + key
	a.printResult(&text, nil)
	if want := "{\n  \"pin\": \"[secret]\",\n  \"text\": \"it is [secret]\"\n}\nit is [secret]\n"; out.String() != want {
		t.Errorf("stdout = %q, want %q", out.String(), want)
	}
	l := progress.NewLive(a.stderr, a.mask, false, func() (int, int) { return 80, 24 }, a.handlePanic)
	l.Notify(progress.Notice{Event: progress.EventNote, Text: "a note of " + key})
	l.Notify(progress.Notice{Event: progress.EventStarted, Node: "a#1", Text: "text of " + key})
	l.Close()
	a.addSecret(source.InlineSecret{Ref: "c.token", Value: inline})
	a.addSecret(source.InlineSecret{Ref: "c.key", Value: "/home/somebody/key.pem", File: true})
	a.say("the document says %s, see /home/somebody/key.pem", inline)
	if got := errs.String(); strings.Contains(got, "canary") || strings.Count(got, "[secret]") != 3 || !strings.Contains(got, "key.pem") {
		t.Errorf("stderr = %q", got)
	}
	if len(a.secrets) != 2 {
		t.Errorf("%d inline secrets, want 2", len(a.secrets))
	}
}

// TestOutputMasked checks that a command that reads the settings masks its standard output.
func TestOutputMasked(t *testing.T) {
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
		if all := out.String() + errs.String(); strings.Contains(all, key) || !strings.Contains(out.String(), "[secret].json") {
			t.Errorf("%q: output = %q", args, all)
		}
	}
}

// TestResultsMasked checks that a masked result remains valid JSON, that a result without secrets is not
// changed, and that the id of a detached run is never masked.
func TestResultsMasked(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"z":1.0, "pin":1, "a":"<é>"}`, `{"z":1.0, "pin":1, "a":"<é>"}` + "\n"},
		{`{"pin":8412997310,"a":"it is postgres"}`, `{"a":"it is [secret]","pin":"[secret]"}` + "\n"},
		{"a text of postgres\n", "a text of [secret]\n"},
		{"", "\n"},
	} {
		for _, text := range []*string{nil, &c.in} {
			var out strings.Builder
			a := &app{mask: mask.New("8412997310", "postgres")}
			a.stdout = &checked{Writer: &out, mask: a.mask}
			a.printResult(text, []byte(c.in))
			if out.String() != c.want {
				t.Errorf("printResult(%q) prints %q, want %q", c.in, out.String(), c.want)
			}
		}
	}
	for _, output := range []string{"", outputJSON, outputLines} {
		var out, errs strings.Builder
		a := &app{stderr: &errs, mask: mask.New("postgres")}
		a.stdout, a.flags.output = &checked{Writer: &out, mask: a.mask}, output
		a.detached("postgres-x1")
		if !strings.Contains(out.String(), "postgres-x1") {
			t.Errorf("-output %q: stdout = %q, want the id in it", output, out.String())
		}
	}
}
