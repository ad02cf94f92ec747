package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/starter/history/historytest"
)

// transcriptOf reads the transcript of a recorded run.
func transcriptOf(t *testing.T, root string, children ...string) *Transcript {
	t.Helper()
	a, err := Read(context.Background(), historytest.RecordedTree(t, "../../tests", root, children...), "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRecordedTranscripts(t *testing.T) {
	tests := map[string]struct {
		root     string
		children []string
		want     string
		missing  int
	}{
		"tools of the interpreter": {root: "agent-tools", want: `== input
user
  (no input was given)

== a#1
user
  (no input was given)
assistant
  → set_state {"key":"k","value":1}
  → get_state {"keys":["k"]}
tool set_state
  ok
tool get_state
  {"k":1}
assistant
  → list_state_keys {}
  → list_state_keys {}
tool list_state_keys
  ["k"]
tool list_state_keys, error
  max_iterations reached
assistant
  spent
`},
		"nodes that send messages and ask": {root: "example-agentspec-guess", want: `== input
user
  (no input was given)

== conversation
assistant
  What is the capital of Norway? You said nothing.
user
  Bergen
assistant
  It is not Bergen.
assistant
  What is the capital of Norway? You said Bergen.
user
  Oslo
`},
		"nodes of a map's elements": {root: "example-agentspec-forecast", want: `== input
user
  {"cities":["Oslo","Oslo"],"days":[1,2]}

== each#2:1 › tool#2
assistant
  → weather {"city":"Oslo","day":1}
tool weather
  {"degrees":22,"sky":"clear"}

== each#2:1 › conversation
tool weather
  {"degrees":22,"sky":"clear"}

== each#2:2 › tool#2
assistant
  → weather {"city":"Oslo","day":2}
tool weather
  {"degrees":23,"sky":"clear"}

== each#2:2 › conversation
tool weather
  {"degrees":23,"sky":"clear"}

== conversation
tool weather
  {"degrees":22,"sky":"clear"}
tool weather
  {"degrees":23,"sky":"clear"}
tool weather
  {"degrees":21,"sky":"clear"}

== once/tool#4
assistant
  → weather {"city":"Oslo","day":0}
tool weather
  {"degrees":21,"sky":"clear"}
`},
		"ToolNode": {root: "example-agentspec-stock", want: `== input
user
  {"article":"green lamp"}

== ask#2
assistant
  → ask {"article":"green lamp"}
tool ask
  {"there": true, "price": 12.5}

== conversation
tool ask
  {"there": true, "price": 12.5}
assistant
  It is there, for 12.5.
`},
		"sub-agents": {root: "sub-agent", children: []string{"a#1_call_1", "a#1_call_2"}, want: `== input
user
  (no input was given)

== a#1
user
  (no input was given)
assistant
  → call_sub_agent {"user_question":"one"}
  → call_sub_agent {"user_question":"two"}
tool call_sub_agent
  done
tool call_sub_agent
  done
assistant
  done

== a#1:call_1 › input
user
  one

== a#1:call_1 › s#1
user
  one
assistant
  done

== a#1:call_2 › input
user
  two

== a#1:call_2 › s#1
user
  two
assistant
  done
`},
		"branches, one of them missing": {root: "children-join", children: []string{"a#1"}, missing: 1, want: `== input
user
  (no input was given)

== a#1
user
  (no input was given)
assistant
  done

== j#2
user
  (no input was given)

  <output node="A">
  done
  </output>

  <output node="B">
  done
  </output>
assistant
  done
`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := transcriptOf(t, tc.root, tc.children...)
			var out bytes.Buffer
			out.WriteString(Text(a.Threads()))
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			if len(a.Missing) != tc.missing {
				t.Errorf("Missing = %q, want %d", a.Missing, tc.missing)
			}
		})
	}
}

