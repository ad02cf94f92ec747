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

// TestInput checks the input in a transcript: the prompt that the parameters were compiled to, also if
// model calls only refer to it, or the parameters if the nodes use them by name.
func TestInput(t *testing.T) {
	long := "<inputs>\ntopic: " + strings.Repeat("tea ", 1000) + "\n</inputs>\n\nGo"
	params := json.RawMessage(`{"topic":"tea","prompt":"Go"}`)
	tests := map[string]struct {
		in       contract.RunInput
		compiled []string
		want     string
	}{
		"parameters":                      {contract.RunInput{Params: params}, []string{"<inputs>\ntopic: tea\n</inputs>\n\nGo"}, "<inputs>\ntopic: tea\n</inputs>\n\nGo"},
		"long":                            {contract.RunInput{Params: params}, []string{long}, long},
		"compiled again after a hook":     {contract.RunInput{Params: params}, []string{"first", "second"}, "second"},
		"prompt only":                     {contract.RunInput{Input: "Go"}, []string{"Go"}, "Go"},
		"no prompt":                       {contract.RunInput{}, []string{""}, "(no input was given)"},
		"nothing":                         {contract.RunInput{}, nil, "(no input was given)"},
		"null":                            {contract.RunInput{Params: json.RawMessage("null")}, nil, "(no input was given)"},
		"parameters by name":              {contract.RunInput{Params: params}, nil, `{"topic":"tea","prompt":"Go"}`},
		"parameters with an empty prompt": {contract.RunInput{Params: json.RawMessage(`{"q":"\u003chi\u003e"}`)}, []string{""}, `{"q":"<hi>"}`},
		"typed value":                     {contract.RunInput{Value: json.RawMessage("7")}, nil, "7"},
		"text and parameters":             {contract.RunInput{Params: params, Input: "Go"}, nil, "Go"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := historytest.New(t)
			tc.in.V = contract.Version
			h.Begin("", tc.in)
			for _, text := range tc.compiled {
				h.Call("prepare", contract.ActivityCompileFlow, contract.CompileFlowInput{}, contract.CompileFlowResult{Model: "m", Input: &text})
			}
			want, text := "", tc.want
			if text != "" {
				input := h.Message(*contract.InputMessage(text, nil))
				message := h.Message(contract.Message{Role: contract.RoleUser, Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: contract.SHA(input)}}}})
				h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1"},
					Tail: []contract.TailEntry{{SHA: contract.SHA(message), Message: message}}}, historytest.Answer(t, "done"))
				body := strings.TrimRight(messageText(&contract.Message{Role: contract.RoleUser, Text: text}), "\n")
				want = "== input\n" + body + "\n\n== n#1\n" + body + "\nassistant\n  done\n"
			}
			out := render(t, h)
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSessionPrompts checks that a transcript contains the later prompts of a session even if
// messages only refer to them, as they do to long prompts and those with images.
func TestSessionPrompts(t *testing.T) {
	long := contract.PromptInput{Prompt: strings.Repeat("tea ", 1000)}
	image := contract.PromptInput{Prompt: "And this?", Media: []contract.Media{{MediaType: "image/gif", Data: "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}}}
	h := historytest.New(t)
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
		AcceptedRequest: &updatepb.Request{Input: &updatepb.Input{Name: contract.UpdatePrompt, Args: h.Payload(long)}}})
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, &historypb.WorkflowExecutionSignaledEventAttributes{
		SignalName: contract.UpdatePrompt, Input: h.Payload(image)})
	want := "== n#1\n"
	var tail []contract.TailEntry
	for _, in := range []contract.PromptInput{long, image} {
		m := contract.InputMessage(in.Prompt, in.Media)
		message := h.Message(contract.Message{Role: contract.RoleUser, Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: contract.SHA(h.Message(*m))}}}})
		tail = append(tail, contract.TailEntry{SHA: contract.SHA(message), Message: message})
		want += strings.TrimRight(messageText(m), "\n") + "\n"
	}
	h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: "n#1"}, Tail: tail}, historytest.Answer(t, "done"))
	out := render(t, h)
	if diff := cmp.Diff(want+"assistant\n  done\n", out); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	if !strings.Contains(out, "And this?\n  [image 1, image/gif, 29 bytes]") {
		t.Errorf("the image is not in the transcript:\n%s", out)
	}
}

// render returns the text of the transcript of a history.
func render(t *testing.T, h *historytest.History) string {
	t.Helper()
	a, err := Read(context.Background(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString(Text(a.Threads()))
	return out.String()
}
