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
func (s *session) inputRequired(name string, r *toolResult) (reply, error) {
	asked, wrong := s.at.policy().ReadAll(r.InputRequests)
	switch {
	case wrong != nil:
		return reply{text: fmt.Sprintf("tool %q asks what cannot be answered: %s", name, wrong.Text), isError: true}, nil
	case len(asked) == 0 && r.RequestState == "":
		return reply{}, s.at.malformed("result of tool %q: it requires input, and has neither inputRequests nor a requestState", name)
	}
	return reply{text: fmt.Sprintf("tool %q asks its caller for more input", name), isError: true,
		input: &contract.InputRequired{State: r.RequestState, Questions: asked}}, nil
}

// reply is a result as a text for models, or as its unabridged JSON.
func (s *session) reply(name string, raw []byte, whole bool, outputs []string) (reply, error) {
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return reply{}, s.at.malformed("result of tool %q: %v", name, err)
	}
	if r.ResultType == string(mcp.ResultTypeInputRequired) {
		return s.inputRequired(name, &r)
	}
	if t := tasks.Created(raw); t != nil {
		return s.working(name, t), nil
	}
	out, err := reply{isError: r.IsError, links: r.Links()}, error(nil)
	if whole {
		out.text, err = render.Whole(raw)
	} else {
		out.text, out.media, err = r.Text(outputs)
	}
	if err != nil {
		return reply{}, s.at.malformed("result of tool %q: %v", name, err)
	}
	return out, nil
}
