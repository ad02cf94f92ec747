package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/serve"
	"weft/starter/transcript"
	"weft/worker/config"
)

// What a run that was started over HTTP has in its memo beside the contract's.
const (
	memoSession = "session_id"
	memoRequest = "request_hash"
)

// runs is what is behind the HTTP door: Temporal, asked as the commands ask it.
type runs struct {
	a   *app
	cfg *config.Config
	t   *config.Temporal
}

func newRuns(a *app, cfg *config.Config, t *config.Temporal) *runs {
	// A defect in one request must not end those of others.
	quiet := *a
	quiet.quit = nil
	return &runs{a: &quiet, cfg: cfg, t: t}
}

// away says that Temporal cannot be reached, or not in time.
func away(err error) bool {
	var missing *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	var busy *serviceerror.ResourceExhausted
	return errors.As(err, &missing) || errors.As(err, &late) || errors.As(err, &busy) || errors.Is(err, context.DeadlineExceeded)
}

// Start starts a run, once for each id for as long as Temporal keeps it.
func (s *runs) Start(ctx context.Context, wanted *serve.Start) (*serve.Run, bool, error) {
	memo := map[string]any{memoRequest: wanted.Hash}
	if wanted.Session != "" {
		memo[memoSession] = wanted.Session
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	run, err := launch(limited, s.t, client.StartWorkflowOptions{
		ID: wanted.ID, TaskQueue: s.cfg.TaskQueue, Memo: memo,
		Priority:                                 temporal.Priority{FairnessKey: callerFairnessKey(wanted.Caller)},
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, wanted.Input)
	var there *serviceerror.WorkflowExecutionAlreadyStarted
	var invalid *serviceerror.InvalidArgument
	switch {
	case errors.As(err, &there):
		found, err := s.Find(ctx, wanted.ID)
		if err != nil {
			return nil, false, serve.NewProblem(serve.RunExists, "choose another id", "something else than a run of a flow has the id %q", wanted.ID)
		}
		return found, true, nil
	case errors.As(err, &invalid):
		return nil, false, serve.NewProblem(serve.BadRequest, "correct it", "Temporal refuses the run: %v", err)
	case err != nil:
		return nil, false, problemOf(fmt.Errorf("start the run %q: %w", wanted.ID, err))
	}
	return &serve.Run{ID: run.GetID(), Current: run.GetRunID(), First: run.GetRunID(), Queue: s.cfg.TaskQueue, Session: wanted.Session,
		Hash: wanted.Hash, Flow: wanted.Input.Flow.Plan.Name, Status: contract.StatusRunning, Started: time.Now()}, false, nil
}

// Find looks for a run of a flow. Other workflows of the namespace are none of the door's
// business.
func (s *runs) Find(ctx context.Context, id string) (*serve.Run, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	workflow, turn := serve.SplitTurn(id)
	d, err := s.t.Client.DescribeWorkflowExecution(limited, workflow, "")
	info := d.GetWorkflowExecutionInfo()
	var missing *serviceerror.NotFound
	var invalid *serviceerror.InvalidArgument
	switch {
	case errors.As(err, &missing), errors.As(err, &invalid), err == nil && info.GetType().GetName() != contract.WorkflowFlow:
		return nil, serve.NewProblem(serve.UnknownRun, "check the id; the runs there are stand at /runs", "there is no run %.300q", id)
	case err != nil:
		return nil, problemOf(fmt.Errorf("describe the run %q: %w", id, err))
	}
	l := runOf(info, time.Now())
	run := runFrom(&l)
	run.ID = id
	run.Hash, run.Current, run.First = text(info.GetMemo().GetFields()[memoRequest]), info.GetExecution().GetRunId(), info.GetFirstRunId()
	kept := info.GetMemo().GetFields()[contract.MemoSession] != nil || info.GetParentExecution() != nil || l.Status == contract.StatusIdle
	return run, s.asTurn(ctx, run, turn, kept)
}

func runFrom(l *listed) *serve.Run {
	return &serve.Run{ID: l.ID, Flow: l.Flow, Status: l.Status, Started: l.Started, Closed: l.Closed, Queue: l.queue, Session: l.session}
}

// List asks for one page. Temporal finds what it can tell, the rest is left out here, so that
// a page may have fewer runs than asked for.
func (s *runs) List(ctx context.Context, q serve.ListQuery) ([]serve.Run, string, error) {
	asking := &app{flags: flags{name: q.Flow, status: q.Status, all: true, limit: q.Limit}}
	wanted, err := asking.filter(ctx, s.t)
	if err != nil {
		return nil, "", problemOf(err)
	}
	token, ok := readToken(q.Token)
	if !ok {
		return nil, "", badToken(q.Token)
	}
	out := []serve.Run{}
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: s.t.Namespace, PageSize: int32(q.Limit), Query: rootsQuery(wanted), NextPageToken: token}
	for {
		page, err := listPage(ctx, s.t, request)
		var invalid *serviceerror.InvalidArgument
		if errors.As(err, &invalid) && q.Token != "" {
			return nil, "", badToken(q.Token)
		}
		if err != nil {
			return nil, "", problemOf(err)
		}
		for _, info := range page.GetExecutions() {
			if l := runOf(info, time.Now()); wanted.keep(&l) {
				out = append(out, *runFrom(&l))
			}
		}
		request.NextPageToken = page.GetNextPageToken()
		if len(out) > 0 || len(request.NextPageToken) == 0 {
			return out, writeToken(request.NextPageToken), nil
		}
	}
}

// sumBytes is how much of its hash a token of a list carries: Temporal does not answer at all
// where a token is none of its own.
const sumBytes = 6

func writeToken(token []byte) string {
	if len(token) == 0 {
		return ""
	}
	sum := sha256.Sum256(token)
	return base64.RawURLEncoding.EncodeToString(append(sum[:sumBytes:sumBytes], token...))
}

func readToken(s string) ([]byte, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || s == "" || len(raw) <= sumBytes {
		return nil, s == ""
	}
	sum := sha256.Sum256(raw[sumBytes:])
	return raw[sumBytes:], bytes.Equal(sum[:sumBytes], raw[:sumBytes])
}

func badToken(token string) error {
	return serve.NewProblem(serve.BadRequest, "take it from next_page_token of the page before", "the page_token is %.300q", token)
}

// Await waits for the end of a run, through all that it continues as.
func (s *runs) Await(ctx context.Context, run *serve.Run) error {
	if run.Kept {
		return s.awaitTurn(ctx, run)
	}
	err := s.t.Client.GetWorkflow(ctx, workflowOf(run), run.Current).Get(ctx, nil)
	var ended *temporal.WorkflowExecutionError
	if errors.As(err, &ended) {
		return nil
	}
	return problemOf(err)
}

// Outcome reads how a run ended.
func (s *runs) Outcome(ctx context.Context, run *serve.Run) (*contract.RunResult, *contract.Failure, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if run.Kept {
		if t := s.turn(ctx, run); t != nil {
			res, failure := outcomeOf(t)
			return res, failure, nil
		}
	}
	var res contract.RunResult
	err := s.t.Client.GetWorkflow(limited, workflowOf(run), run.Current).Get(limited, &res)
	var ended *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		return &res, nil, nil
	case !errors.As(err, &ended):
		return nil, nil, problemOf(fmt.Errorf("read the result of %q: %w", run.ID, err))
	}
	f := contract.FailureOf(err)
	if status := statusOf(err); status != endFailed {
		f.Class = status
	}
	if f.Class == endTerminated {
		if why := terminatedWhy(ctx, s.t, workflowOf(run), run.Current); why != "" {
			f.Text += ": " + why
		}
	}
	return nil, f, nil
}

