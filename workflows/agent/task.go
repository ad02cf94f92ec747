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
	// The run polls a task as often as its server suggests, but less often the longer it lasts: each poll adds to the history.
	minPoll, maxPoll = time.Second, 5 * time.Minute
	pollShare        = 50
	// cancelSeconds limits the cancellation of a task.
	cancelSeconds = 30
)

// task is a call that its server continues asynchronously.
type task struct {
	call *toolCall
	// id is the id of the step that waits for the task.
	id string
	// in is the input that polls the task.
	in contract.ToolInput
	// latest is the task's last status, started when it began.
	latest  contract.ToolReply
	started time.Time
	// sent holds the answers sent so far; the server may not have read them yet.
	sent map[string]json.RawMessage
}

// awaitTask waits for the task that a call has become, without occupying a worker, and returns its result. It is one step without
// state: the server has the task, and the journal the answers of users. If the run is cancelled, it cancels the task.
func (c *toolCall) awaitTask(ctx workflow.Context, in contract.ToolInput, created contract.ToolReply) (contract.ToolReply, error) {
	in.Input, in.TaskID = nil, created.Task.ID
	in.Repeat = true // polling is idempotent, and the server accepts an answer once
	k := &task{call: c, id: c.id("tool") + "~task", in: in, latest: created, started: *created.Started, sent: map[string]json.RawMessage{}}
	done := c.agent.run.Requests.AddTask(c.agent.execution.ID + " " + c.tool.As)
	defer done()
	reply, err := c.step(ctx, k.id, contract.HashOf(c.tool.Name, in.TaskID), func(s *journal.Step) (contract.ToolReply, error) {
		s.Task = k.open()
		for k.latest.Task != nil {
			if err := k.poll(ctx, s); err != nil {
				return contract.ToolReply{}, err
			}
		}
		return k.latest, nil
	})
	if err != nil && ctx.Err() != nil {
		k.cancel(ctx)
	}
	setSession(c.agent, c.conn, reply.Session)
	return reply, err
}

// poll waits until the next poll is due, answers the task's questions, and polls the task.
func (k *task) poll(ctx workflow.Context, s *journal.Step) (err error) {
	if err := k.pause(ctx, s); err != nil {
		return err
	}
	if k.in.Input, err = k.answers(ctx); err != nil {
		if _, refused := errors.AsType[*replies.Refused](err); refused {
			k.cancel(ctx)
		}
		return err
	}
	if k.latest, err = k.call.invoke(ctx, s, &k.in); err == nil {
		k.call.agent.run.Policy.Progressed = true
	}
	return err
}

// pause waits until the next poll is due. It yields if the run should continue as new.
func (k *task) pause(ctx workflow.Context, s *journal.Step) error {
	if s.Failure != nil || k.latest.Input != nil {
		return nil // the next poll waits for an operator or a user anyway
	}
	policy, journal := k.call.agent.run.Policy, k.call.agent.execution.Journal
	pause := max(time.Duration(k.latest.Task.PollMillis)*time.Millisecond, min(workflow.Now(ctx).Sub(k.started)/pollShare, maxPoll), minPoll)
	yield, err := wait.For(ctx, pause, k.call.tool.As+" works on a task", func() bool { return policy.ShouldYield(ctx, journal.Weight()) })
	if err == nil && yield {
		return runtime.ErrYield
	}
	return err
}

// answers answers the task's questions; nil if there are none.
func (k *task) answers(ctx workflow.Context) (*contract.ToolAnswers, error) {
	if k.latest.Input == nil {
		return nil, nil
	}
	out := &contract.ToolAnswers{Answers: map[string]json.RawMessage{}}
	fresh := &contract.InputRequired{}
	for _, q := range k.latest.Input.Questions {
		if a := k.sent[questionID(&q)]; a != nil {
			out.Answers[q.Key] = a
		} else {
			fresh.Questions = append(fresh.Questions, q)
		}
	}
	if len(fresh.Questions) == 0 {
		return out, wait.Sleep(ctx, minPoll, k.call.tool.As+" has its answers")
	}
	answers, err := k.call.answerAll(ctx, fresh, 0)
	if err != nil {
		return nil, err
	}
	for i := range fresh.Questions {
		q := &fresh.Questions[i]
		k.sent[questionID(q)], out.Answers[q.Key] = answers.Answers[q.Key], answers.Answers[q.Key]
	}
	return out, nil
}

// open returns the input of the call that cancels the task.
func (k *task) open() *contract.OpenTask {
	session := sessionFor(k.call.agent, k.call.conn)
	return &contract.OpenTask{Queue: session.Queue, Cancel: contract.ToolInput{
		Connection: k.in.Connection, Name: k.in.Name, CallID: k.in.CallID, As: k.in.As, TaskID: k.in.TaskID, CancelTask: true, Repeat: true, Session: session.Sealed}}
}

// cancel cancels the task: its result is no longer needed.
func (k *task) cancel(ctx workflow.Context) {
	CancelTask(ctx, k.call.agent.run, k.id+"~cancel", k.open())
}

// CancelTask cancels a task whose result is no longer needed, even if the run is cancelled. It logs an error.
func CancelTask(ctx workflow.Context, r *runtime.Run, id string, t *contract.OpenTask) {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	var out contract.ToolResult
	call := &runtime.Call{Activity: contract.ActivityCallTool, Args: []any{&t.Cancel}, What: "the call of " + t.Cancel.As, ID: id,
		Summary: "cancel the task of " + t.Cancel.As, Options: r.Options(cancelSeconds), Queue: t.Queue, Out: &out}
	call.Options.ScheduleToCloseTimeout = cancelSeconds * time.Second
	if err := r.Invoke(detached, call); err != nil {
		workflow.GetLogger(ctx).Warn("cannot cancel the task of a tool", "tool", t.Cancel.Name, "error", err)
	}
}
