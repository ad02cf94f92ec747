package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/worker/rehearse"
	"weft/workflows/plan"
)

// storedHistories are recorded histories by workflow and run, and the keys of those of root runs by name.
type storedHistories struct {
	events map[[2]string][]*historypb.HistoryEvent
	roots  map[string][2]string
}

func readHistories(t *testing.T) storedHistories {
	t.Helper()
	files, err := filepath.Glob("../../tests/testdata/history/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	k := storedHistories{map[[2]string][]*historypb.HistoryEvent{}, map[string][2]string{}}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h, err := client.HistoryFromJSON(bytes.NewReader(raw), client.HistoryJSONOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first := h.Events[0].GetWorkflowExecutionStartedEventAttributes()
		key := [2]string{first.GetWorkflowId(), first.GetOriginalExecutionRunId()}
		k.events[key] = h.Events
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); !strings.Contains(name, "@") && first.WorkflowType.GetName() == contract.WorkflowFlow {
			k.roots[name] = key
		}
	}
	return k
}

func (k storedHistories) history(_ context.Context, id, run string) ([]*historypb.HistoryEvent, error) {
	if all := k.events[[2]string{id, run}]; all != nil {
		return all, nil
	}
	return nil, serviceerror.NewNotFound("no such history")
}

// record makes a recording of a stored history.
func (k storedHistories) record(t *testing.T, name string) ([]byte, error) {
	t.Helper()
	key := k.roots[name]
	raw, warnings, err := Record(t.Context(), k.history, key[0], key[1], nil)
	if len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
	return raw, err
}

// TestRecordingsPlay records every stored run and replays the recording.
func TestRecordingsPlay(t *testing.T) {
	k := readHistories(t)
	for name := range k.roots {
		t.Run(name, func(t *testing.T) {
			raw, err := k.record(t, name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := rehearse.Read(name+".yaml", raw)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := rehearse.Play(r)
			if err != nil {
				t.Fatal(err)
			}
			if !rep.OK {
				out, _ := json.MarshalIndent(rep, "", " ")
				t.Errorf("%s\n%.6000s", out, raw)
			}
		})
	}
}

// TestRecordingsDiffer makes one change to a recording at a time and checks that it is found, with its position.
func TestRecordingsDiffer(t *testing.T) {
	k := readHistories(t)
	for name, tc := range map[string]struct {
		run, old, new string
		// what, call and line are the expected difference, its call and its line in the file.
		what, call, line string
	}{
		"judge answer that takes another edge": {"loop", "yes: false", "yes: true", "a call that was not recorded", "", ""},
		"last model answer":                    {"agent-condense", "say: done", "say: other", "the result's text", "", "status: "},
		"message of a node":                    {"example-agentspec-guess", "- It is not Bergen.", "- It is Bergen.", "the message of a node", "", "status: "},
		"failure of the run":                   {"step-limit", "class: ", "class: not_", "the failure", "", "status: "},
		"call that is not made":                {"fork-plain-join", "  calls:\n", "  calls:\n    - {at: \"z#9/model/1\", kind: CallModel}\n", "the call was not made", "z#9/model/1", "z#9"},
		"question of a judge":                  {"loop", "question: again?", "question: more?", "the question", "", "at: "},
		"prompt of a session":                  {"session", "prompt: go on", "prompt: go home", "the message to the model", "boss#1~3/model/1", "at: boss#1~3"},
		"image of a session's prompt": {"session", "prompt: go on\n", "prompt: go on\n          images: [{media_type: image/gif, data: R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=}]\n",
			"the message to the model", "boss#1~3/model/1", "at: boss#1~3"},
		"missing prompt":            {"session", "    - prompts:\n        - id: a\n          prompt: go on\n", "", "the run does not continue", "", "ended:"},
		"answer of a session":       {"session", "say: called back", "say: called off", "the result of turn 2", "", "n: 2"},
		"answer of a child session": {"session", "kind: agent\n    say: help", "kind: agent\n    say: no help", "the result of turn 1 of the session boss#1:call_1", "", "session: boss#1:call_1"},
		"answer in the last turn":   {"session", "say: second", "say: third", "the result of turn 3", "", "n: 3"},
		"unrecorded turn":           {"session", "      - n: 3\n        status: completed\n        result_text: second\n", "", "a turn that was not recorded", "", "n: 2"},
		"missing turn": {"session", "        status: completed\n        result_text: second\n",
			"        status: completed\n        result_text: second\n      - {n: 4, status: completed}\n", "a missing turn", "", "n: 4"},
		"turn of a cancelled session":         {"session-cancelled", "say: second", "say: other", "the result of turn 2", "", "n: 2"},
		"turn without an Update":              {"session-cancelled", "say: first", "say: other", "the result of turn 1", "", "n: 1"},
		"turn of a terminated session":        {"session-terminated", "say: second", "say: other", "the result of turn 2", "", "n: 2"},
		"missing turn of a cancelled session": {"session-cancelled", "n: 2\n", "n: 7\n", "a missing turn", "", "n: 7"},
		"failure of another class":            {"failover", "class: unavailable", "class: timeout", "the models that failed", "ask#1/model/1", "at: ask"},
		"another first model":                 {"failover", "model: first/m\n    fail:", "model: third/m\n    fail:", "the models that failed", "ask#1/model/1", "at: ask"},
		"another model list":                  {"failover", "model: first/m, second/n", "model: second/n", "the models that failed", "ask#1/model/1", "at: ask"},
		"shorter model list":                  {"failover", "model: first/m, second/n", "model: first/m", "the model did not answer", "ask#1/model/1", "at: ask"},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := k.record(t, tc.run)
			if err != nil {
				t.Fatal(err)
			}
			raw := string(file)
			changed := strings.Replace(raw, tc.old, tc.new, 1)
			if changed == raw {
				t.Fatalf("no %q in\n%s", tc.old, raw)
			}
			r, err := rehearse.Read("x.yaml", []byte(changed))
			if err != nil {
				t.Fatal(err)
			}
			rep, err := rehearse.Play(r)
			if err != nil {
				t.Fatal(err)
			}
			if rep.OK || rep.First.What != tc.what || tc.call != "" && rep.First.Call != tc.call {
				t.Fatalf("%+v, %+v", rep, rep.First)
			}
			if line := strings.Split(changed, "\n")[rep.First.Line-1]; !strings.Contains(line, tc.line) {
				t.Errorf("line %d is %q", rep.First.Line, line)
			}
		})
	}
}

