package questions

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// Held answers what the server of a call asks while it holds the call: by the same requests, but for as long as the call lasts.
type Held struct{ Call *Call }

// Answer is [held.Asked].
func (h Held) Answer(ctx workflow.Context, in *contract.ServerAsks) (*contract.ServerAnswer, error) {
	c := h.Call
	if c.asked++; c.asked > MaxRounds {
		return &contract.ServerAnswer{Problem: fmt.Sprintf("a call may ask %d times", MaxRounds)}, nil
	}
	if in.Ask.Sampling != nil {
		result, err := c.sample(ctx, fmt.Sprintf("%sheld%d", c.Thread, c.asked), in.Ask.Sampling, true)
		if err != nil && !contract.Cancelled(err) {
			// The server is not told more: it is not the operator's.
			return &contract.ServerAnswer{Problem: "the model did not answer: " + contract.FailureOf(err).Class}, nil
		}
		return &contract.ServerAnswer{Result: result}, err
	}
	req, err := c.question(&in.Ask, fmt.Sprintf("held.%d", c.asked))
	if err != nil {
		return nil, err
	}
	// Another attempt asks anew, in this run or in the one that continues it.
	req.Hash = contract.SHA(fmt.Appendf(nil, "%s\n%s\n%s\n%d", req.Hash, c.Run.Transcript.Run, in.Call, in.Attempt))
	req.Timeout = in.Timeout
	reply, err := c.Run.Requests.AskHeld(ctx, c.Execution, req)
	if err != nil {
		return nil, err
	}
	return &contract.ServerAnswer{Result: elicited(&in.Ask, reply.ToolResult), Expired: reply.Expired}, nil
}
