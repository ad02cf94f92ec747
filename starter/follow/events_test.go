package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/history/historytest"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/worker/config"
)

// rateLimited is a failed attempt as Temporal records it.
var rateLimited = &failurepb.Failure{Message: "slow down", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
	ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: contract.ClassRateLimited}}}

// target is a run whose Temporal client answers no query, unless c does.
func target(id, runID string, c *mocks.Client) *runs.Run {
	if c == nil {
		c = &mocks.Client{}
		c.On("QueryWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil, errors.New("no answer"))
	}
	return &runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}, Starter: "starter "}, ID: id, RunID: runID}
}

// lines reports each event as a line.
type lines struct{ out io.Writer }

func (l lines) Notify(n progress.Notice) {
	if n.Untimed {
		fmt.Fprintln(l.out, n.Text)
		return
	}
	fmt.Fprintf(l.out, "%7.1fs  %-24s  %s\n", n.Seconds, n.Node, n.Text)
}

func (lines) Close() {}

// objects reports each event as a JSON object.
type objects struct{ out io.Writer }

func (o objects) Notify(n progress.Notice) {
	e := json.NewEncoder(o.out)
	e.SetEscapeHTML(false)
	_ = e.Encode(n)
}

func (objects) ReadsText() bool { return true }

func (objects) Close() {}

