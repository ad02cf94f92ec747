package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

const (
	// The run looks at a task as often as its server wants, but less often the longer the task lasts: each time adds to
	// the history.
	minPoll, maxPoll = time.Second, 5 * time.Minute
	pollShare        = 50
	// cancelSeconds bounds the cancellation of a task.
	cancelSeconds = 30
)

// awaitTask waits for the task that a call has become, without a worker, and returns its result. It is one step without state
// of its own: the server has the task, and the journal the answers of people. A run that is cancelled cancels the task.
func (c *toolCall) awaitTask(ctx workflow.Context, t *plan.Tool, b *contract.ResolvedConnection, in contract.ToolInput, args json.RawMessage, created contract.ToolReply) (contract.ToolReply, error) {
	id, r := c.id("tool")+"~task", c.agentRun.run
	shown := c.agentRun.execution.ID + " " + t.As
	r.Tasks = append(r.Tasks, shown)
	defer func() {
		i := slices.Index(r.Tasks, shown)
		r.Tasks = slices.Delete(r.Tasks, i, i+1)
	}()
	reply, err := c.toolStep(ctx, id, runtime.HashOf(t.Name, in.TaskID), func(s *runtime.JournalStep, reply *contract.ToolReply) error {
		at, given := created, map[string]json.RawMessage{}
		in.Repeat = true // looking at a task changes nothing, and an answer is taken once
		for at.Task != nil {
			if err := c.pauseForTask(ctx, t, &at, created.Started, s); err != nil {
				return err
			}
			var err error
			if in.Input, err = c.answerTask(ctx, t, at.Input, args, given); err != nil {
				return err
			}
			var out contract.ToolResult
			call := c.invocation(b, &in, id, &out)
			call.Waiting = &s.JournalStep
			if err = c.agentRun.run.Invoke(ctx, call); err != nil {
				*reply, err = c.agentRun.toolFailed(call, err)
				return err
			}
			at, c.agentRun.run.Policy.Moved = toolReply(&out), true
		}
		*reply = at
		return nil
	})
	if ctx.Err() != nil {
		c.cancelTask(ctx, b, in, id)
	}
	return reply, err
}

// pauseForTask waits until it is time to look at a task again. It yields where the run wants to continue as new.
func (c *toolCall) pauseForTask(ctx workflow.Context, t *plan.Tool, at *contract.ToolReply, started *time.Time, s *runtime.JournalStep) error {
	if s.Failure != nil || at.Input != nil {
		return nil // an operator, or a person, is to be waited for
	}
	policy, journal := c.agentRun.run.Policy, c.agentRun.execution.Journal
	pause := max(time.Duration(at.Task.PollMillis)*time.Millisecond, min(workflow.Now(ctx).Sub(*started)/pollShare, maxPoll), minPoll)
	yield, err := runtime.AwaitFor(ctx, pause, t.As+" works on a task", func() bool { return policy.ShouldYield(ctx, journal.Weight()) })
	if err == nil && yield {
		return runtime.ErrYield
	}
	return err
}

// answerTask gets the answers that a task asks for. given has those that the server may not have read yet.
func (c *toolCall) answerTask(ctx workflow.Context, t *plan.Tool, in *contract.InputRequired, args json.RawMessage, given map[string]json.RawMessage) (*contract.ToolAnswers, error) {
	if in == nil {
		return nil, nil
	}
	out := &contract.ToolAnswers{Answers: map[string]json.RawMessage{}}
	fresh := &contract.InputRequired{}
	for _, q := range in.Questions {
		if a := given[questionID(&q)]; a != nil {
			out.Answers[q.Key] = a
		} else {
			fresh.Questions = append(fresh.Questions, q)
		}
	}
	if len(fresh.Questions) == 0 {
		return out, runtime.Pause(ctx, minPoll, t.As+" has its answers")
	}
	answers, err := c.answer(ctx, t, fresh, args, 0)
	if err != nil {
		return nil, err
	}
	for i := range fresh.Questions {
		q := &fresh.Questions[i]
		given[questionID(q)] = answers.Answers[q.Key]
	}
	maps.Copy(out.Answers, answers.Answers)
	return out, nil
}

// questionID tells a question of a task from its others.
func questionID(q *contract.ToolQuestion) string {
	return runtime.HashOf(q.Key, q.Text, string(q.Schema), q.URL)
}

// cancelTask cancels a task whose result nobody waits for. That it fails changes nothing.
func (c *toolCall) cancelTask(ctx workflow.Context, b *contract.ResolvedConnection, in contract.ToolInput, id string) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	var out contract.ToolResult
	in.CancelTask, in.Input = true, nil
	call := c.invocation(b, &in, id+"~cancel", &out)
	call.Options.StartToCloseTimeout, call.Options.ScheduleToCloseTimeout = cancelSeconds*time.Second, cancelSeconds*time.Second
	if err := c.agentRun.run.Invoke(quiet, call); err != nil {
		workflow.GetLogger(ctx).Warn("A task of a tool was not cancelled.", "tool", in.Name, "error", fmt.Sprint(err))
	}
}
