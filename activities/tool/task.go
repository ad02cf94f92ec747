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
	"weft/activities/tool/questions"
	"weft/activities/tool/tasks"
)

func (s *session) tasks() *tasks.Server {
	return &tasks.Server{Client: s.client, Ask: func(ctx context.Context, send func(context.Context) error) ([]byte, *mcp.JSONRPCErrorDetails, error) {
		a, err := s.ask(ctx, send)
		if err != nil {
			return nil, nil, err
		}
		return a.result, a.problem, nil
	}}
}

// working says that a server goes on with a call as a task.
func (s *session) working(name string, t *tasks.Task) Result {
	return Result{Text: fmt.Sprintf("tool %q works on it as a task. %s", name, s.at.secrets.text(short(t.Message))), Failed: true, Task: &t.Task}
}

// task looks at the task that a call has become. It first gives it what it asked for, or cancels it.
func (s *session) task(ctx context.Context, in *contract.ToolInput) (Result, error) {
	if in.CancelTask {
		return Result{Text: fmt.Sprintf("the task of tool %q was cancelled", in.Name), Failed: true}, s.tasks().Cancel(ctx, in.TaskID)
	}
	answers, err := s.respond(ctx, in.Input)
	if err != nil {
		return Result{}, err
	}
	t, err := s.tasks().Look(ctx, in.TaskID, answers)
	switch {
	case err != nil:
		return Result{}, err
	case t.Lost:
		return s.taskLost(in, t.Problem)
	case t.Problem != nil:
		return s.problem(t.Problem)
	}
	switch t.Status {
	case tasks.Working:
		return s.working(in.Name, &t.Task), nil
	case tasks.InputRequired:
		return s.taskAsks(ctx, in, t)
	case tasks.Completed, tasks.Failed:
		r, err := s.reply(in.Name, t.Result, in.Connection.WholeResults, in.Outputs)
		if r.Failed = r.Failed || t.Status == tasks.Failed; r.Task != nil || r.Input != nil {
			err = s.at.malformed("the result of the task of tool %q is not one of a call", in.Name)
		}
		return r, err
	case tasks.Cancelled:
		return Result{Text: fmt.Sprintf("the server of tool %q cancelled the task: %s", in.Name, s.at.secrets.text(short(t.Message))), Failed: true}, nil
	}
	return Result{}, s.at.malformed("the task of tool %q has the unknown status %q", in.Name, short(t.Status))
}

// respond answers the requests of a task up to 2025-11-25. It returns answers that go with the next look at the task.
func (s *session) respond(ctx context.Context, in *contract.ToolAnswers) (map[string]json.RawMessage, error) {
	switch {
	case in == nil:
		return nil, nil
	case s.tasks().TellsQuestions():
		return in.Answers, nil
	}
	for _, id := range slices.Sorted(maps.Keys(in.Answers)) {
		if err := s.mcpTransport.respond(ctx, questions.Response(id, in.Answers[id])); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// taskAsks are the questions of a task. One that asks what cannot be answered is cancelled.
func (s *session) taskAsks(ctx context.Context, in *contract.ToolInput, t *tasks.Outcome) (out Result, err error) {
	var r toolResult
	if err := json.Unmarshal(t.Raw, &r); err != nil {
		return Result{}, s.at.malformed("the task of tool %q: %v", in.Name, err)
	}
	if s.tasks().TellsQuestions() && len(r.InputRequests) > 0 {
		out, err = s.inputRequired(in.Name, &r)
	} else {
		out = s.working(in.Name, &t.Task) // it has its answers, and does not go on yet
		if !s.tasks().TellsQuestions() {
			out.Input, err = s.pendingQuestions(ctx, in.TaskID)
		}
	}
	if out.Task = &t.Task.Task; err != nil || out.Input != nil || len(r.InputRequests) == 0 {
		return out, err
	}
	out.Text, out.Task = out.Text+"; the task was cancelled", nil
	return out, s.tasks().Cancel(ctx, in.TaskID)
}

// firstQuestion is how long a server whose task needs input has for its first question.
const firstQuestion = 10 * time.Second

// pendingQuestions returns what a task up to 2025-11-25 asks while its server holds tasks/result; nil if it asks nothing. The
// questions have the ids of the server's requests, which stay open: nobody waits for their answers here.
func (s *session) pendingQuestions(ctx context.Context, id string) (*contract.InputRequired, error) {
	var mu sync.Mutex
	out := &contract.InputRequired{}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(firstQuestion, cancel).Stop()
	run, _, end := s.hold(run, func(_ context.Context, _ int, q contract.ToolQuestion, _ time.Duration) (*contract.ServerAnswer, error) {
		mu.Lock()
		defer mu.Unlock()
		out.Questions = append(out.Questions, q)
		time.AfterFunc(lossGrace, cancel) // others may come with it
		return nil, questions.ErrLater
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

// taskLost is what a server leaves that does not tell of a task. The task may have taken effect.
func (s *session) taskLost(in *contract.ToolInput, p *mcp.JSONRPCErrorDetails) (Result, error) {
	if p.Code == mcp.INTERNAL_ERROR {
		return Result{}, s.at.failure(contract.ClassUnavailable, fmt.Sprintf("the server does not report the task of tool %q (%d): %s", in.Name, p.Code, p.Message), "")
	}
	r, err := s.problem(p)
	r.Text = fmt.Sprintf("outcome unknown: the server no longer knows the task of tool %q, which has expired or was lost (%s); "+
		"the call may have taken effect: find out whether it has before you make it again", in.Name, r.Text)
	return r, err
}