// aboutOf is a run as the commands know it.
func aboutOf(run *serve.Run) about {
	status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if run.Closed != nil {
		for n := range enumspb.WorkflowExecutionStatus_name {
			if s := enumspb.WorkflowExecutionStatus(n); history.StatusName(s) == run.Status {
				status = s
			}
		}
	}
	return about{run: run.Current, queue: run.Queue, status: status}
}

// Status asks a run's worker, and for a run that has ended history if no worker is there.
func (s *runs) Status(ctx context.Context, run *serve.Run) (*contract.Status, error) {
	st, _, err := standing(ctx, s.t, workflowOf(run), aboutOf(run))
	if err == nil && st.Executions == nil {
		st.Executions = []contract.Execution{}
	}
	return st, problemOf(err)
}

// State asks a run's worker.
func (s *runs) State(ctx context.Context, run *serve.Run) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	return values, problemOf(ask(ctx, s.t, workflowOf(run), aboutOf(run), contract.QueryState, &values))
}

// Transcript reads the histories of a run and of its children.
func (s *runs) Transcript(ctx context.Context, run *serve.Run) ([]serve.Line, []string, error) {
	read, err := transcript.Read(ctx, history.From(s.t.Client), workflowOf(run), run.Current)
	if err != nil {
		return nil, nil, problemOf(err)
	}
	var out []serve.Line
	for _, t := range read.Threads() {
		for n, m := range t.Messages {
			out = append(out, serve.Line{Thread: t.Thread, N: n, Message: m})
		}
	}
	return out, read.Missing, nil
}

