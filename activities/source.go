package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/tool/serverrequest"
	"weft/workflows/plan"
)

// Source reads transcripts and content of runs.
type Source interface {
	Transcript(ctx context.Context, workflow, run string, q contract.TranscriptQuery) (*contract.TranscriptPage, error)
	Content(ctx context.Context, workflow, run string, q contract.ContentQuery) (*contract.ContentPage, error)
}

// Holder is a [Source] that holds the encoded result of an activity until the run can fetch it.
type Holder interface {
	Hold(ctx context.Context, raw json.RawMessage) (*contract.HeldResult, error)
}

// NewClientSource returns a Source that queries runs, which adds nothing to their histories.
func NewClientSource(c client.Client) Source { return &clientSource{client: c} }

type clientSource struct{ client client.Client }

// queryTimeout bounds one query. Only a query of a run that must be replayed takes more than milliseconds.
const queryTimeout = 20 * time.Second

func (s *clientSource) Transcript(ctx context.Context, workflow, run string, q contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	var page contract.TranscriptPage
	return &page, s.ask(ctx, workflow, run, contract.QueryTranscript, q, &page)
}

func (s *clientSource) Content(ctx context.Context, workflow, run string, q contract.ContentQuery) (*contract.ContentPage, error) {
	var page contract.ContentPage
	return &page, s.ask(ctx, workflow, run, contract.QueryContent, q, &page)
}

// Hold stores the result in a separate run.
func (s *clientSource) Hold(ctx context.Context, raw json.RawMessage) (*contract.HeldResult, error) {
	info, sha := activity.GetInfo(ctx), contract.SHA(raw)
	run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: contract.ShortenID(info.WorkflowExecution.ID + "/held:" + sha[:16]), TaskQueue: info.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, StaticSummary: "the result of " + info.ActivityID,
	}, contract.WorkflowHeldResult, raw)
	if err != nil {
		return nil, &contract.Failure{Class: contract.ClassUnavailable, Text: "hold a result of " + info.ActivityID + ": " + err.Error()}
	}
	return &contract.HeldResult{ContentRef: contract.ContentRef{Workflow: run.GetID(), Run: run.GetRunID(), SHA: sha}, Bytes: len(raw)}, nil
}

// maxUntyped is the number of attempts of a query that fails without a typed reason.
const maxUntyped = 3

// ask queries a run. It retries while the server limits queries, and if a query fails without a
// typed reason: the SDK drops the type if it responds together with a workflow task.
func (s *clientSource) ask(ctx context.Context, workflow, run, query string, arg, out any) error {
	if isLocal(ctx) {
		return errNotLocal
	}
	s.release(ctx, workflow, run)
	untyped := 0
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		qctx, cancel := context.WithTimeout(ctx, queryTimeout)
		v, err := s.client.QueryWorkflow(qctx, workflow, run, query, arg)
		cancel()
		if err == nil {
			return v.Get(out)
		}
		if failed, ok := errors.AsType[*serviceerror.QueryFailed](err); ok && failed.Failure == nil {
			untyped++
		} else if _, busy := errors.AsType[*serviceerror.ResourceExhausted](err); !busy {
			untyped = maxUntyped
		}
		if untyped == maxUntyped {
			return queryFailure(workflow, run, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// release resets the run's sticky task queue on a retry; otherwise a query would first wait for a worker that may
// have died.
func (s *clientSource) release(ctx context.Context, workflow, run string) {
	if !activity.IsActivity(ctx) {
		return
	}
	info := activity.GetInfo(ctx)
	if info.Attempt < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	// If it fails, the query only takes longer.
	_, _ = s.client.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: info.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: run},
	})
}

// queryFailure classifies the error of a query: content that the run does not have is lost; other errors are retried.
func queryFailure(workflow, run string, err error) error {
	f := &contract.Failure{Class: contract.ClassUnavailable,
		Text: fmt.Sprintf("query run %s of %q for its transcript: %v", run, workflow, err)}
	var missing *serviceerror.NotFound
	var failed *serviceerror.QueryFailed
	if errors.As(err, &missing) || errors.As(err, &failed) && failed.Failure.GetApplicationFailureInfo().GetType() == contract.ClassTranscriptLost {
		f.Class = contract.ClassTranscriptLost
		f.Remedy = "start the run again; set the namespace's retention longer than runs refer to each other"
	}
	return f
}

// Asker is a [Source] whose runs answer requests of servers during a call.
type Asker interface {
	AskRun(ctx context.Context, in *contract.ServerRequest) (*contract.ServerAnswer, error)
}

// askRun returns a function that has the activity's run answer a server's request; nil if the run cannot.
func (a *Activities) askRun(ctx context.Context) serverrequest.Ask {
	asker, ok := a.deps.Source.(Asker)
	if !ok || isLocal(ctx) {
		return nil
	}
	info := activity.GetInfo(ctx)
	return func(ctx context.Context, n int, q contract.ToolQuestion, within time.Duration) (*contract.ServerAnswer, error) {
		in := &contract.ServerRequest{Call: info.ActivityID, Attempt: info.Attempt, N: n, Question: q, Timeout: plan.Seconds(max(1, int(within.Seconds())))}
		out, err := asker.AskRun(ctx, in)
		if err != nil && ctx.Err() != nil {
			// The call has ended, or the server has cancelled the request.
			quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
			defer cancel()
			_, _ = asker.AskRun(quiet, &contract.ServerRequest{Call: in.Call, Attempt: in.Attempt, N: n, Withdrawn: true}) // otherwise the request is open until the call ends
		}
		return out, err
	}
}

const withdrawTimeout = 5 * time.Second

// AskRun sends the request to the run as an Update. It retries while the run has too many open.
func (s *clientSource) AskRun(ctx context.Context, in *contract.ServerRequest) (*contract.ServerAnswer, error) {
	run := activity.GetInfo(ctx).WorkflowExecution
	for try := 1; ; try++ {
		out := &contract.ServerAnswer{}
		h, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: run.ID, RunID: run.RunID, UpdateName: contract.UpdateServerRequest, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
			UpdateID: fmt.Sprintf("%s/%d/%d/%t/%d", in.Call, in.Attempt, in.N, in.Withdrawn, try),
		})
		if err == nil {
			err = h.Get(ctx, out)
		}
		if err == nil {
			return out, nil
		}
		f := contract.FailureOf(err)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if f.Class != contract.ClassUnavailable {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
