package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/group"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/replies"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// Requests of tool servers are answered by users, possibly days later, and by the run's model.

// maxRounds is the maximum number of rounds of questions to users, and of questions to the run's model, for one call.
const maxRounds = 20

// modelCall is the suffix of the id of a model call that answers a question.
const modelCall = "/model/1"

// answerAll answers the questions of a tool's server; users may take days to answer. Without questions it only waits for a while.
// Rounds count from 1; 0 stands for a task, which may repeat a question until it has read the answer. The error is a
// [replies.Refused] if a question cannot be answered. The answers are nil if the call must be repeated unchanged.
func (c *toolCall) answerAll(ctx workflow.Context, in *contract.InputRequired, round int) (*contract.ToolAnswers, error) {
	out := &contract.ToolAnswers{State: in.State, Answers: map[string]json.RawMessage{}}
	if len(in.Questions) == 0 {
		return out, wait.Sleep(ctx, time.Duration(round)*time.Second, "repeating the call of "+c.tool.As)
	}
	places := make([]string, len(in.Questions))
	var forModel []string
	for i := range in.Questions {
		q := &in.Questions[i]
		places[i] = fmt.Sprintf("%d.%d", round, i+1)
		if round == 0 {
			places[i] = questionID(q)
		}
		if q.Sampling != nil {
			forModel = append(forModel, conversationPrefix(c)+places[i]+modelCall)
		}
	}
	if err := checkSampling(c, forModel); err != nil {
		return nil, err
	}
	g := group.New(ctx)
	for i := range in.Questions {
		q := &in.Questions[i]
		g.Start(func(ctx workflow.Context) (err error) {
			out.Answers[q.Key], err = c.answerOne(ctx, q, places[i])
			return err
		})
	}
	if err := g.Wait(); err != nil || !in.RepeatCall {
		return out, err
	}
	for i := range in.Questions {
		if q := &in.Questions[i]; string(out.Answers[q.Key]) != accepted {
			return nil, replies.Refuse("%s was not called: its server requires that %s is opened first, and a user declined", c.tool.As, q.URL)
		}
	}
	return nil, nil // the server itself detects that the URLs were opened
}

// answerServer answers a question that the server asks during the call: by the same requests, but only while the call lasts.
func (c *toolCall) answerServer(ctx workflow.Context, in *contract.ServerRequest) (*contract.ServerAnswer, error) {
	if c.serverQuestions++; c.serverQuestions > maxRounds {
		return &contract.ServerAnswer{Problem: fmt.Sprintf("at most %d requests are allowed per call", maxRounds)}, nil
	}
	if in.Question.Sampling != nil {
		result, err := c.sample(ctx, fmt.Sprintf("held%d", c.serverQuestions), in.Question.Sampling, true)
		if err != nil && !contract.Cancelled(err) {
			// Details are not sent to the server: it may belong to a third party.
			return &contract.ServerAnswer{Problem: "the model did not answer: " + contract.FailureOf(err).Class}, nil
		}
		return &contract.ServerAnswer{Result: result}, err
	}
	req := c.question(&in.Question, fmt.Sprintf("held.%d", c.serverQuestions))
	// Another attempt opens a new request, in this run or in the one that continues it.
	req.Hash = contract.SHA(fmt.Appendf(nil, "%s\n%s\n%s\n%d", req.Hash, c.agent.run.Transcript.Run, in.Call, in.Attempt))
	req.Timeout = in.Timeout
	reply, err := c.agent.run.Requests.Await(ctx, c.agent.execution, req, nil)
	switch {
	case err != nil:
		return nil, err
	case reply.Refused != nil:
		return &contract.ServerAnswer{Problem: reply.Refused.Text}, nil
	}
	return &contract.ServerAnswer{Result: elicited(&in.Question, reply.ToolResult), Expired: reply.Expired}, nil
}

// answerOne answers one question; place identifies it among those of the call.
func (c *toolCall) answerOne(ctx workflow.Context, q *contract.ToolQuestion, place string) (json.RawMessage, error) {
	switch {
	case q.Answer != nil:
		return q.Answer, nil
	case q.Sampling != nil:
		out, err := c.sample(ctx, place, q.Sampling, false)
		if err == nil || runtime.Interrupted(err) || contract.FailureOf(err).Class == contract.ClassBudget {
			return out, err
		}
		return nil, replies.Refuse("the model did not answer the question of the server of %s: %v", c.tool.As, contract.FailureOf(err))
	}
	reply, err := c.agent.run.Requests.Ask(ctx, c.agent.execution, c.question(q, place))
	if err != nil {
		return nil, err
	}
	return elicited(q, reply.ToolResult), nil
}

