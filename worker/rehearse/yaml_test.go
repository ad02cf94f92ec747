package rehearse

import (
	"bytes"
	"encoding/json"
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestRecordingRoundTrip checks that texts that YAML could interpret in another way are written and read unchanged.
func TestRecordingRoundTrip(t *testing.T) {
	for _, text := range []string{"", " ", "yes", "null", "1.0", "~", "a: b", "- x", "# no comment", "two\nlines\n", "  indented\n\tand a tab", "trailing  \n\n",
		"\u00e9\u2028\U0001F600", "\x01control\x7f", "'single' \"double\"", "{a", "*alias", "&anchor", "!tag", "%d", "2024-01-01", "\r\n", "=", "<<"} {
		want := Recording{Version: Version, ID: "run", Run: contract.RunInput{Input: text, Flow: contract.FlowRef{Plan: &plan.Flow{Name: text}}},
			Calls: []Call{{At: "a#1/tool/1.1", Kind: contract.ActivityCallTool, Arguments: json.RawMessage(`{"n":1.0,"big":12345678901234567890,"e":1e3}`), Result: &text}}}
		rules, err := json.Marshal([]map[string]string{{"at": "a#1/model/1", "say": text}})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := want.Write(&b, rules); err != nil {
			t.Fatal(err)
		}
		got, err := Read("r.yaml", b.Bytes())
		if err != nil {
			t.Errorf("%q: %v\n%s", text, err, b.String())
			continue
		}
		if got.Run.Input != text || *got.Calls[0].Result != text || got.Run.Flow.Plan.Name != text || string(got.Calls[0].Arguments) != string(want.Calls[0].Arguments) {
			t.Errorf("%q became %q, %q, %s", text, got.Run.Input, *got.Calls[0].Result, got.Calls[0].Arguments)
		}
		if !EqualJSON(got.Script, json.RawMessage(`{"rules":`+string(rules)+`}`)) {
			t.Errorf("%q: script %s", text, got.Script)
		}
	}
}

// TestReadRejectsDuplicateKey checks that a duplicate key is an error with its location.
func TestReadRejectsDuplicateKey(t *testing.T) {
	_, err := Read("r.yaml", []byte("rules: [{say: a}]\nrecorded:\n  version: 1\n  id: x\n  calls: [{at: a, kind: b}, {at: c, kind: d}]\n  calls: []\n"))
	if want := `r.yaml:6:3: duplicate key "calls", first used at line 5`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// FuzzRead checks that Read returns a recording or an error for any input.
func FuzzRead(f *testing.F) {
	f.Add([]byte("rules: [{say: a}]\nrecorded: {version: 1, id: x, run: {flow: {plan: {}}}}"))
	f.Add([]byte("recorded: &a [*a]\ndefault: {say: x}"))
	f.Add([]byte("recorded: {? [x] : y}\ndefault: {say: x}"))
	f.Add([]byte("rules: [{say: a}]\nrecorded: {version: 1, id: x, run: {flow: {plan: {}}}, calls: [{at: a, kind: b}, {at: c, kind: d}], CALLS: []}"))
	f.Add([]byte("rules: [{say: a}]\nrecorded: {version: 1, id: x, run: {flow: {plan: {}}}, expect: {status: x, turns: [{n: 1, status: x}], Turns: []}}"))
	f.Add([]byte("rules: [{say: a}]\nrecorded: {version: 1, id: x, run: {flow: {plan: {}}}, inbox: [{turns: [{n: 1, status: x}], Turns: []}, {}], Inbox: [{}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read("f", data)
		if (r == nil) == (err == nil) && err == nil {
			t.Error("neither a recording nor an error")
		}
	})
}

func TestParseExecution(t *testing.T) {
	for at, want := range map[string]struct {
		node string
		step int
	}{
		"a#1/model/1":                {"a", 1},
		"b#1/a#2~2/tool/1.1":         {"a", 2},
		"a#1:call_1/s%2Ft#3/judge/1": {"s/t", 3},
		"prepare":                    {"", 0},
	} {
		if node, step := ParseExecution(at); node != want.node || step != want.step {
			t.Errorf("%s: %s, %d", at, node, step)
		}
	}
}
