package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"

	"weft/activities/contract"
	"weft/starter/history/historytest"
)

// What a run makes of its parameters is its input, also where the model call only refers to it. A
// run whose nodes are given its parameters by name has them as its input.
func TestTranscriptShowsWhatParametersMake(t *testing.T) {
	long := "<inputs>\ntopic: " + strings.Repeat("tea ", 1000) + "\n</inputs>\n\nGo"
	params := json.RawMessage(`{"topic":"tea","prompt":"Go"}`)
	tests := map[string]struct {
		in       contract.RunInput
		prepared []string
		want     string
	}{
		"parameters":        {contract.RunInput{Params: params}, []string{"<inputs>\ntopic: tea\n</inputs>\n\nGo"}, "<inputs>\ntopic: tea\n</inputs>\n\nGo"},
		"many":              {contract.RunInput{Params: params}, []string{long}, long},
		"a hook's":          {contract.RunInput{Params: params}, []string{"first", "second"}, "second"},
		"a prompt alone":    {contract.RunInput{Input: "Go"}, []string{"Go"}, "Go"},
		"no prompt":         {contract.RunInput{}, []string{""}, "(no input was given)"},
		"nothing":           {contract.RunInput{}, nil, "(no input was given)"},
		"null":              {contract.RunInput{Params: json.RawMessage("null")}, nil, "(no input was given)"},
		"values by name":    {contract.RunInput{Params: params}, nil, `{"topic":"tea","prompt":"Go"}`},
		"values, no text":   {contract.RunInput{Params: json.RawMessage(`{"q":"\u003chi\u003e"}`)}, []string{""}, `{"q":"<hi>"}`},
		"a typed value":     {contract.RunInput{Value: json.RawMessage("7")}, nil, "7"},
		"a text and values": {contract.RunInput{Params: params, Input: "Go"}, nil, "Go"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := historytest.New(t)
			tc.in.V = contract.Version
			h.Begin("", tc.in)
			for _, text := range tc.prepared {
				h.Call("prepare", contract.ActivityCompileFlow, contract.CompileFlowInput{}, contract.CompileFlowResult{Model: "m", Input: &text})
			}
			want, text := "", tc.want
			if text != "" {
				begun := h.Message(*contract.InputMessage(text, nil))
				asked := h.Message(contract.Message{Role: contract.RoleUser, Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: contract.SHA(begun)}}}})
				h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1"},
					Tail: []contract.TailEntry{{SHA: contract.SHA(asked), Message: asked}}}, historytest.Answer(t, "done"))
				said := strings.TrimRight(messageText(&contract.Message{Role: contract.RoleUser, Text: text}), "\n")
				want = "== input\n" + said + "\n\n== n#1\n" + said + "\nassistant\n  done\n"
			}
			out := shownOf(t, h)
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

// A session's later prompts are read where messages only refer to them: long ones, and those with
// images.
func TestTranscriptShowsPromptsOfSessions(t *testing.T) {
	long := contract.PromptInput{Prompt: strings.Repeat("tea ", 1000)}
	shown := contract.PromptInput{Prompt: "And this?", Media: []contract.Media{{MediaType: "image/gif", Data: "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}}}
	h := historytest.New(t)
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
		AcceptedRequest: &updatepb.Request{Input: &updatepb.Input{Name: contract.UpdatePrompt, Args: h.Payload(long)}}})
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, &historypb.WorkflowExecutionSignaledEventAttributes{
		SignalName: contract.UpdatePrompt, Input: h.Payload(shown)})
	want := "== n#1\n"
	var tail []contract.TailEntry
	for _, in := range []contract.PromptInput{long, shown} {
		m := contract.InputMessage(in.Prompt, in.Media)
		asked := h.Message(contract.Message{Role: contract.RoleUser, Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: contract.SHA(h.Message(*m))}}}})
		tail = append(tail, contract.TailEntry{SHA: contract.SHA(asked), Message: asked})
		want += strings.TrimRight(messageText(m), "\n") + "\n"
	}
	h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1"}, Tail: tail}, historytest.Answer(t, "done"))
	out := shownOf(t, h)
	if diff := cmp.Diff(want+"assistant\n  done\n", out); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	if !strings.Contains(out, "And this?\n  [image 1, image/gif, 29 bytes]") {
		t.Errorf("no image is told of:\n%s", out)
	}
}

// shownOf is how the transcripts of a history are shown.
func shownOf(t *testing.T, h *historytest.History) string {
	t.Helper()
	a, err := Read(context.Background(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString(Text(a.Threads()))
	return out.String()
}
