package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/activities/tool/a2a"
	"weft/activities/tool/delivery"
	"weft/workflows/plan"
)

// Converse sends a message to a remote agent and waits for its answer. Its error is a *[contract.Failure], which reports
// whether the agent may have received the message, [a2a.ErrNoTask], or ctx.Err().
func (t *Tools) Converse(ctx context.Context, c plan.Connection, turn a2a.Turn) (*a2a.Answer, error) {
	var out *a2a.Answer
	ctx, sent := delivery.Tracked(ctx)
	err := t.withConnection(ctx, c, func(ctx context.Context, at *target, server remote) (err error) {
		agent, ok := server.(*agent)
		if !ok {
			return at.failure(contract.ClassConnection, "connections of kind "+c.Kind+" have no agent", "")
		}
		if out, err = a2a.New(agent, at.conn.URL).Converse(ctx, turn); err == nil {
			out.Text = at.secrets.maskResult(out.Text)
		} else if errors.Is(err, a2a.ErrNoTask) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, sent.MarkOutcome(err)
	case out == nil:
		return nil, a2a.ErrNoTask
	}
	return out, nil
}

type agent struct{ httpServer }

func dialA2A(_ context.Context, at *target) (remote, error) {
	s, err := newHTTPServer(at)
	return &agent{s}, err
}

func (a *agent) list(context.Context, *plan.Connection) ([]contract.ToolSpec, error) { return nil, nil }

func (a *agent) call(context.Context, contract.ToolInput, Meta) (Result, error) {
	return Result{}, a.at.failure(contract.ClassConnection, "a remote agent is not a tool", "")
}

// a2aTransient are the codes of JSON-RPC errors after which the same request may succeed.
var a2aTransient = map[int]bool{-32603: true, -32000: true}

func (a *agent) Failure(class, text, remedy string) *contract.Failure {
	return a.at.failure(class, text, remedy)
}

func (a *agent) Classify(err error) error { return classify(a.at, err) }

func (a *agent) Request(ctx context.Context, method string, params, out any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at.conn.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := a.do(req)
	if err != nil {
		return err
	}
	if resp.status >= 300 {
		return resp.statusError()
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(resp.body, &answer); err != nil || answer.Result == nil && answer.Error == nil {
		return a.at.failure(contract.ClassConnection, "its response to "+method+" is not an Agent2Agent response", "check agent_url: it must be the agent's JSON-RPC endpoint, not its card")
	}
	if answer.Error != nil {
		class := contract.ClassBadRequest
		if a2aTransient[answer.Error.Code] {
			class = contract.ClassUnavailable
		}
		return a.at.failure(class, fmt.Sprintf("error %d in response to %s: %s", answer.Error.Code, method, answer.Error.Message), "")
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		return a.at.failure(contract.ClassBadRequest, "its response to "+method+" is invalid: "+textutil.ErrorText(err), "")
	}
	return nil
}