// checkSampling refuses more than maxRounds questions to the model for one call. current holds the ids of this round's model calls.
func checkSampling(c *toolCall, current []string) error {
	if current == nil {
		return nil
	}
	steps, err := c.agent.execution.Journal.Snapshot()
	n := len(current)
	for _, s := range steps {
		if strings.HasPrefix(s.ID, conversationPrefix(c)) && strings.HasSuffix(s.ID, modelCall) && !slices.Contains(current, s.ID) {
			n++
		}
	}
	if err == nil && n > maxRounds {
		err = replies.Refuse("the server of %s sent the model more than %d questions for one call", c.tool.As, maxRounds)
	}
	return err
}

// question returns the request for a question at a place.
func (c *toolCall) question(q *contract.ToolQuestion, place string) contract.Request {
	catalogue := c.storeSpec(contract.ToolSpec{Name: c.tool.Name, Result: q.Schema})
	req := contract.Request{ID: c.id("input") + "~" + place, Kind: contract.RequestToolResult, Hash: catalogue.SHA,
		Text: strings.TrimSpace(c.tool.As + " asks: " + q.Text + " " + q.URL), Catalogue: catalogue}
	c.describe(&req)
	return req
}

// questionID identifies a question among those of a task.
func questionID(q *contract.ToolQuestion) string {
	parts := []string{q.Key, q.Text, string(q.Schema), q.URL}
	if raw, err := json.Marshal(q.Sampling); err == nil && q.Sampling != nil {
		parts = append(parts, string(raw))
	}
	return contract.HashOf(parts...)
}

// accepted is the result of a question without values that a user has accepted.
const accepted = `{"action":"accept"}`

// elicited returns an answer as a result of elicitation/create, with the defaults of the question's schema.
func elicited(q *contract.ToolQuestion, answer *contract.ToolResultAnswer) json.RawMessage {
	switch {
	case answer == nil:
		return json.RawMessage(`{"action":"cancel"}`)
	case answer.Error != "":
		return json.RawMessage(`{"action":"decline"}`)
	case q.URL != "":
		return json.RawMessage(accepted)
	}
	return json.RawMessage(`{"action":"accept","content":` + string(value.Complete(q.Schema, answer.Result)) + `}`)
}

// conversationPrefix returns the prefix of the names of the call's conversations with the model, which are named like those with members.
func conversationPrefix(c *toolCall) string {
	return fmt.Sprintf("%s:%s~%d.%d.", c.agent.execution.ID, contract.EscapeID(c.tool.As), c.agent.state.Turn, c.index+1)
}

// sample has the run's model answer a question of the call's server, by one model call in a separate conversation. It is a step
// unless held is set: the server asks during the call.
func (c *toolCall) sample(ctx workflow.Context, place string, s *contract.Sampling, held bool) (json.RawMessage, error) {
	a, r, x := c.agent, c.agent.run, c.agent.execution
	params := &plan.Params{MaxTokens: s.MaxTokens, Temperature: s.Temperature, Stop: s.Stop}
	if own := a.cfg.Params; own != nil {
		params.API = own.API
	}
	p := contract.Profile{Model: modelRef(a), Node: a.who(), System: s.System, Script: r.Shared.Script, Home: r.Home(), Params: params}
	profile, _ := json.Marshal(p) // strings and numbers can always be encoded
	thread := r.Transcript.Open(conversationPrefix(c) + place)
	for i := range s.Messages {
		r.Transcript.Write(thread, &s.Messages[i])
	}
	in := &contract.ModelInput{Step: x.Step, Profile: contract.ProfileRef{ContentRef: contract.ContentRef{SHA: contract.SHA(profile)}, Body: profile}}
	in.Base, in.Tail = thread.Pending()
	var res contract.ModelResult
	call := &runtime.Call{Activity: contract.ActivityCallModel, Args: []any{in}, At: x, What: "the question of the server of " + c.tool.As,
		ID: conversationPrefix(c) + place + modelCall, Summary: fmt.Sprintf("%s · asked by %s · %s", p.Node, c.tool.As, p.Model),
		Options: r.Options(r.Flow.Policy.ModelSeconds), Model: &runtime.ModelCall{Bytes: thread.Bytes},
		Result: runtime.ResultSize{Together: 1, Share: &in.MaxResultBytes}, Out: &res}
	var err error
	if held {
		err = r.Invoke(ctx, call)
	} else {
		err = r.CallStep(ctx, x.Journal, thread.Hash, call)
	}
	if err != nil {
		return nil, err
	}
	r.Transcript.Record(thread, res.Message)
	return sampled(&res)
}

// stopReasons maps stop reasons to those of the protocol.
var stopReasons = map[string]string{"length": "maxTokens", "content_filter": "contentFilter"}

// sampled returns a model's answer as a result of sampling/createMessage.
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