// TestRecordingsKeepArguments checks that the script of a recording has the exact text of a call's arguments.
func TestRecordingsKeepArguments(t *testing.T) {
	args := []string{`{}`, `{"q":"hi"}`, `{"q": "hi"}`, "{\n \"q\": [1, 2]\n}", ` {"q":"hi"} `, `{"q":"\u003cb\u003e \u00e9\/"}`, `{"q":"<b>&é\u2028"}`, `{"q":1,"q":2}`, `{"n":1.0,"e":1E5,"b":12345678901234567890,"z":-0}`,
		`{"b":{"y":null,"x":true},"a":"yes","<<":"~","":[]}`, `{"q":"\ud800"}`, `[1]`, `"x"`, ``, `{"q": oops`, `{"q":1},"id":"x"`}
	r := newRecorder("run")
	r.rec.Run.Flow.Plan = &plan.Flow{}
	m := contract.Message{Role: contract.RoleAssistant}
	for _, a := range args {
		m.Calls = append(m.Calls, contract.ToolCall{ID: "c", Name: "t", Arguments: a})
	}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r.modelAnswer("a#1/model/1", &contract.ModelResult{Message: raw})
	file, err := r.done()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := rehearse.Read("r.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Rules []llm.Rule }
	if err := json.Unmarshal(rec.Script, &s); err != nil || len(s.Rules) != 1 || len(s.Rules[0].Call) != len(args) {
		t.Fatalf("%v: %s", err, rec.Script)
	}
	for i, c := range s.Rules[0].Call {
		got := string(c.Arguments)
		if c.Raw != nil {
			got = *c.Raw
		}
		if got != args[i] {
			t.Errorf("%q became %q", args[i], got)
		}
		if plain := i == 1; plain && c.Raw != nil {
			t.Errorf("%q is stored as text where an object is equivalent", args[i])
		}
	}
}

// TestRecordingsHoldNoSecrets checks that configured secrets are masked in a recording, which stays readable.
func TestRecordingsHoldNoSecrets(t *testing.T) {
	r := newRecorder("postgres-run")
	r.rec.Calls = []rehearse.Call{{At: "a#1", Kind: "tool"}}
	r.rec.Run.Input = "postgres"
	if got, err := r.masked(); err != nil || got != &r.rec {
		t.Errorf("masked() without a mask returned another recording: %v", err)
	}
	r.mask = mask.New("postgres")
	got, err := r.masked()
	if err != nil {
		t.Fatal(err)
	}
	if got.Run.Input != "[secret]" || got.ID != "postgres-run" || len(got.Calls) != 1 {
		t.Errorf("recording = %+v", got)
	}
}
