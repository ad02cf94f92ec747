package tool

import (
	"encoding/json"
	"fmt"

	"weft/activities/contract"
	"weft/activities/tool/questions"
	"weft/activities/tool/render"
	"weft/activities/tool/tasks"

	"github.com/mark3labs/mcp-go/mcp"
)

// toolResult is a result of tools/call in the server's own bytes.
type toolResult struct {
	render.Result
	ResultType    string                       `json:"resultType"`
	InputRequests map[string]questions.Request `json:"inputRequests"`
	RequestState  string                       `json:"requestState"`
}

// inputRequired is what a server needs before it answers a call.
func (s *session) inputRequired(name string, r *toolResult) (Result, error) {
	asked, wrong := s.at.policy().ReadAll(r.InputRequests)
	switch {
	case wrong != nil:
		return Result{Text: fmt.Sprintf("tool %q asks what cannot be answered: %s", name, wrong.Text), Failed: true}, nil
	case len(asked) == 0 && r.RequestState == "":
		return Result{}, s.at.malformed("result of tool %q: it requires input, and has neither inputRequests nor a requestState", name)
	}
	return Result{Text: fmt.Sprintf("tool %q asks its caller for more input", name), Failed: true,
		Input: &contract.InputRequired{State: r.RequestState, Questions: asked}}, nil
}

// reply is a result as a text for models, or as its unabridged JSON.
func (s *session) reply(name string, raw []byte, whole bool, outputs []string) (Result, error) {
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return Result{}, s.at.malformed("result of tool %q: %v", name, err)
	}
	if r.ResultType == string(mcp.ResultTypeInputRequired) {
		return s.inputRequired(name, &r)
	}
	if t := tasks.Created(raw); t != nil {
		return s.working(name, t), nil
	}
	out, err := Result{Failed: r.IsError, Links: r.Links()}, error(nil)
	if whole {
		out.Text, err = render.Whole(raw)
	} else {
		out.Text, out.Media, err = r.Text(outputs)
	}
	if err != nil {
		return Result{}, s.at.malformed("result of tool %q: %v", name, err)
	}
	return out, nil
}
