package questions

import (
	"cmp"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// modelCall ends the id of the call that answers a question.
const modelCall = "/model/1"

// sample has the run's model answer what the server of a call asks, by one call in a conversation with a name. It is a step, unless
// the server holds the call meanwhile.
func (c *Call) sample(ctx workflow.Context, name string, s *contract.Sampling, held bool) (json.RawMessage, error) {
	p := c.Profile
	params := plan.Params{MaxTokens: s.MaxTokens, Temperature: s.Temperature, Stop: s.Stop}
	if p.Params != nil {
		params.API = p.Params.API
	}
	p.System, p.Params = s.System, &params
	profile, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	thread := c.Run.Transcript.Open(name)
	for i := range s.Messages {
		if _, err := c.Run.Transcript.Write(thread, &s.Messages[i]); err != nil {
			return nil, err
		}
	}
	in := &contract.ModelInput{Profile: contract.ProfileRef{ContentRef: contract.ContentRef{SHA: contract.SHA(profile)}, Body: profile}, Step: c.Execution.Step}
	in.Base, in.Tail = thread.Pending()
	var res contract.ModelResult
	call := &runtime.Call{Activity: contract.ActivityCallModel, Args: []any{in}, What: "what the server of " + c.Request.Tool + " asks the model", At: c.Execution,
		ID: name + modelCall, Summary: fmt.Sprintf("%s · asked by %s · %s", p.Node, c.Request.Tool, p.Model), Options: c.Run.Options(c.Run.Flow.Policy.ModelSeconds),
		Model: &runtime.ModelCall{Bytes: thread.Bytes}, Result: runtime.ResultSize{Together: 1, Share: &in.MaxResultBytes}, Out: &res}
	if held {
		err = c.Run.Invoke(ctx, call)
	} else {
		err = c.Run.CallStep(ctx, c.Execution.Journal, thread.Hash, call)
	}
	if err != nil {
		return nil, err
	}
	c.Run.Transcript.Record(thread, res.Message)
	return sampled(&res)
}

// stopReasons are those of the protocol.
var stopReasons = map[string]string{"length": "maxTokens", "content_filter": "contentFilter"}

// sampled is a model's answer as a result of sampling/createMessage.
func sampled(res *contract.ModelResult) (json.RawMessage, error) {
	m, err := contract.DecodeMessage(res.Message)
	if err != nil {
		return nil, err
	}
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return json.Marshal(struct {
		Role       string  `json:"role"`
		Content    content `json:"content"`
		Model      string  `json:"model"`
		StopReason string  `json:"stopReason"`
	}{contract.RoleAssistant, content{"text", m.Text}, res.Model, cmp.Or(stopReasons[res.Stop], "endTurn")})
}
