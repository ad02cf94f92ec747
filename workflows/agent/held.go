package agent

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
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
	req, err := h.call.question(h.tool, &in.Ask, h.args, fmt.Sprintf("%s~held.%d", h.call.id("input"), h.asked))
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