func TestEventsBecomeLines(t *testing.T) {
	tests := map[string]struct {
		build func(h *historytest.History)
		want  string
	}{
		"default model of the worker": {
			build: func(h *historytest.History) {
				h.Call("prepare", contract.ActivityCompileFlow, contract.CompileFlowInput{}, contract.CompileFlowResult{Model: "acme/m", Warnings: []string{"x.json:1:2: warning: odd"}})
			},
			want: "model: acme/m\n    0.2s                            x.json:1:2: warning: odd\n",
		},
		"scripted answers": {
			build: func(h *historytest.History) {
				h.Call("prepare", contract.ActivityCompileFlow, contract.CompileFlowInput{}, contract.CompileFlowResult{Model: "script"})
			},
			want: "model: script (scripted answers, no model is called)\n",
		},
		"a node with a tool": {
			build: func(h *historytest.History) {
				h.Call("find#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(h.T, "", "search", "set_state"))
				h.Call("find#1/tool/1.1", contract.ActivityCallTool, contract.ToolInput{As: "search", Arguments: json.RawMessage(`{"q":"go"}`)}, historytest.ToolMessage(h.T, "12345", false))
				h.Call("find#1/tool/1.2", contract.ActivityCallTool, contract.ToolInput{As: "fetch", Arguments: json.RawMessage(`{}`)}, historytest.ToolMessage(h.T, "no such page", true))
				h.Call("find#1/model/2", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(h.T, "Found it."))
			},
			want: `    0.0s  find#1                    started
    0.2s  find#1                    model call 1: calls search, set_state (12+3 tokens, 0.2 s)
    0.5s  find#1                    tool search {"q":"go"}: 5 characters, 0.2 s
    0.8s  find#1                    tool fetch {}: error: no such page
    1.1s  find#1                    model call 2: "Found it." (12+3 tokens, 0.2 s)
    1.1s  find#1                    finished
`,
		},
		"answer without tools after the budget is spent": {
			build: func(h *historytest.History) {
				h.Call("n#1/model/5", contract.ActivityCallModel, contract.ModelInput{NoTools: true}, historytest.Answer(h.T, "enough", "search"))
			},
			want: `    0.0s  n#1                       started
    0.2s  n#1                       model call 5: "enough" (12+3 tokens, 0.2 s)
    0.2s  n#1                       finished
`,
		},
		"fallback to another model": {
			build: func(h *historytest.History) {
				r := historytest.Answer(h.T, "fine")
				r.Fallbacks = []contract.Fallback{{Model: "acme/first", Class: contract.ClassRateLimited, Text: "slow\ndown"}}
				h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, r)
				h.Call("n#1/judge/1", contract.ActivityEvaluateCondition, contract.JudgeInput{Question: "Done?"}, contract.JudgeResult{Model: "acme/m", Fallbacks: r.Fallbacks})
			},
			want: `    0.0s  n#1                       started
    0.2s  n#1                       model call 1: switched from acme/first to acme/m: rate_limited: slow down
    0.2s  n#1                       model call 1: "fine" (12+3 tokens, 0.2 s)
    0.2s  n#1                       finished
    0.5s  n#1                       judge: switched from acme/first to acme/m: rate_limited: slow down
    0.5s  n#1                       judge "Done?": no
`,
		},
		"invalid JSON does not finish a node": {
			build: func(h *historytest.History) {
				r := historytest.Answer(h.T, "{}")
				r.Checked = &contract.Checked{Errors: []contract.FieldError{{Path: "$", Message: "'title' is a required property"}}}
				h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, r)
			},
			want: `    0.0s  n#1                       started
    0.2s  n#1                       model call 1: invalid JSON: $: 'title' is a required property (12+3 tokens, 0.2 s)
`,
		},
		"attempts and failures": {
			build: func(h *historytest.History) {
				s := h.Scheduled("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{})
				h.Started(s, 3, rateLimited)
				h.Add(enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, &historypb.ActivityTaskFailedEventAttributes{ScheduledEventId: s, Failure: rateLimited})
			},
			want: `    0.0s  n#1                       started
    0.1s  n#1                       model call 1: attempt 3, after rate_limited: slow down
    0.2s  n#1                       model call 1: failed: rate_limited: slow down
`,
		},
		"judge calls, one at the entry": {
			build: func(h *historytest.History) {
				h.Call("START/judge/1", contract.ActivityEvaluateCondition, contract.JudgeInput{Question: "Is it long?"}, contract.JudgeResult{Yes: true, Reason: "900 words", Model: "script"})
				h.Call("n#1/judge/1", contract.ActivityEvaluateCondition, contract.JudgeInput{Question: "Done?"}, contract.JudgeResult{Model: "acme/m"})
			},
			want: `    0.2s  START                     judge "Is it long?": yes (900 words), scripted
    0.5s  n#1                       judge "Done?": no
`,
		},
		"nodes that finish with a tool": {
			build: func(h *historytest.History) {
				h.Call("a#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(h.T, "", "finish"))
				h.Call("b#2/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(h.T, "", "finish"))
				h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, nil)
			},
			want: `    0.0s  a#1                       started
    0.2s  a#1                       model call 1: calls finish (12+3 tokens, 0.2 s)
    0.3s  a#1                       finished
    0.3s  b#2                       started
    0.5s  b#2                       model call 1: calls finish (12+3 tokens, 0.2 s)
    0.6s  b#2                       finished
`,
		},
		"control characters in ids and texts": {
			build: func(h *historytest.History) {
				h.Call("a%2Fb#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(h.T, "x\x1b[2J\r\n\u202ey"))
			},
			want: `    0.0s  a/b#1                     started
    0.2s  a/b#1                     model call 1: "x[2J y" (12+3 tokens, 0.2 s)
    0.2s  a/b#1                     finished
`,
		},
		"unreadable payloads": {
			build: func(h *historytest.History) {
				s := h.Scheduled("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{})
				h.Add(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, &historypb.ActivityTaskCompletedEventAttributes{
					ScheduledEventId: s, Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}}}}})
			},
			want: `    0.0s  n#1                       started
    0.1s  n#1                       model call 1: done
`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := historytest.New(t)
			tc.build(h)
			var out bytes.Buffer
			f := New(target("root", "r", nil), lines{&out})
			track := newTrack("root", "r", "")
			for _, e := range history.Events(history.Run{Workflow: &history.Workflow{}}, h.Events) {
				f.event(track, &e)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventsBecomeObjects(t *testing.T) {
	h := historytest.New(t)
	h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "<hi>"))
	var out bytes.Buffer
	f := New(target("root", "r", nil), objects{&out})
	track := newTrack("root", "r", "")
	for _, e := range history.Events(history.Run{Workflow: &history.Workflow{}}, h.Events) {
		f.event(track, &e)
	}
	f.Once("x", "nobody is there")
	var got []progress.Notice
	for _, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		var n progress.Notice
		if err := json.Unmarshal(line, &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if n.Event == progress.EventNote {
			n.Time, n.Seconds = h.Start, 0
		}
		got = append(got, n)
	}
	want := []progress.Notice{
		{Event: progress.EventStarted, Time: h.Start, Node: "n#1", Text: "started"},
		{Event: progress.EventModel, Time: h.Start.Add(200 * time.Millisecond), Seconds: 0.2, Node: "n#1", Call: "model call 1", Model: "acme/m",
			Usage: &contract.Usage{Calls: 1, Input: 12, Output: 3}, Text: `model call 1: "<hi>" (12+3 tokens, 0.2 s)`},
		{Event: progress.EventFinished, Time: h.Start.Add(200 * time.Millisecond), Seconds: 0.2, Node: "n#1", Text: "finished"},
		{Event: progress.EventNote, Time: h.Start, Text: "nobody is there"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestMessageEvents checks the message events of recorded messages: a repeated text is another message, and what a
// nested flow has already recorded is not reported again.
func TestMessageEvents(t *testing.T) {
	h := historytest.New(t)
	result, entry := contract.Message{Role: contract.RoleTool, Text: "result", CallID: "call_1"}, contract.Message{Role: contract.RoleTool, Text: "entry", Aside: true}
	known := map[string]bool{}
	record := func(r contract.ThreadRecord, messages ...contract.Message) {
		for _, m := range messages {
			raw := h.Message(m)
			e := contract.TailEntry{SHA: contract.SHA(raw), Message: raw}
			if known[e.SHA] {
				e.Message = nil
			}
			known[e.SHA] = true
			r.Messages = append(r.Messages, e)
		}
		h.Add(enumspb.EVENT_TYPE_MARKER_RECORDED, &historypb.MarkerRecordedEventAttributes{Details: map[string]*commonpb.Payloads{"data": h.Payload(r)}})
	}
	record(contract.ThreadRecord{Thread: "conversation", Execution: "f%2Fm#5~2"}, result, contract.Message{Role: contract.RoleAssistant, Text: "hello"}, entry)
	record(contract.ThreadRecord{Thread: "each#5:2/conversation", Execution: "t#2", From: 3, Inherited: 3}, result, entry)
	record(contract.ThreadRecord{Thread: "conversation", Execution: "each#5", From: 3, Below: true}, result, entry)
	record(contract.ThreadRecord{Thread: "conversation", Execution: "m#6", From: 5}, contract.Message{Role: contract.RoleAssistant, Text: "hello"})
	var out bytes.Buffer
	f, track := New(target("root", "r", nil), objects{&out}), newTrack("root", "r", "")
	for _, e := range history.Events(history.Run{Workflow: &history.Workflow{}}, h.Events) {
		f.event(track, &e)
	}
	var got []string
	for line := range bytes.Lines(out.Bytes()) {
		var n progress.Notice
		if err := json.Unmarshal(line, &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if n.Event == progress.EventMessage {
			got = append(got, n.Node+" "+n.Text)
		}
	}
	if diff := cmp.Diff([]string{"f/m#5~2 tool: result", "f/m#5~2 assistant: hello", "f/m#5~2 tool: entry", "each#5 › t#2 tool: result", "each#5 › t#2 tool: entry", "m#6 assistant: hello"}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
