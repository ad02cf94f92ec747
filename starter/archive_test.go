package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
)

// recorded reads a history that the replay tests use, too.
func recorded(t *testing.T, name string) *history {
	t.Helper()
	raw, err := os.ReadFile("../tests/testdata/history/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var h historypb.History
	if err := (temporalproto.CustomJSONUnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &h); err != nil {
		t.Fatal(err)
	}
	return &history{t: t, events: h.GetEvents()}
}

// archiveOf reads the archive of a recorded run. Runs of children are told apart by the last
// part of their ids.
func archiveOf(t *testing.T, root string, children ...string) *archive {
	t.Helper()
	c := &mocks.Client{}
	serve := func(name string, h *history) {
		c.On("GetWorkflowHistory", mock.Anything, mock.MatchedBy(func(id string) bool {
			_, place, _ := strings.Cut(id, "/")
			return strings.ReplaceAll(place, ":", "_") == name
		}), mock.Anything, false, mock.Anything).Return(newEvents(h, nil))
	}
	serve("", recorded(t, root))
	for _, child := range children {
		serve(child, recorded(t, root+"@"+child))
	}
	c.On("GetWorkflowHistory", mock.Anything, mock.Anything, mock.Anything, false, mock.Anything).Return(newEvents(&history{t: t}, serviceerror.NewNotFound("gone")))
	a, err := readArchive(context.Background(), c, "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTranscriptsComeFromHistoriesAlone(t *testing.T) {
	tests := map[string]struct {
		root     string
		children []string
		want     string
		gone     int
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
		"sub-agents stand behind their place": {root: "sub-agent", children: []string{"a#1_call_1", "a#1_call_2"}, want: `== input
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
		"branches, and a child that is gone": {root: "fork-plain-join", children: []string{"a#1"}, gone: 1, want: `== input
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
			a := archiveOf(t, tc.root, tc.children...)
			var out bytes.Buffer
			(&app{stdout: &out}).show(a.transcripts())
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			if len(a.gone) != tc.gone {
				t.Errorf("gone are %q, want %d", a.gone, tc.gone)
			}
		})
	}
}

func TestStatusFromHistory(t *testing.T) {
	got := archiveOf(t, "fork-plain-join", "a#1", "b#1").status()
	want := &contract.Status{Flow: &contract.FlowLabel{Name: "fork"}, Model: "script", Usage: contract.Usage{Calls: 3},
		Executions: []contract.Execution{{Node: "a", Step: 1}, {Node: "b", Step: 1}, {Node: "j", Step: 2}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	// A run that failed has no result to count in.
	got = archiveOf(t, "no-exit").status()
	if got.Usage.Calls != 3 || got.Model != "script" || len(got.Executions) != 1 {
		t.Errorf("status is %+v", got)
	}
}

// A run that continued as new begins in the runs before it, and one of those may be gone.
func TestTranscriptsGoThroughContinuations(t *testing.T) {
	begin := func(h *history, before string, in contract.RunInput) {
		h.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
				WorkflowType: &commonpb.WorkflowType{Name: contract.WorkflowFlow}, ContinuedExecutionRunId: before, Input: h.payload(in)}}
		})
	}
	input := (&history{t: t}).message(contract.Message{Role: contract.RoleUser, Text: "go"})
	asked := (&history{t: t}).message(contract.Message{Role: contract.RoleUser, Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: contract.SHA(input)}}, {Text: "!"}}})
	first, second := &history{t: t}, &history{t: t}
	begin(first, "", contract.RunInput{V: 1, Input: "go"})
	first.call("n#1/model/1", contract.ActivityModel, contract.ModelInput{Base: contract.Head{Thread: "n#1"}, Tail: []contract.TailEntry{{SHA: contract.SHA(asked), Message: asked}}}, answer(t, "one"))
	first.continuedAsNew("r2")
	begin(second, "r1", contract.RunInput{V: 1, Carry: &contract.Carry{Content: []json.RawMessage{input}}})
	more := second.message(contract.Message{Role: contract.RoleTool, Name: "f", Text: "more"})
	second.call("n#1/model/2", contract.ActivityModel, contract.ModelInput{Base: contract.Head{Thread: "n#1", Len: 2}, Tail: []contract.TailEntry{{SHA: contract.SHA(more), Message: more}}}, answer(t, "two"))
	tests := map[string]struct {
		first *fakeEvents
		want  string
		gone  int
	}{
		"both runs are there": {first: newEvents(first, nil), want: "== input\nuser\n  go\n\n== n#1\nuser\n  go!\nassistant\n  one\ntool f\n  more\nassistant\n  two\n"},
		"the first is gone": {first: newEvents(&history{t: t}, serviceerror.NewNotFound("gone")), gone: 1,
			want: "== n#1\n" + strings.Repeat("?\n  (a message that is not in the history, or that cannot be read here)\n", 2) + "tool f\n  more\nassistant\n  two\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("GetWorkflowHistory", mock.Anything, "root", "r1", false, mock.Anything).Return(tc.first)
			c.On("GetWorkflowHistory", mock.Anything, "root", "r2", false, mock.Anything).Return(newEvents(second, nil))
			a, err := readArchive(context.Background(), c, "root", "r2")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			(&app{stdout: &out}).show(a.transcripts())
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			if len(a.gone) != tc.gone {
				t.Errorf("gone are %q, want %d", a.gone, tc.gone)
			}
		})
	}
}

// message encodes a message as history has it.
func (h *history) message(m contract.Message) json.RawMessage {
	h.t.Helper()
	raw, err := m.Encode()
	if err != nil {
		h.t.Fatal(err)
	}
	return raw
}

// What a history claims is not believed without bounds, and what it lacks is said.
func TestArchiveOfStrangeHistories(t *testing.T) {
	h := &history{t: t}
	h.call("n#1/model/1", contract.ActivityModel, contract.ModelInput{Base: contract.Head{Thread: "n#1", Len: 1 << 40}}, answer(t, "lost"))
	h.call("n#1/model/2", contract.ActivityModel, contract.ModelInput{Base: contract.Head{Thread: "n#1", Len: 1}, Tail: []contract.TailEntry{{SHA: "nowhere"}}}, answer(t, "x\x1b[2J\r\u202ey"))
	h.call("n#1/tool/2.1", contract.ActivityTool, contract.ToolInput{}, toolMessage(t, "late", false))
	out := shownOf(t, h)
	want := `== n#1
?
  (a message that is not in the history, or that cannot be read here)
?
  (a message that is not in the history, or that cannot be read here)
assistant
  x[2Jy
tool
  late
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

// FuzzSpoken shows messages that anybody may have written: nothing of them reaches the
// terminal's controls, and no line of theirs can pass for one of ours.
func FuzzSpoken(f *testing.F) {
	f.Add("assistant", "name", "x\x1b[2J\ny", "call", "{\n}")
	f.Add("user\n== fake", "", "\u202e\xff", "a\nb", "\r\x9b")
	f.Fuzz(func(t *testing.T, role, name, text, call, arguments string) {
		got := spoken(&contract.Message{Role: role, Name: name, Text: text, Calls: []contract.ToolCall{{Name: call, Arguments: arguments}}})
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