func TestStatusFromHistory(t *testing.T) {
	got := transcriptOf(t, "children-join", "a#1", "b#1").Status()
	want := &contract.Status{Flow: &contract.FlowLabel{Name: "fork"}, Model: "script", Usage: contract.Usage{Calls: 3, Declared: 2},
		Executions: []contract.Execution{{Node: "a", Step: 1}, {Node: "b", Step: 1}, {Node: "j", Step: 2}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	// A failed run has no result with usage.
	got = transcriptOf(t, "no-exit").Status()
	if got.Usage.Calls != 3 || got.Model != "script" || len(got.Executions) != 1 {
		t.Errorf("status = %+v", got)
	}
}

// TestContinueAsNew checks the transcript of a run that continued as new, with and without the history of its first run.
func TestContinueAsNew(t *testing.T) {
	input := historytest.New(t).Message(contract.Message{Role: contract.RoleUser, Text: "go"})
	message := historytest.New(t).Message(contract.Message{Role: contract.RoleUser, Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: contract.SHA(input)}}, {Text: "!"}}})
	first, second := historytest.New(t), historytest.New(t)
	first.Begin("", contract.RunInput{V: 1, Input: "go"})
	first.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1"}, Tail: []contract.TailEntry{{SHA: contract.SHA(message), Message: message}}}, historytest.Answer(t, "one"))
	first.ContinuedAsNew("r2")
	second.Begin("r1", contract.RunInput{V: 1, Snapshot: &contract.RunSnapshot{Content: []json.RawMessage{input}}})
	more := second.Message(contract.Message{Role: contract.RoleTool, Name: "f", Text: "more"})
	second.Call("n#1/model/2", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1", Len: 2}, Tail: []contract.TailEntry{{SHA: contract.SHA(more), Message: more}}}, historytest.Answer(t, "two"))
	tests := map[string]struct {
		first   *historytest.History
		want    string
		missing int
	}{
		"both runs": {first: first, want: "== input\nuser\n  go\n\n== n#1\nuser\n  go!\nassistant\n  one\ntool f\n  more\nassistant\n  two\n"},
		"first run missing": {missing: 1,
			want: "== n#1\n" + strings.Repeat("?\n  (a message that is not in the history, or cannot be decoded here)\n", 2) + "tool f\n  more\nassistant\n  two\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a, err := Read(context.Background(), historytest.Source(map[string]*historytest.History{"r1": tc.first, "r2": second}), "root", "r2")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			out.WriteString(Text(a.Threads()))
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			if len(a.Missing) != tc.missing {
				t.Errorf("Missing = %q, want %d", a.Missing, tc.missing)
			}
		})
	}
}

// TestInvalidHistory checks that an invalid thread length is bounded, and that missing messages are marked.
func TestInvalidHistory(t *testing.T) {
	h := historytest.New(t)
	h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1", Len: 1 << 40}}, historytest.Answer(t, "lost"))
	h.Call("n#1/model/2", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1", Len: 1}, Tail: []contract.TailEntry{{SHA: "nowhere"}}}, historytest.Answer(t, "x\x1b[2J\r\u202ey"))
	h.Call("n#1/tool/2.1", contract.ActivityCallTool, contract.ToolInput{}, historytest.ToolMessage(t, "late", false))
	out := render(t, h)
	want := `== n#1
?
  (a message that is not in the history, or cannot be decoded here)
?
  (a message that is not in the history, or cannot be decoded here)
assistant
  x[2Jy
tool
  late
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

// FuzzSpoken checks that the text of an arbitrary message has no control characters, and that each
// line of its content is indented, so that it cannot imitate the transcript's own lines.
func FuzzSpoken(f *testing.F) {
	f.Add("assistant", "name", "x\x1b[2J\ny", "call", "{\n}")
	f.Add("user\n== fake", "", "\u202e\xff", "a\nb", "\r\x9b")
	f.Fuzz(func(t *testing.T, role, name, text, call, arguments string) {
		got := messageText(&contract.Message{Role: role, Name: name, Text: text, Calls: []contract.ToolCall{{Name: call, Arguments: arguments}}})
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		for i, line := range lines {
			if i > 0 && line != "" && !strings.HasPrefix(line, "  ") {
				t.Errorf("line %d of %q is not indented", i, got)
			}
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("%q has the control character %U", got, r)
			}
		}
	})
}

// TestFallbacks checks that a transcript shows the models that failed before another one answered.
func TestFallbacks(t *testing.T) {
	h := historytest.New(t)
	first := historytest.Answer(t, "fine")
	first.Fallbacks = []contract.Fallback{{Model: "acme/first", Class: contract.ClassRateLimited, Text: "slow\ndown\x1b[2J"}}
	h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1"}}, first)
	a, err := Read(context.Background(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]contract.FallbackCount{{From: "acme/first", To: "acme/m", Class: contract.ClassRateLimited, Times: 1}}, a.Usage().Fallbacks); diff != "" {
		t.Errorf("fallbacks (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	out.WriteString(Text(a.Threads()))
	if diff := cmp.Diff("== n#1\n(switched from acme/first to acme/m: rate_limited: slow down[2J)\nassistant\n  fine\n", out.String()); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	raw, err := json.Marshal(a.Threads())
	if err != nil {
		t.Fatal(err)
	}
	if want := `"fallbacks":[{"n":0,"model":"acme/first","class":"rate_limited"`; !strings.Contains(string(raw), want) {
		t.Errorf("threads = %s, want %s in it", raw, want)
	}
}
