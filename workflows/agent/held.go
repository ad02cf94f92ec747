package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// heldCall answers what the server of a call asks while it holds the call: by the same requests that a server's
// input_required makes, but for as long as the call lasts.
type heldCall struct {
	call  *toolCall
	tool  *plan.Tool
	args  json.RawMessage
	asked int
}

// Answer is [held.Asked].
func (h *heldCall) Answer(ctx workflow.Context, in *contract.ServerAsks) (*contract.ServerAnswer, error) {
	if h.asked++; h.asked > maxRounds {
		return &contract.ServerAnswer{Problem: fmt.Sprintf("a call may ask %d times", maxRounds)}, nil
	}
	a := h.call.agentRun
	req, err := question(h.call, h.tool, &in.Ask, h.args, fmt.Sprintf("%s~held.%d", h.call.id("input"), h.asked))
	if err != nil {
		return nil, err
	}
	// Another attempt asks anew, in this run or in the one that continues it.
	req.Hash = contract.SHA(fmt.Appendf(nil, "%s\n%s\n%s\n%d", req.Hash, a.run.Transcript.Run, in.Call, in.Attempt))
	req.Timeout = in.Timeout
	reply, err := a.run.Requests.AskHeld(ctx, a.execution, req)
	if err != nil {
		return nil, err
	}
	return &contract.ServerAnswer{Result: elicited(&in.Ask, reply.ToolResult), Expired: reply.Expired}, nil
}

// question is the request of a question.
func question(c *toolCall, t *plan.Tool, q *contract.ToolQuestion, args json.RawMessage, id string) (contract.Request, error) {
	raw, err := json.Marshal(contract.Catalogue{Tools: []contract.ToolSpec{{Name: t.Name, Result: q.Schema}}})
	if err != nil {
		return contract.Request{}, err
	}
	spec := c.agentRun.run.Transcript.Keep(raw)
	req := contract.Request{ID: id, Kind: contract.RequestToolResult, Hash: contract.SHA(raw),
		Text: strings.TrimSpace(t.As + " asks: " + q.Text + " " + q.URL), Catalogue: &spec}
	c.describeCall(&req, t, args)
	return req, nil
}

// elicited is an answer as a result of elicitation/create, with the defaults of the question's schema.
func elicited(q *contract.ToolQuestion, given *contract.ToolResultAnswer) json.RawMessage {
	switch {
	case given == nil:
		return json.RawMessage(`{"action":"cancel"}`)
	case given.Error != "":
		return json.RawMessage(`{"action":"decline"}`)
	case q.URL != "":
		return json.RawMessage(`{"action":"accept"}`)
	}
	return json.RawMessage(`{"action":"accept","content":` + string(value.Complete(q.Schema, given.Result)) + `}`)
}
