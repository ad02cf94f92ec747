package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// callTimeout bounds one question to Temporal or to a run's worker.
const callTimeout = 10 * time.Second

// closedTimeout is how long a closed run's worker has to answer: history can answer too.
const closedTimeout = 3 * time.Second

// connect makes a client that says nothing by itself.
func (a *app) connect(ctx context.Context, cfg *config.Config) (*config.Temporal, error) {
	t, err := cfg.Client(ctx, log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		note := func(err error) { a.say("warning: not all of the history can be read: %v", err) }
		t.Client = t.Codec.Reader(t.Store.Reader(t.Client, note), note)
	}
	return t, err
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
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if a.dev != nil && about.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		if err := a.dev.ensureWorker(ctx, temporal, about.queue); err != nil {
			return err
		}
	}
	f := a.newFollower(temporal, args[0], about.run, about.queue)
	return f.toTheEnd(ctx)
}

// about is what Temporal knows of a run.
type about struct {
	run, queue string
	status     enumspb.WorkflowExecutionStatus
	// patience, if set, is how long a question may take.
	patience time.Duration
	// events is how many its history had.
	events int64
	// shares are the run's priority and tenant.
	shares temporal.Priority
}

// ownTypes are the types of workflows that are looked at and ended here: others may have the
// namespace, too.
var ownTypes = []string{contract.WorkflowFlow, contract.WorkflowBranch, contract.WorkflowWebhookDelivery}

// describe looks for a run.
func (a *app) describe(ctx context.Context, t *config.Temporal, id string) (about, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := t.Client.DescribeWorkflowExecution(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return about{}, bad("run %q not found in namespace %q at %s; check the id, or TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE", id, t.Namespace, t.Address)
	}
	if err != nil {
		return about{}, fmt.Errorf("describe the run %q: %w", id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	if kind := info.GetType().GetName(); kind != "" && !slices.Contains(ownTypes, kind) {
		return about{}, bad("%q is not a run of Weft but a workflow of type %q; list runs with: %slist -all", id, plaintext.Line(kind, 100), a.self())
	}
	p := info.GetPriority()
	return about{run: info.GetExecution().GetRunId(), queue: info.GetTaskQueue(), status: info.GetStatus(), events: info.GetHistoryLength(),
		shares: temporal.Priority{PriorityKey: int(p.GetPriorityKey()), FairnessKey: p.GetFairnessKey(), FairnessWeight: p.GetFairnessWeight()}}, nil
}

// result prints the result of a run that has ended.
func (a *app) result(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if about.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		if t := latestTurn(ctx, temporal, args[0]); t != nil {
			return a.concludeTurn(args[0], t)
		}
		return fmt.Errorf("the run %q has no result yet; wait for it with: %sfollow %s", args[0], a.self(), plaintext.ShellQuote(args[0]))
	}
	return a.conclude(ctx, temporal, args[0], about.run)
}

// cancel asks a run to end. What it has done stays.
func (a *app) cancel(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return bad("the run %q is already closed: %s", args[0], history.StatusName(about.status))
	}
	if err := temporal.Client.CancelWorkflow(ctx, args[0], about.run); err != nil {
		return fmt.Errorf("cancel the run %q: %w", args[0], err)
	}
	a.say("requested cancellation of %s; follow it with: %sfollow %s", args[0], a.self(), plaintext.ShellQuote(args[0]))
	return nil
}

// terminate ends a run at once: nothing of it runs any more, not even what would clean up.
func (a *app) terminate(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return bad("the run %q is already closed: %s", args[0], history.StatusName(about.status))
	}
	reason := a.flags.reason
	if reason == "" {
		reason = "starter terminate"
	}
	if err := temporal.Client.TerminateWorkflow(ctx, args[0], about.run, reason); err != nil {
		return fmt.Errorf("terminate the run %q: %w", args[0], err)
	}
	a.say("terminated %s; see what it did with: %stranscript %s", args[0], a.self(), plaintext.ShellQuote(args[0]))
	return nil
}

// find connects and looks for a run. The caller closes the client.
func (a *app) find(ctx context.Context, id string) (*config.Temporal, about, error) {
	temporal, err := a.remote(ctx)
	if err != nil {
		return nil, about{}, err
	}
	found, err := a.describe(ctx, temporal, id)
	if err != nil {
		temporal.Client.Close()
		return nil, about{}, err
	}
	return temporal, found, nil
}
