package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
	words "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// Hooks are runs of their own: the one before a run is a child that the run waits for, the one after it is started and left alone.
// What they are given is not checked against what their flow declares, because it is made for another flow.

// given are the parameters of a run as a hook gets them, with the text that came with them.
func given(params json.RawMessage, text string) json.RawMessage {
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	if object, err := pytext.Parse(params); err == nil && text != "" {
		object.Members = append(object.Members, pytext.Member{Key: "prompt", Value: &pytext.Value{Kind: pytext.String, Text: text}})
		return json.RawMessage(object.JSON())
	}
	return params
}

// turnHook runs the hook before a session's turn that somebody asked for. It gives the prompt
// that the hook makes of it, or the same.
func turnHook(ctx workflow.Context, r *runtime.Run, n int, prompt string) (string, error) {
	var own struct {
		Prompt string `json:"prompt"`
	}
	_, err := askHook(ctx, r, nil, prompt, n, func(params json.RawMessage) error {
		if err := json.Unmarshal(params, &own); err != nil || own.Prompt == "" {
			return errors.New("a turn has a prompt and nothing else, and the hook's parameters have none")
		}
		return nil
	})
	return cmp.Or(own.Prompt, prompt), err
}

// askHook has the hook before the run's turn n, if there is one, say whether it goes on with the parameters and the text that it is
// given. It gives the parameters that the hook wants instead, nil if none; fit, if not nil, says what is wrong with them.
func askHook(ctx workflow.Context, r *runtime.Run, params json.RawMessage, text string, n int,
	fit func(json.RawMessage) error) (json.RawMessage, error) {
	if r.Flow.Hooks == nil || r.Flow.Hooks.Before == nil {
		return nil, nil
	}
	hook, id := r.Flow.Hooks.Before, turnID(r.Root+"/hook:on_run_start", n)
	out, problem, err := consultHook(ctx, r, hook, given(params, text), id)
	if err != nil {
		return nil, err
	}
	var v words.Verdict
	if problem == "" {
		v, err = words.ReadVerdict(out.ResultData, out.ResultText)
		if err == nil && !v.Block && v.Params != nil && fit != nil {
			err = fit(v.Params)
		}
		if err != nil {
			problem = "Hook error: " + err.Error()
		}
	}
	if problem != "" {
		v = words.Verdict{Block: hook.Block, Reason: problem}
	}
	switch {
	case v.Block:
		return nil, contract.Failf(contract.ClassHookBlocked, "look at the run of the hook, "+id, "%s", v.Blocked())
	case problem != "":
		workflow.GetLogger(ctx).Warn("the hook before the run failed; the run goes on", "problem", problem)
	}
	return v.Params, nil
}

// turnID is an id at a turn of a session; of the first, and in runs that are no sessions, it is the same.
func turnID(id string, turn int) string {
	if turn > 1 {
		return fmt.Sprintf("%s~%d", id, turn)
	}
	return id
}

// admitHook admits the run of a hook, which has what is left of the budget until release.
func admitHook(ctx workflow.Context, r *runtime.Run, c *runtime.Child, hook *plan.Hook, params json.RawMessage) (release func(), err error) {
	flow, src := r.Flow.StartClosure(hook.Flow), r.Source.Sub(hook.Flow)
	in := r.Below()
	in.Flow, in.Params, in.Scope, in.Unchecked, in.OnError = contract.FlowRef{Plan: flow, Source: &src}, params, r.Shared.Scope, true, contract.OnErrorFail
	if c.Outlives {
		in.Owner = "" // its own: this run ends
	}
	in.Budget, release = r.Budget.Share(nil, 1)
	c.Workflow, c.In = contract.WorkflowFlow, &in
	return release, r.Admit(ctx, c, "what the "+c.Summary+" is given")
}

// consultHook runs the hook before the run. The problem is why it has no result.
func consultHook(ctx workflow.Context, r *runtime.Run, hook *plan.Hook, params json.RawMessage, id string) (*contract.RunResult, string, error) {
	c := &runtime.Child{ID: id, Summary: "hook before the run"}
	release, err := admitHook(ctx, r, c, hook, params)
	defer release()
	if err != nil {
		return nil, "", err
	}
	hctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	var out contract.RunResult
	var ended bool
	var stopped error
	err = runtime.WhileTaken(ctx, id, func() error {
		k := r.Start(hctx, c)
		ended, stopped = wait.For(ctx, time.Duration(hook.Seconds)*time.Second, "limit of the hook", k.Future.IsReady)
		if !ended {
			cancel() // it is too late, whatever it says now
		}
		return k.Result(ctx, &out)
	})
	r.Budget.Charge(nil, &out, err)
	switch {
	case stopped != nil:
		return nil, "", stopped
	case !ended:
		return nil, fmt.Sprintf("Hook timed out after %ds", hook.Seconds), nil
	case err == nil:
		return &out, "", nil
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case runtime.AlreadyStarted(err):
		// Whoever has taken the id must not get past the hook by that.
		return nil, "", contract.Failf(contract.ClassHookBlocked, "end that run, and start this one again",
			"the hook before the run did not start: another run has the id %s", contract.BoundID(id))
	}
	return nil, "Hook failed: " + contract.FailureOf(err).Text, nil
}

// finishHook starts the hook after a run that has completed, and does not wait for it. That it cannot
// be started is no failure of the run.
func finishHook(ctx workflow.Context, r *runtime.Run, out *contract.RunResult, n int) {
	if r.Flow == nil || r.Flow.Hooks == nil || r.Flow.Hooks.After == nil || out.Yielded != nil {
		return
	}
	hook := r.Flow.Hooks.After
	c := &runtime.Child{ID: turnID(r.Root+"/hook:on_run_finish", n), Summary: "hook after the run", Outlives: true,
		Timeout: time.Duration(hook.Seconds) * time.Second}
	// Nobody waits for what it spends, so it has what is left now, and so have later turns.
	release, err := admitHook(ctx, r, c, hook, resultParams(out))
	defer release()
	if err == nil {
		err = r.Started(ctx, c)
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("the hook after the run was not started", "error", err)
	}
}

// resultParams are the parameters of a hook after a run: data that is an object, else a prompt, else nothing.
func resultParams(out *contract.RunResult) json.RawMessage {
	prompt := string(out.ResultData)
	switch {
	case len(out.ResultData) > 0 && out.ResultData[0] == '{':
		return out.ResultData
	case len(out.ResultData) > 0:
	case out.ResultText != nil:
		prompt = *out.ResultText
	default:
		return json.RawMessage("{}")
	}
	raw, _ := json.Marshal(map[string]string{"prompt": prompt})
	return raw
}