// answerProblems are the problems of answers that a run refuses, by the failure's class.
var answerProblems = map[string]string{
	contract.ClassBadRequest: serve.InvalidAnswer, contract.ClassSchema: serve.InvalidAnswer, contract.ClassTooLarge: serve.TooLarge,
	contract.ClassUnknownRequest: serve.UnknownRequest, contract.ClassAlreadyAnswered: serve.AlreadyAnswered,
	contract.ClassUnavailable: serve.Busy, contract.ClassStateTooLarge: serve.RunEnded,
}

// Answer sends an Update and waits for its receipt.
func (s *runs) Answer(ctx context.Context, run *serve.Run, kind string, answer any) (*contract.Receipt, error) {
	r, err := updateRun(ctx, s.t, workflowOf(run), kind, answer)
	if err != nil {
		return nil, s.refusal(run, err)
	}
	return r, nil
}

// refusal is the problem of an answer that a run does not take.
func (s *runs) refusal(run *serve.Run, err error) error {
	var missing *serviceerror.NotFound
	var invalid *serviceerror.InvalidArgument
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoReceipt):
		return serve.NewProblem(serve.NoWorker, "start a worker, and send the same answer again", "the run %q gave no receipt within %v", run.ID, receiptTimeout)
	case errors.As(err, &missing):
		return serve.NewProblem(serve.RunEnded, "see GET /runs/ID", "the run %q has ended", run.ID)
	case errors.As(err, &invalid):
		return serve.NewProblem(serve.TooLarge, "shorten it", "Temporal refuses the answer: %v", err)
	case away(err):
		return problemOf(err)
	}
	f := contract.FailureOf(err)
	if problem, ok := answerProblems[f.Class]; ok {
		p := serve.NewProblem(problem, f.Remedy, "%s", f.Text)
		p.Errors = f.Errors
		return p
	}
	return fmt.Errorf("answer the run %q: %w", run.ID, err)
}

// Cancel asks a run to end.
func (s *runs) Cancel(ctx context.Context, run *serve.Run) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.t.Client.CancelWorkflow(limited, workflowOf(run), "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return serve.NewProblem(serve.RunEnded, "see GET /runs/ID", "the run %q has ended", run.ID)
	}
	return problemOf(err)
}

// Ready asks whether Temporal answers.
func (s *runs) Ready(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := s.t.Client.CheckHealth(limited, &client.CheckHealthRequest{}); err != nil {
		return serve.NewProblem(serve.NoTemporal, "ask again later", "Temporal does not answer at %s: %v", s.t.Address, err)
	}
	return nil
}
