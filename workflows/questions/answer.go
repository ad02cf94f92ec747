// Package questions has what the servers of tools ask answered: by people, who have days for it, and by the run's model.
package questions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/group"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// MaxRounds is how often the server of a tool may ask people, and how often the run's model, before it answers a call.
const MaxRounds = 20

// Call is a call of a tool whose server asks.
type Call struct {
	Run       *runtime.Run
	Execution *runtime.Execution
	// Request describes the call, and names the tool. Its id begins those of requests.
	Request contract.Request
	// Thread begins the names of conversations with the model, which Profile describes.
	Thread  string
	Profile contract.Profile
	// asked counts what was asked while the server held the call.
	asked int
}

// AnswerAll gets what the server of a tool needs before it answers: answers of people, days later if need be, or of the model, or
// just time. A round begins with 1; 0 stands for a task, which may ask a question again until it has read the answer. Where
// there is no answer to be had, the call is refused by [runtime.Refused].
func (c *Call) AnswerAll(ctx workflow.Context, in *contract.InputRequired, round int) (*contract.ToolAnswers, error) {
	out := &contract.ToolAnswers{State: in.State, Answers: map[string]json.RawMessage{}}
	if len(in.Questions) == 0 {
		return out, wait.Pause(ctx, time.Duration(round)*time.Second, c.Request.Tool+" is to be called again")
	}
	places := make([]string, len(in.Questions))
	for i := range in.Questions {
		places[i] = fmt.Sprintf("%d.%d", round, i+1)
		if round == 0 {
			places[i] = ID(&in.Questions[i])
		}
	}
	if err := c.maySample(in.Questions, places); err != nil {
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
	if err := g.Wait(); err != nil || !in.Anew {
		return out, err
	}
	for i := range in.Questions {
		if q := &in.Questions[i]; string(out.Answers[q.Key]) != accepted {
			return nil, runtime.Refuse("%s was not called: its server wants %s to be opened first, and a person refused that", c.Request.Tool, q.URL)
		}
	}
	return nil, nil // it knows by itself
}

// Answer answers what the server of the call asks while it holds the call: by the same requests, but for as long as the call
// lasts.
func (c *Call) Answer(ctx workflow.Context, in *contract.ServerAsks) (*contract.ServerAnswer, error) {
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
	reply, err := c.Run.Requests.Await(ctx, c.Execution, req, nil)
	if err != nil {
		return nil, err
	}
	return &contract.ServerAnswer{Result: elicited(&in.Ask, reply.ToolResult), Expired: reply.Expired}, nil
}

// answerOne gets the answer of one question, whose place among those of the call is named.
func (c *Call) answerOne(ctx workflow.Context, q *contract.ToolQuestion, place string) (json.RawMessage, error) {
	switch {
	case q.Answer != nil:
		return q.Answer, nil
	case q.Sampling != nil:
		out, err := c.sample(ctx, c.Thread+place, q.Sampling, false)
		if err == nil || runtime.Interrupted(err) || contract.FailureOf(err).Class == contract.ClassBudget {
			return out, err
		}
		return nil, runtime.Refuse("the server of %s asked the model a question, which was not answered: %v", c.Request.Tool, contract.FailureOf(err))
	}
	req, err := c.question(q, place)
	if err != nil {
		return nil, err
	}
	reply, err := c.Run.Requests.Ask(ctx, c.Execution, req)
	if err != nil {
		return nil, err
	}
	return elicited(q, reply.ToolResult), nil
}

// maySample refuses more questions to the model than a call has.
func (c *Call) maySample(questions []contract.ToolQuestion, places []string) error {
	var now []string
	for i := range questions {
		if questions[i].Sampling != nil {
			now = append(now, c.Thread+places[i]+modelCall)
		}
	}
	if now == nil {
		return nil
	}
	steps, err := c.Execution.Journal.Snapshot()
	n := len(now)
	for _, s := range steps {
		if strings.HasPrefix(s.ID, c.Thread) && strings.HasSuffix(s.ID, modelCall) && !slices.Contains(now, s.ID) {
			n++
		}
	}
	if err == nil && n > MaxRounds {
		err = runtime.Refuse("the server of %s asks the model more than %d questions for one call", c.Request.Tool, MaxRounds)
	}
	return err
}

// question is the request of a question, whose place is named.
func (c *Call) question(q *contract.ToolQuestion, place string) (contract.Request, error) {
	raw, err := json.Marshal(contract.Catalogue{Tools: []contract.ToolSpec{{Name: c.Request.Name, Result: q.Schema}}})
	if err != nil {
		return contract.Request{}, err
	}
	spec, req := c.Run.Transcript.Keep(raw), c.Request
	req.ID, req.Kind, req.Hash, req.Catalogue = req.ID+"~"+place, contract.RequestToolResult, contract.SHA(raw), &spec
	req.Text = strings.TrimSpace(c.Request.Tool + " asks: " + q.Text + " " + q.URL)
	return req, nil
}

// ID tells a question of a task from its others.
func ID(q *contract.ToolQuestion) string {
	parts := []string{q.Key, q.Text, string(q.Schema), q.URL}
	if raw, err := json.Marshal(q.Sampling); err == nil && q.Sampling != nil {
		parts = append(parts, string(raw))
	}
	return runtime.HashOf(parts...)
}

// accepted is the result of a question without values that a person has accepted.
const accepted = `{"action":"accept"}`

// elicited is an answer as a result of elicitation/create, with the defaults of the question's schema.
func elicited(q *contract.ToolQuestion, given *contract.ToolResultAnswer) json.RawMessage {
	switch {
	case given == nil:
		return json.RawMessage(`{"action":"cancel"}`)
	case given.Error != "":
		return json.RawMessage(`{"action":"decline"}`)
	case q.URL != "":
		return json.RawMessage(accepted)
	}
	return json.RawMessage(`{"action":"accept","content":` + string(value.Complete(q.Schema, given.Result)) + `}`)
}
