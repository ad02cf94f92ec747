package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/log"

	"weft/activities/contract"
	"weft/worker/config"
)

// callTimeout bounds one question to Temporal or to a run's worker.
const callTimeout = 10 * time.Second

// connect makes a client that says nothing by itself.
func (a *app) connect(ctx context.Context, cfg *config.Config) (*config.Temporal, error) {
	return cfg.Client(ctx, log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
}

// remote connects to Temporal for a command about one run.
func (a *app) remote(ctx context.Context) (*config.Temporal, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.connect(ctx, cfg)
}

// follow follows a run that somebody started, from its first event.
func (a *app) follow(ctx context.Context, args []string) error {
	temporal, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	about, err := a.describe(ctx, temporal, args[0])
	if err != nil {
		return err
	}
	f := a.newFollower(temporal, args[0], about.run)
	f.queue = about.queue
	return f.toTheEnd(ctx)
}

// about is what Temporal knows of a run.
type about struct {
	run, queue string
	status     enumspb.WorkflowExecutionStatus
}

func (a *app) describe(ctx context.Context, t *config.Temporal, id string) (about, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := t.Client.DescribeWorkflowExecution(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return about{}, bad("there is no run %q in namespace %q at %s; check the id, or TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE", id, t.Namespace, t.Address)
	}
	if err != nil {
		return about{}, fmt.Errorf("look for the run %q: %w", id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	return about{run: info.GetExecution().GetRunId(), queue: info.GetTaskQueue(), status: info.GetStatus()}, nil
}

// result prints the result of a run that has ended.
func (a *app) result(ctx context.Context, args []string) error {
	temporal, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	about, err := a.describe(ctx, temporal, args[0])
	if err != nil {
		return err
	}
	if about.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return fmt.Errorf("the run %q has no result yet; wait for it with: starter follow %s", args[0], quoted(args[0]))
	}
	return a.conclude(ctx, temporal, args[0], about.run)
}

// conclude prints the outcome of a closed run: the result, or why there is none.
func (a *app) conclude(ctx context.Context, t *config.Temporal, id, run string) error {
	var res contract.RunResult
	if err := t.Client.GetWorkflow(ctx, id, run).Get(ctx, &res); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.explain(id, contract.FailureOf(err))
		return coded(exitFailed)
	}
	if scripted(res.Model) {
		a.say("the result below comes from scripted answers, not from a model")
	}
	if a.flags.output == "json" {
		raw, err := json.MarshalIndent(res, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
		fmt.Fprintf(a.stdout, "%s\n", raw)
		return nil
	}
	text := string(res.ResultData)
	if res.ResultText != nil {
		text = *res.ResultText
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	fmt.Fprint(a.stdout, text)
	return nil
}

// explain says why a run failed: class, place, text, what led there, what to do.
func (a *app) explain(id string, f *contract.Failure) {
	a.say("starter: run %s failed: %s", id, f.Class)
	if f.Node != "" {
		where := fmt.Sprintf("node %q", clean(f.Node, 200))
		if f.Step > 0 {
			where += fmt.Sprintf(", step %d", f.Step)
		}
		if f.At != "" {
			where += ", " + clean(f.At, 300)
		}
		a.say("  where:  %s", where)
	} else if f.At != "" {
		a.say("  where:  %s", clean(f.At, 300))
	}
	a.say("  what:   %s", clean(f.Text, 2000))
	for _, d := range f.Diagnostics {
		a.say("          %s", clean(d, 500))
	}
	for _, e := range f.Errors {
		a.say("          %s: %s", clean(e.Path, 200), clean(e.Message, 500))
	}
	for _, n := range f.NoRoute {
		a.say("          %s: all conditions said no", clean(n, 200))
	}
	for _, q := range f.Answers {
		a.say("          %s", answerLine(q))
	}
	if f.Remedy != "" {
		a.say("  remedy: %s", clean(f.Remedy, 1000))
	}
}

func answerLine(q contract.Answer) string {
	line := fmt.Sprintf("%s asked %q: %s", clean(q.Execution, 200), clean(q.Question, 300), yesNo(q.Yes))
	if q.Reason != "" {
		line += " (" + clean(q.Reason, 300) + ")"
	}
	return line
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// cancel asks a run to end. What it has done stays.
func (a *app) cancel(ctx context.Context, args []string) error {
	temporal, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	about, err := a.describe(ctx, temporal, args[0])
	if err != nil {
		return err
	}
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return bad("the run %q has ended already: %s", args[0], statusName(about.status))
	}
	if err := temporal.Client.CancelWorkflow(ctx, args[0], about.run); err != nil {
		return fmt.Errorf("cancel the run %q: %w", args[0], err)
	}
	a.say("asked %s to end; see how with: starter follow %s", args[0], quoted(args[0]))
	return nil
}

// statusName is Temporal's status in lower case.
func statusName(s enumspb.WorkflowExecutionStatus) string { return strings.ToLower(s.String()) }
