package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/starter/author"
	"weft/tests/programs"
)

const authoredFlow = `{"id": "f", "name": "Authored", "description": "", "nodes": [
 {"id": "first", "name": "First", "prompt": "Begin.", "tools": []}, {"id": "second", "name": "Second", "prompt": "Go on.", "tools": []},
 {"id": "last", "name": "Last", "prompt": "End.", "tools": [], "is_exit_node": true}],
 "edges": [{"id": "a", "source": "START", "target": "first"}, {"id": "b", "source": "first", "target": "second"},
 {"id": "c", "source": "second", "target": "last"}, {"id": "d", "source": "last", "target": "END"}]}`

const authoredScript = "rules:\n- {node: first, say: one}\n- {node: second, say: two}\n- {say: three}\n"

// TestEndToEndDev checks that starter dev runs a flow again after a save, from the first node that the change affects.
func TestEndToEndDev(t *testing.T) {
	t.Parallel()
	address := devserver(t, programs.Path(t, "WEFT_DEVSERVER"))
	dir := t.TempDir()
	flow, script := filepath.Join(dir, "sub", "flow.json"), filepath.Join(dir, "sub", "flow.script")
	save := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		// Rename, because the server could read a partly written file.
		if err := errors.Join(os.WriteFile(file+"~", []byte(text), 0o600), os.Rename(file+"~", file)); err != nil {
			t.Fatal(err)
		}
	}
	save(flow, authoredFlow)
	save(script, authoredScript)
	env := mapEnv{"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": dir + "/none", "WEFT_MODEL": "script", "HOME": t.TempDir()}
	url := startServe(t, env, "dev", dir, "-listen", "127.0.0.1:0")
	got, err := http.Get(url + "/dev/events")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	saves := make(chan author.Save, 100)
	go func() {
		for lines := bufio.NewScanner(got.Body); lines.Scan(); {
			var s author.Save
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &s) == nil {
				saves <- s
			}
		}
	}()
	next := func() author.Save {
		t.Helper()
		select {
		case s := <-saves:
			return s
		case <-time.After(3 * time.Minute):
			t.Fatal("no event for the save")
			return author.Save{}
		}
	}
	result := func(id string) string {
		t.Helper()
		got, err := http.Get(url + "/runs/" + id + "?wait=30s")
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		var run struct {
			Result struct {
				Text string `json:"result_text"`
			}
			Usage struct{ Calls int }
		}
		if err := json.NewDecoder(got.Body).Decode(&run); err != nil {
			t.Fatal(err)
		}
		return run.Result.Text
	}
	save(flow, strings.Replace(authoredFlow, "End.", "End!", 1))
	if s := next(); s.Run != "" || !strings.Contains(s.Note, "no run yet") {
		t.Errorf("event of a save before the first run = %+v", s)
	}
	body, err := json.Marshal(map[string]any{"id": "one", "flow": map[string]string{"text": authoredFlow, "name": "flow.json"}, "input": "x", "model": "script", "script": authoredScript})
	if err != nil {
		t.Fatal(err)
	}
	posted, err := http.Post(url+"/runs", "application/json", strings.NewReader(string(body)))
	if err != nil || posted.StatusCode != http.StatusCreated {
		t.Fatalf("start a run: %v, %v", posted, err)
	}
	posted.Body.Close()
	if text := result("one"); text != "three" {
		t.Fatalf("result of the first run = %q", text)
	}
	last := "one"
	for _, tc := range []struct{ name, file, text, from, result string }{
		{"prompt", flow, strings.Replace(authoredFlow, "Go on.", "Go on!", 1), "second#2", "three"},
		{"script rule of one node", script, strings.Replace(authoredScript, "say: two", "say: deux", 1), "second#2", "three"},
		{"script rule of any node", script, strings.Replace(authoredScript, "say: three", "say: end", 1), "first#1", "end"},
		{"edge from START", flow, strings.Replace(authoredFlow, `{"id": "b"`, `{"id": "z", "source": "START", "target": "second"}, {"id": "b"`, 1), "", "end"},
	} {
		save(tc.file, tc.text)
		s := next()
		if s.Run == "" || s.From != tc.from || s.Last != last || s.Flow != "Authored" {
			t.Fatalf("%s: event of the save = %+v", tc.name, s)
		}
		if text := result(s.Run); text != tc.result {
			t.Errorf("%s: result = %q, want %q", tc.name, text, tc.result)
		}
		last = s.Run
	}
	save(flow, strings.Replace(authoredFlow, `"target": "END"`, `"target": "nowhere"`, 1))
	if s := next(); s.Run != "" || !strings.Contains(strings.Join(s.Diagnostics, "\n"), `flow.json:5:`) {
		t.Errorf("event of an invalid flow = %+v", s)
	}
}
