package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
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
func (s *session) working(name string, t *tasks.Task) reply {
	return reply{text: fmt.Sprintf("tool %q works on it as a task. %s", name, s.at.secrets.text(short(t.Message))), isError: true, task: &t.Task}
}

// task looks at the task that a call has become. It first gives it what it asked for, or cancels it.
func (s *session) task(ctx context.Context, in *contract.ToolInput) (reply, error) {
	if in.CancelTask {
		return reply{text: fmt.Sprintf("the task of tool %q was cancelled", in.Name), isError: true}, s.tasks().Cancel(ctx, in.TaskID)
	}
	var answers map[string]json.RawMessage
	if in.Input != nil {
		answers = in.Input.Answers
	}
	t, err := s.tasks().Look(ctx, in.TaskID, answers)
	switch {
	case err != nil:
		return reply{}, err
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
		if r.isError = r.isError || t.Status == tasks.Failed; r.task != nil || r.input != nil {
			err = s.at.malformed("the result of the task of tool %q is not one of a call", in.Name)
		}
		return r, err
	case tasks.Cancelled:
		return reply{text: fmt.Sprintf("the server of tool %q cancelled the task: %s", in.Name, s.at.secrets.text(short(t.Message))), isError: true}, nil
	}
	return reply{}, s.at.malformed("the task of tool %q has the unknown status %q", in.Name, short(t.Status))
}

// taskAsks are the questions of a task. One that asks what a person cannot answer is cancelled.
func (s *session) taskAsks(ctx context.Context, in *contract.ToolInput, t *tasks.Outcome) (reply, error) {
	var r toolResult
	if err := json.Unmarshal(t.Raw, &r); err != nil {
		return reply{}, s.at.malformed("the task of tool %q: %v", in.Name, err)
	}
	out := reply{text: fmt.Sprintf("tool %q asks for input during a task, which is not supported before protocol version %s", in.Name, mcp.LATEST_PROTOCOL_VERSION), isError: true}
	if s.tasks().Answerable() {
		if len(r.InputRequests) == 0 {
			return s.working(in.Name, &t.Task), nil // it has its answers, and does not go on yet
		}
		var err error
		if out, err = s.inputRequired(in.Name, &r); err != nil || out.input != nil {
			out.task = &t.Task.Task
			return out, err
		}
	}
	out.text += "; the task was cancelled"
	return out, s.tasks().Cancel(ctx, in.TaskID)
}

// taskLost is what a server leaves that does not tell of a task. The task may have taken effect.
func (s *session) taskLost(in *contract.ToolInput, p *mcp.JSONRPCErrorDetails) (reply, error) {
	if p.Code == mcp.INTERNAL_ERROR {
		return reply{}, s.at.failure(contract.ClassUnavailable, fmt.Sprintf("the server does not tell of the task of tool %q (%d): %s", in.Name, p.Code, p.Message), "")
	}
	r, err := s.problem(p)
	r.text = fmt.Sprintf("outcome unknown: the server no longer knows the task of tool %q, which has expired or was lost (%s); "+
		"the call may have taken effect: find out whether it has before you make it again", in.Name, r.text)
	return r, err
}
