package agent

import (
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/replies"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

const (
	// The run looks at a task as often as its server wants, but less often the longer it lasts: each look adds to the history.
	minPoll, maxPoll = time.Second, 5 * time.Minute
	pollShare        = 50
	// cancelSeconds bounds the cancellation of a task.
	cancelSeconds = 30
)

// task is a call that its server goes on with by itself.
type task struct {
	call *toolCall
	// id is that of the step that waits for the task.
	id string
	// in asks for the task.
	in contract.ToolInput
	// at is how the task stands, started when it began.
	at      contract.ToolReply
	started time.Time
	// given are answers that the server may not have read yet.
	given map[string]json.RawMessage
}

// awaitTask waits for the task that a call has become, without a worker, and returns its result. It is one step without state
// of its own: the server has the task, and the journal the answers of people. A run that is cancelled cancels the task.
func (c *toolCall) awaitTask(ctx workflow.Context, in contract.ToolInput, created contract.ToolReply) (contract.ToolReply, error) {
	in.Input, in.TaskID = nil, created.Task.ID
	in.Repeat = true // looking at a task changes nothing, and an answer is taken once
	k := &task{call: c, id: c.id("tool") + "~task", in: in, at: created, started: *created.Started, given: map[string]json.RawMessage{}}
	done := c.agent.run.Requests.AddTask(c.agent.execution.ID + " " + c.tool.As)
	defer done()
	reply, err := c.step(ctx, k.id, contract.HashOf(c.tool.Name, in.TaskID), func(s *journal.Step) (contract.ToolReply, error) {
		s.Task = k.open()
		for k.at.Task != nil {
			if err := k.look(ctx, s); err != nil {
				return contract.ToolReply{}, err
			}
		}
		return k.at, nil
	})
	if err != nil && ctx.Err() != nil {
		k.cancel(ctx)
	}
	serve(c.agent, c.conn, reply.Session)
	return reply, err
}

// look waits until it is time, and for the answers that the task asks for, and looks at it.
func (k *task) look(ctx workflow.Context, s *journal.Step) (err error) {
	if err := k.pause(ctx, s); err != nil {
		return err
	}
	if k.in.Input, err = k.answers(ctx); err != nil {
		if _, refused := errors.AsType[*replies.Refused](err); refused {
			k.cancel(ctx)
		}
		return err
	}
	if k.at, err = k.call.invoke(ctx, s, &k.in); err == nil {
		k.call.agent.run.Policy.Moved = true
	}
	return err
}

// pause waits until it is time to look at the task again. It yields where the run wants to continue as new.
func (k *task) pause(ctx workflow.Context, s *journal.Step) error {
	if s.Failure != nil || k.at.Input != nil {
		return nil // an operator, or a person, is to be waited for
	}
	policy, journal := k.call.agent.run.Policy, k.call.agent.execution.Journal
	pause := max(time.Duration(k.at.Task.PollMillis)*time.Millisecond, min(workflow.Now(ctx).Sub(k.started)/pollShare, maxPoll), minPoll)
	yield, err := wait.For(ctx, pause, k.call.tool.As+" works on a task", func() bool { return policy.ShouldYield(ctx, journal.Weight()) })
	if err == nil && yield {
		return runtime.ErrYield
	}
	return err
}

// answers gets the answers that the task asks for.
func (k *task) answers(ctx workflow.Context) (*contract.ToolAnswers, error) {
	if k.at.Input == nil {
		return nil, nil
	}
	out := &contract.ToolAnswers{Answers: map[string]json.RawMessage{}}
	fresh := &contract.InputRequired{}
	for _, q := range k.at.Input.Questions {
		if a := k.given[questionID(&q)]; a != nil {
			out.Answers[q.Key] = a
		} else {
			fresh.Questions = append(fresh.Questions, q)
		}
	}
	if len(fresh.Questions) == 0 {
		return out, wait.Pause(ctx, minPoll, k.call.tool.As+" has its answers")
	}
	answers, err := k.call.answerAll(ctx, fresh, 0)
	if err != nil {
		return nil, err
	}
	for i := range fresh.Questions {
		q := &fresh.Questions[i]
		k.given[questionID(q)], out.Answers[q.Key] = answers.Answers[q.Key], answers.Answers[q.Key]
	}
	return out, nil
}

// open is the task as what cancels it.
func (k *task) open() *contract.OpenTask {
	session := servedBy(k.call.agent, k.call.conn)
	return &contract.OpenTask{Queue: session.Queue, Cancel: contract.ToolInput{
		Connection: k.in.Connection, Name: k.in.Name, CallID: k.in.CallID, As: k.in.As, TaskID: k.in.TaskID, CancelTask: true, Repeat: true, Session: session.Sealed}}
}

// cancel ends a task whose result nobody waits for.
func (k *task) cancel(ctx workflow.Context) {
	CancelTask(ctx, k.call.agent.run, k.id+"~cancel", k.open())
}

// CancelTask cancels a task whose result nobody waits for, whether the run is cancelled or not. That it fails changes nothing.
func CancelTask(ctx workflow.Context, r *runtime.Run, id string, t *contract.OpenTask) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	var out contract.ToolResult
	call := &runtime.Call{Activity: contract.ActivityCallTool, Args: []any{&t.Cancel}, What: "the call of " + t.Cancel.As, ID: id,
		Summary: "cancel the task of " + t.Cancel.As, Options: r.Options(cancelSeconds), Queue: t.Queue, Out: &out}
	call.Options.ScheduleToCloseTimeout = cancelSeconds * time.Second
	if err := r.Invoke(quiet, call); err != nil {
		workflow.GetLogger(ctx).Warn("A task of a tool was not cancelled.", "tool", t.Cancel.Name, "error", err)
	}
}
