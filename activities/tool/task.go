package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
	"weft/activities/tool/serverrequest"
	"weft/activities/tool/tasks"
)

func (s *session) tasks() *tasks.Server {
	return &tasks.Server{Client: s.client, Send: func(ctx context.Context, send func(context.Context) error) ([]byte, *mcp.JSONRPCErrorDetails, error) {
		a, err := s.request(ctx, send)
		if err != nil {
			return nil, nil, err
		}
		return a.result, a.rpcError, nil
	}}
}

// workingResult returns the result of a call that a server continues as a task.
func (s *session) workingResult(name string, t *tasks.Task) Result {
	return Result{Text: fmt.Sprintf("tool %q continues the call as a task. %s", name, s.at.secrets.mask(short(t.Message))), Failed: true, Task: &t.Task}
}

// pollTask sends the answers to a task's requests, if any, and gets the task's state; or cancels the task.
func (s *session) pollTask(ctx context.Context, in *contract.ToolInput) (Result, error) {
	if in.CancelTask {
		return Result{Text: fmt.Sprintf("the task of tool %q was cancelled", in.Name), Failed: true}, s.tasks().Cancel(ctx, in.TaskID)
	}
	answers, err := s.answerTask(ctx, in.Input)
	if err != nil {
		return Result{}, err
	}
	t, err := s.tasks().Poll(ctx, in.TaskID, answers)
	switch {
	case err != nil:
		return Result{}, err
	case t.Lost:
		return s.taskLost(in, t.Problem)
	case t.Problem != nil:
		return s.errorResult(t.Problem)
	}
	switch t.Status {
	case tasks.Working:
		return s.workingResult(in.Name, &t.Task), nil
	case tasks.InputRequired:
		return s.taskInput(ctx, in, t)
	case tasks.Completed, tasks.Failed:
		r, err := s.callResult(in.Name, t.Result, in.Connection.WholeResults, in.Outputs)
		if r.Failed = r.Failed || t.Status == tasks.Failed; r.Task != nil || r.Input != nil {
			err = s.at.malformed("the task of tool %q returned a result that is not a tools/call result", in.Name)
		}
		return r, err
	case tasks.Cancelled:
		return Result{Text: fmt.Sprintf("the server of tool %q cancelled the task: %s", in.Name, s.at.secrets.mask(short(t.Message))), Failed: true}, nil
	}
	return Result{}, s.at.malformed("the task of tool %q has unknown status %q", in.Name, short(t.Status))
}

// answerTask responds to a task's requests. After 2025-11-25 it returns the answers instead, which are sent with the next poll.
func (s *session) answerTask(ctx context.Context, in *contract.ToolAnswers) (map[string]json.RawMessage, error) {
	switch {
	case in == nil:
		return nil, nil
	case s.tasks().ReportsInput():
		return in.Answers, nil
	}
	for _, id := range slices.Sorted(maps.Keys(in.Answers)) {
		if err := s.mcpTransport.respond(ctx, serverrequest.Response(id, in.Answers[id])); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// taskInput returns the requests of a task that requires input. It cancels the task if a request cannot be answered.
func (s *session) taskInput(ctx context.Context, in *contract.ToolInput, t *tasks.Outcome) (out Result, err error) {
	var r toolResult
	if err := json.Unmarshal(t.Raw, &r); err != nil {
		return Result{}, s.at.malformed("invalid task of tool %q: %v", in.Name, err)
	}
	if s.tasks().ReportsInput() && len(r.InputRequests) > 0 {
		out, err = s.inputRequired(in.Name, &r)
	} else {
		out = s.workingResult(in.Name, &t.Task) // its requests have been answered, but it has not continued yet
		if !s.tasks().ReportsInput() {
			out.Input, err = s.pendingRequests(ctx, in.TaskID)
		}
	}
	if out.Task = &t.Task.Task; err != nil || out.Input != nil || len(r.InputRequests) == 0 {
		return out, err
	}
	out.Text, out.Task = out.Text+"; the task was cancelled", nil
	return out, s.tasks().Cancel(ctx, in.TaskID)
}

// inputRequestTimeout limits the wait for the first request of a task that requires input.
const inputRequestTimeout = 10 * time.Second

// pendingRequests returns the requests that a server up to 2025-11-25 sends while it processes tasks/result, or nil if there
// are none. Their keys are the ids of the server's requests, which remain open until answerTask responds to them.
func (s *session) pendingRequests(ctx context.Context, id string) (*contract.InputRequired, error) {
	var mu sync.Mutex
	out := &contract.InputRequired{}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(inputRequestTimeout, cancel).Stop()
	run, _, end := s.beginCall(run, func(_ context.Context, _ int, q contract.ToolQuestion, _ time.Duration) (*contract.ServerAnswer, error) {
		mu.Lock()
		defer mu.Unlock()
		out.Questions = append(out.Questions, q)
		time.AfterFunc(lossGrace, cancel) // further requests may follow immediately
		return nil, serverrequest.ErrAnsweredLater
	})
	_, _, err := s.tasks().Result(run, id)
	end()
	mu.Lock()
	defer mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case run.Err() == nil && err != nil:
		return nil, err
	case len(out.Questions) == 0:
		return nil, nil
	}
	return out, nil
}

// taskLost returns the result of a call whose task the server no longer reports. The task may have taken effect.
func (s *session) taskLost(in *contract.ToolInput, p *mcp.JSONRPCErrorDetails) (Result, error) {
	if p.Code == mcp.INTERNAL_ERROR {
		return Result{}, s.at.failure(contract.ClassUnavailable, fmt.Sprintf("the server does not report the task of tool %q (%d): %s", in.Name, p.Code, p.Message), "")
	}
	r, err := s.errorResult(p)
	r.Text = fmt.Sprintf("outcome unknown: the server no longer knows the task of tool %q, which has expired or was lost (%s); "+
		"the call may have taken effect; check whether it did before you make it again", in.Name, r.Text)
	return r, err
}
