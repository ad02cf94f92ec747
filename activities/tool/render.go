package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"weft/activities/contract"
	"weft/activities/tool/render"
	"weft/activities/tool/tasks"

	"github.com/mark3labs/mcp-go/mcp"
)

// toolResult is a result of tools/call in the server's own bytes.
type toolResult struct {
	render.Result
	ResultType    string                  `json:"resultType"`
	InputRequests map[string]inputRequest `json:"inputRequests"`
	RequestState  string                  `json:"requestState"`
}

// inputRequest is what a server needs before it answers.
type inputRequest struct {
	Method string `json:"method"`
	Params struct {
		Mode, Message, URL string
		RequestedSchema    json.RawMessage
	} `json:"params"`
}

// inputRequired is what a server needs before it answers a call. A person can answer its questions, and nothing else.
func (s *session) inputRequired(name string, r *toolResult) (reply, error) {
	out := &contract.InputRequired{State: r.RequestState}
	for _, key := range slices.Sorted(maps.Keys(r.InputRequests)) {
		q := r.InputRequests[key]
		switch {
		case q.Method != string(mcp.MethodElicitationCreate):
			return reply{text: fmt.Sprintf("tool %q asks for %s, which is not supported", name, short(q.Method)), isError: true}, nil
		case q.Params.Mode == "url":
			q.Params.RequestedSchema = nil
		default:
			q.Params.URL = ""
		}
		out.Questions = append(out.Questions, contract.ToolQuestion{Key: key, Text: s.at.secrets.text(q.Params.Message), Schema: q.Params.RequestedSchema, URL: q.Params.URL})
	}
	if len(out.Questions) == 0 && out.State == "" {
		return reply{}, s.at.malformed("result of tool %q: it requires input, and has neither inputRequests nor a requestState", name)
	}
	return reply{text: fmt.Sprintf("tool %q asks its caller for more input", name), isError: true, input: out}, nil
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
