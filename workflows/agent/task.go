package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/questions"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

const (
	// The run looks at a task as often as its server wants, but less often the longer the task lasts: each time adds to
	// the history.
	minPoll, maxPoll = time.Second, 5 * time.Minute
	pollShare        = 50
	// cancelSeconds bounds the cancellation of a task.
	cancelSeconds = 30
)

// task is a call that its server goes on with by itself.
type task struct {
	tool *plan.Tool
	call *toolCall
	conn *contract.ResolvedConnection
	// in asks for the task.
	in   contract.ToolInput
	args json.RawMessage
	id   string
	// at is how the task stands, started when it began.
	at      contract.ToolReply
	started time.Time
	// given are answers that the server may not have read yet.
	given map[string]json.RawMessage
}

// awaitTask waits for the task that a call has become, without a worker, and returns its result. It is one step without state
// of its own: the server has the task, and the journal the answers of people. A run that is cancelled cancels the task.
func awaitTask(ctx workflow.Context, c *toolCall, t *plan.Tool, b *contract.ResolvedConnection, in contract.ToolInput, args json.RawMessage, created contract.ToolReply) (contract.ToolReply, error) {
	in.Input, in.TaskID = nil, created.Task.ID
	in.Repeat = true // looking at a task changes nothing, and an answer is taken once
	k := &task{tool: t, call: c, conn: b, in: in, args: args, id: c.id("tool") + "~task", started: *created.Started}
	done := c.agentRun.run.Requests.AddTask(c.agentRun.execution.ID + " " + t.As)
	defer done()
	reply, err := c.toolStep(ctx, k.id, runtime.HashOf(t.Name, in.TaskID), func(s *journal.Step, reply *contract.ToolReply) error {
		k.at, k.given, s.Task = created, map[string]json.RawMessage{}, k.open()
		for k.at.Task != nil {
			if failed, err := k.look(ctx, s); failed != nil || err != nil {
				if failed != nil {
					*reply = *failed
				}
				return err
			}
		}
		*reply = k.at
		return nil
	})
	if ctx.Err() != nil {
		k.cancel(ctx)
	}
	return reply, err
}

// look waits until it is time, and for the answers that the task asks for, and looks at it. The reply is that of a look that
// failed, if it is not an error.
func (k *task) look(ctx workflow.Context, s *journal.Step) (failed *contract.ToolReply, err error) {
	if err := k.pause(ctx, s); err != nil {
		return nil, err
	}
	var refused *contract.ToolReply
	if k.in.Input, refused, err = k.answers(ctx); err != nil || refused != nil {
		if refused != nil {
			k.cancel(ctx)
		}
		return refused, err
	}
	var out contract.ToolResult
	call := k.call.invocation(k.conn, &k.in, k.id, &out)
	call.Waiting = &s.JournalStep
	run := k.call.agentRun.run
	if err = run.Invoke(ctx, call); err != nil {
		reply, err := k.call.agentRun.toolFailed(call, err)
		return &reply, err
	}
	k.at, run.Policy.Moved = replied(k.call.agentRun, k.conn, &out), true
	return nil, nil
}

// pause waits until it is time to look at the task again. It yields where the run wants to continue as new.
func (k *task) pause(ctx workflow.Context, s *journal.Step) error {
	if s.Failure != nil || k.at.Input != nil {
		return nil // an operator, or a person, is to be waited for
	}
	policy, journal := k.call.agentRun.run.Policy, k.call.agentRun.execution.Journal
	pause := max(time.Duration(k.at.Task.PollMillis)*time.Millisecond, min(workflow.Now(ctx).Sub(k.started)/pollShare, maxPoll), minPoll)
	yield, err := wait.For(ctx, pause, k.tool.As+" works on a task", func() bool { return policy.ShouldYield(ctx, journal.Weight()) })
	if err == nil && yield {
		return runtime.ErrYield
	}
	return err
}

// answers gets the answers that the task asks for.
func (k *task) answers(ctx workflow.Context) (_ *contract.ToolAnswers, refused *contract.ToolReply, _ error) {
	if k.at.Input == nil {
		return nil, nil, nil
	}
	out := &contract.ToolAnswers{Answers: map[string]json.RawMessage{}}
	fresh := &contract.InputRequired{}
	for _, q := range k.at.Input.Questions {
		if a := k.given[questions.ID(&q)]; a != nil {
			out.Answers[q.Key] = a
		} else {
			fresh.Questions = append(fresh.Questions, q)
		}
	}
	if len(fresh.Questions) == 0 {
		return out, nil, wait.Pause(ctx, minPoll, k.tool.As+" has its answers")
	}
	answers, refused, err := k.call.questions(k.tool, k.args).Answer(ctx, fresh, 0)
	if err != nil || refused != nil {
		return nil, refused, err
	}
	for i := range fresh.Questions {
		q := &fresh.Questions[i]
		k.given[questions.ID(q)], out.Answers[q.Key] = answers.Answers[q.Key], answers.Answers[q.Key]
	}
	return out, nil, nil
}

// open is the task as what cancels it.
func (k *task) open() *contract.OpenTask {
	session := k.call.agentRun.servedBy(k.conn)
	return &contract.OpenTask{Queue: session.Queue, Cancel: contract.ToolInput{
		Connection: k.in.Connection, Name: k.in.Name, CallID: k.in.CallID, As: k.in.As, TaskID: k.in.TaskID, CancelTask: true, Repeat: true, Session: session.Sealed}}
}

// cancel ends a task whose result nobody waits for.
func (k *task) cancel(ctx workflow.Context) {
	CancelTask(ctx, k.call.agentRun.run, k.id+"~cancel", k.open())
}

// CancelTask cancels a task whose result nobody waits for, whether the run is cancelled or not. That it fails changes nothing.
func CancelTask(ctx workflow.Context, r *runtime.Run, id string, t *contract.OpenTask) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	var out contract.ToolResult
	call := &runtime.Call{Activity: contract.ActivityCallTool, Args: []any{&t.Cancel}, What: "the call of " + t.Cancel.As, ID: id,
		Summary: "cancel the task of " + t.Cancel.As, Options: r.Options(cancelSeconds), Queue: t.Queue, Out: &out}
	call.Options.ScheduleToCloseTimeout = cancelSeconds * time.Second
	if err := r.Invoke(quiet, call); err != nil {
		workflow.GetLogger(ctx).Warn("A task of a tool was not cancelled.", "tool", t.Cancel.Name, "error", fmt.Sprint(err))
	}
}
