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
	plansession "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// Hooks are runs of their own: the hook before a run is a child for which the run waits, the hook after it is started and abandoned.
// Their parameters are not validated against their flow's inputs, because they are those of another flow.

// hookParams returns the parameters of a run as a hook receives them, with the run's text as "prompt".
func hookParams(params json.RawMessage, text string) json.RawMessage {
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	if object, err := pytext.Parse(params); err == nil && text != "" {
		object.Members = append(object.Members, pytext.Member{Key: "prompt", Value: &pytext.Value{Kind: pytext.String, Text: text}})
		return json.RawMessage(object.JSON())
	}
	return params
}

// turnHook runs the hook before a session's turn with a prompt. It returns the prompt as replaced by the hook, or
// unchanged.
func turnHook(ctx workflow.Context, r *runtime.Run, n int, prompt string) (string, error) {
	var changed struct {
		Prompt string `json:"prompt"`
	}
	_, err := beforeHook(ctx, r, nil, prompt, n, func(params json.RawMessage) error {
		if err := json.Unmarshal(params, &changed); err != nil || changed.Prompt == "" {
			return errors.New("the hook's parameters have no prompt, and a turn has no other parameters")
		}
		return nil
	})
	return cmp.Or(changed.Prompt, prompt), err
}

// beforeHook runs the hook before the run's turn n, if any, with the parameters and the text. It fails if the hook blocks the turn.
// It returns the parameters with which the hook replaces them, or nil; validate, if not nil, validates those.
func beforeHook(ctx workflow.Context, r *runtime.Run, params json.RawMessage, text string, n int,
	validate func(json.RawMessage) error) (json.RawMessage, error) {
	if r.Flow.Hooks == nil || r.Flow.Hooks.Before == nil {
		return nil, nil
	}
	hook, id := r.Flow.Hooks.Before, turnID(r.Root+"/hook:on_run_start", n)
	out, problem, err := runHook(ctx, r, hook, hookParams(params, text), id)
	if err != nil {
		return nil, err
	}
	var v plansession.Verdict
	if problem == "" {
		v, err = plansession.ReadVerdict(out.ResultData, out.ResultText)
		if err == nil && !v.Block && v.Params != nil && validate != nil {
			err = validate(v.Params)
		}
		if err != nil {
			problem = "Hook error: " + err.Error()
		}
	}
	if problem != "" {
		v = plansession.Verdict{Block: hook.Block, Reason: problem}
	}
	switch {
	case v.Block:
		return nil, contract.Failf(contract.ClassHookBlocked, "inspect the run of the hook, "+id, "%s", v.Blocked())
	case problem != "":
		workflow.GetLogger(ctx).Warn("the hook before the run failed; the run continues", "problem", problem)
	}
	return v.Params, nil
}

// turnID returns an id that is unique to a turn of a session. For the first turn, and in other runs, it is id itself.
func turnID(id string, turn int) string {
	if turn > 1 {
		return fmt.Sprintf("%s~%d", id, turn)
	}
	return id
}

// admitHook admits the run of a hook, which may use the remaining budget until release.
func admitHook(ctx workflow.Context, r *runtime.Run, c *runtime.Child, hook *plan.Hook, params json.RawMessage) (release func(), err error) {
	flow, src := r.Flow.StartClosure(hook.Flow), r.Source.Sub(hook.Flow)
	in := r.ChildInput()
	in.Flow, in.Params, in.Scope, in.Unchecked, in.OnError = contract.FlowRef{Plan: flow, Source: &src}, params, r.Shared.Scope, true, contract.OnErrorFail
	if c.Outlives {
		in.Owner = "" // it owns its requests: this run ends
	}
	in.Budget, release = r.Budget.Share(nil, 1)
	c.Workflow, c.In = contract.WorkflowFlow, &in
	return release, r.Admit(ctx, c, "the input of the "+c.Summary)
}

// runHook runs the hook before the run. If the hook has no result, problem says why.
func runHook(ctx workflow.Context, r *runtime.Run, hook *plan.Hook, params json.RawMessage, id string) (*contract.RunResult, string, error) {
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
	err = runtime.RetryWhileIDInUse(ctx, id, func() error {
		k := r.Start(hctx, c)
		ended, stopped = wait.For(ctx, time.Duration(hook.Seconds)*time.Second, "limit of the hook", k.Future.IsReady)
		if !ended {
			cancel() // a late result is ignored
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
		// A run that occupies the id must not bypass the hook.
		return nil, "", contract.Failf(contract.ClassHookBlocked, "end that run, and start this one again",
			"cannot start the hook before the run: another run has the id %s", contract.ShortenID(id))
	}
	return nil, "Hook failed: " + contract.FailureOf(err).Text, nil
}

// finishHook starts the hook after a completed run, and does not wait for it. If the hook cannot
// be started, the run does not fail.
func finishHook(ctx workflow.Context, r *runtime.Run, out *contract.RunResult, n int) {
	if r.Flow == nil || r.Flow.Hooks == nil || r.Flow.Hooks.After == nil || out.Yielded != nil {
		return
	}
	hook := r.Flow.Hooks.After
	c := &runtime.Child{ID: turnID(r.Root+"/hook:on_run_finish", n), Summary: "hook after the run", Outlives: true,
		Timeout: time.Duration(hook.Seconds) * time.Second}
	// Its usage is not reported back, so it may use the entire remaining budget, and so may later turns.
	release, err := admitHook(ctx, r, c, hook, resultParams(out))
	defer release()
	if err == nil {
		err = r.Started(ctx, c)
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("the hook after the run was not started", "error", err)
	}
}

// resultParams returns the parameters of a hook after a run: the result if it is an object, else a prompt, else none.
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
