// Package backend implements the runs of the HTTP server of package serve with Temporal.
package backend

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/fork"
	"weft/starter/history"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/serve"
	"weft/starter/transcript"
	"weft/starter/usage"
	"weft/workflows/plan"
)

const memoRequest = "request_hash"

// Backend implements [serve.Runs].
type Backend struct {
	*runs.Connection
	// Queue is the task queue of the runs that are started.
	Queue string
	// Worded, if set, adapts failures for the user who starts the worker.
	Worded func(*contract.Failure) *contract.Failure
}

func problem(err error) error {
	if silent, ok := errors.AsType[*runs.NoAnswerError](err); ok {
		return serve.NewProblem(serve.NoWorker, "start a worker and retry", "%s", silent.Problem())
	}
	if input, ok := errors.AsType[usage.Error](err); ok {
		return serve.NewProblem(serve.BadRequest, "", "%s", input.Text)
	}
	if runs.Unavailable(err) && !runs.Is[*serve.Problem](err) {
		return serve.NewProblem(serve.NoTemporal, "retry later", "Temporal does not respond: %v", err)
	}
	return err
}

// fairnessKey returns the fairness key of a token's runs: its name, shortened with a hash if it is too long.
func fairnessKey(name string) string {
	if len(name) <= runs.MaxFairnessKey {
		return name
	}
	return strings.ToValidUTF8(name[:runs.MaxFairnessKey-17], "") + "-" + contract.SHA([]byte(name))[:16]
}

// Start starts a run, once per id for as long as Temporal retains it.
func (b *Backend) Start(ctx context.Context, wanted *serve.Start) (*serve.Run, bool, error) {
	memo := map[string]any{memoRequest: wanted.Hash}
	if wanted.Session != "" {
		memo[runs.MemoSession] = wanted.Session
	}
	limited, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	flow, sent := wanted.Input.Flow.Plan, *wanted.Input
	if wanted.Named.Name != "" {
		sent.Flow = wanted.Named
	}
	run, err := b.Connection.Start(limited, client.StartWorkflowOptions{
		ID: wanted.ID, TaskQueue: b.Queue, Memo: memo,
		Priority:              temporal.Priority{FairnessKey: fairnessKey(wanted.Caller)},
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, flow, &sent)
	switch {
	case runs.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err):
		found, err := b.Find(ctx, wanted.ID)
		if err != nil {
			return nil, false, serve.NewProblem(serve.RunExists, "use another id", "another workflow has the id %q", wanted.ID)
		}
		return found, true, nil
	case runs.Is[runs.TooLargeError](err):
		return nil, false, serve.NewProblem(serve.TooLarge, "", "%v", err)
	case runs.Is[*serviceerror.InvalidArgument](err):
		return nil, false, serve.NewProblem(serve.BadRequest, "fix it", "Temporal rejected the run: %v", err)
	case err != nil:
		return nil, false, problem(fmt.Errorf("start the run %q: %w", wanted.ID, err))
	}
	return &serve.Run{Hash: wanted.Hash, Current: run.RunID, First: run.RunID, Summary: runs.Summary{ID: run.ID, Flow: flow.Name, Status: contract.StatusRunning,
		Started: time.Now(), Queue: b.Queue, Session: wanted.Session, Owner: wanted.Input.Principal.Value()}}, false, nil
}

// Find finds a run of a flow. It ignores other workflows of the namespace.
func (b *Backend) Find(ctx context.Context, id string) (*serve.Run, error) {
	workflow, turn := serve.SplitTurn(id)
	d, err := b.Describe(ctx, workflow, "")
	info := d.GetWorkflowExecutionInfo()
	switch {
	case runs.Is[*serviceerror.NotFound](err), runs.Is[*serviceerror.InvalidArgument](err), err == nil && info.GetType().GetName() != contract.WorkflowFlow:
		return nil, serve.NoRun(id)
	case err != nil:
		return nil, problem(fmt.Errorf("describe the run %q: %w", id, err))
	}
	run := &serve.Run{Summary: runs.SummaryOf(info, time.Now()), Hash: runs.Memo(info, memoRequest), Current: info.GetExecution().GetRunId(), First: info.GetFirstRunId()}
	run.ID = id
	if turn == "" && info.GetMemo().GetFields()[contract.MemoSession] == nil && info.GetParentExecution() == nil && run.Status != contract.StatusIdle {
		return run, nil
	}
	return run, b.asTurn(ctx, run, turn)
}

// of returns the run for package runs.
func (b *Backend) of(run *serve.Run) *runs.Run {
	status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if run.Closed != nil {
		for n := range enumspb.WorkflowExecutionStatus_name {
			if s := enumspb.WorkflowExecutionStatus(n); history.StatusName(s) == run.Status {
				status = s
			}
		}
	}
	workflow, _ := serve.SplitTurn(run.ID)
	return &runs.Run{Connection: b.Connection, ID: workflow, RunID: run.Current, Queue: run.Queue, Status: status}
}

// List returns one page. It may have fewer runs than the limit, because Temporal cannot apply all conditions.
func (b *Backend) List(ctx context.Context, wanted runs.Filter, token string) ([]serve.Run, string, error) {
	var page []runs.Summary
	var next []byte
	raw, err := readToken(token)
	if err == nil {
		page, next, err = b.Page(ctx, wanted, raw)
	}
	if runs.Is[*serviceerror.InvalidArgument](err) && token != "" || errors.Is(err, errToken) {
		return nil, "", serve.NewProblem(serve.BadRequest, "use next_page_token of the previous page", "the page_token is %.300q", token)
	}
	out := []serve.Run{}
	for i := range page {
		out = append(out, serve.Run{Summary: page[i]})
	}
	return out, writeToken(next), problem(err)
}

// sumBytes is the length of the checksum of a page token: Temporal does not respond to an invalid token.
const sumBytes = 6

func writeToken(token []byte) string {
	if len(token) == 0 {
		return ""
	}
	sum := sha256.Sum256(token)
	return base64.RawURLEncoding.EncodeToString(append(sum[:sumBytes:sumBytes], token...))
}

var errToken = errors.New("not a token of a page")

func readToken(s string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if s == "" {
		return nil, nil
	}
	if err != nil || len(raw) <= sumBytes || writeToken(raw[sumBytes:]) != s {
		return nil, errToken
	}
	return raw[sumBytes:], nil
}

// Await waits for the end of a run, across continue-as-new.
func (b *Backend) Await(ctx context.Context, run *serve.Run) error {
	if run.IsTurn {
		return b.awaitTurn(ctx, run)
	}
	r := b.of(run)
	err := b.Client.GetWorkflow(ctx, r.ID, r.RunID).Get(ctx, nil)
	if runs.Is[*temporal.WorkflowExecutionError](err) {
		return nil
	}
	return problem(err)
}

// Outcome reads the result or failure of a closed run.
func (b *Backend) Outcome(ctx context.Context, run *serve.Run) (*contract.RunResult, *contract.Failure, error) {
	res, failure, err := b.outcome(ctx, run)
	if failure != nil && b.Worded != nil {
		failure = b.Worded(failure)
	}
	return res, failure, err
}

func (b *Backend) outcome(ctx context.Context, run *serve.Run) (*contract.RunResult, *contract.Failure, error) {
	limited, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	if run.IsTurn {
		_, id := serve.SplitTurn(run.ID)
		turns, _, err := b.Turns(ctx, run)
		switch t := turnNamed(turns, id); {
		case err != nil || t == nil || !t.Done():
		case t.Status != contract.TurnCompleted:
			return nil, runs.TurnFailure(t), nil
		default:
			res := &contract.RunResult{Status: contract.StatusCompleted, ResultText: t.ResultText, ResultData: t.ResultData}
			if t.Usage != nil {
				res.Usage = *t.Usage
			}
			return res, nil, nil
		}
	}
	r := b.of(run)
	var res contract.RunResult
	err := b.Client.GetWorkflow(limited, r.ID, r.RunID).Get(limited, &res)
	switch {
	case err == nil:
		return &res, nil, nil
	case !runs.Is[*temporal.WorkflowExecutionError](err):
		return nil, nil, problem(fmt.Errorf("read the result of %q: %w", run.ID, err))
	}
	f := r.Failure(ctx, err)
	if f.Status != runs.Failed {
		f.Class = f.Status
	}
	return nil, &f.Failure, nil
}

// Status queries a run's worker; for a closed run it reads the history if no worker answers.
func (b *Backend) Status(ctx context.Context, run *serve.Run) (*contract.Status, error) {
	st, _, err := b.of(run).CurrentStatus(ctx)
	if err == nil && st.Executions == nil {
		st.Executions = []contract.Execution{}
	}
	return st, problem(err)
}

// State queries a run's worker.
func (b *Backend) State(ctx context.Context, run *serve.Run) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	return values, problem(b.of(run).Query(ctx, contract.QueryState, &values))
}

// Transcript reads the histories of a run and of its children.
func (b *Backend) Transcript(ctx context.Context, run *serve.Run) ([]transcript.Line, []string, error) {
	r := b.of(run)
	read, err := transcript.Read(ctx, history.From(b.Client), r.ID, r.RunID)
	if err != nil {
		return nil, nil, problem(err)
	}
	return transcript.Lines(read.Threads()), read.Missing, nil
}

// Graph queries the run's worker, or reads its history.
func (b *Backend) Graph(ctx context.Context, run *serve.Run) (*runs.Graph, error) {
	g, err := b.of(run).Graph(ctx)
	return g, problem(err)
}

// Inputs queries the run's worker.
func (b *Backend) Inputs(ctx context.Context, run *serve.Run) (*plan.Inputs, error) {
	flow, err := b.of(run).Plan(ctx)
	if err != nil {
		return nil, problem(err)
	}
	return flow.Inputs, nil
}

// Tree reads the histories of a run and its descendants.
func (b *Backend) Tree(ctx context.Context, run *serve.Run) (*runtree.Tree, error) {
	r := b.of(run)
	tree, err := runtree.Read(ctx, history.From(b.Client), r.ID, r.RunID)
	return tree, problem(err)
}

// StateOf reads the run's histories and queries its workers.
func (b *Backend) StateOf(ctx context.Context, run *serve.Run, execution string) (*runs.StateChange, error) {
	tree, err := b.Tree(ctx, run)
	if err != nil {
		return nil, err
	}
	change, err := b.of(run).StateOf(ctx, tree, execution)
	return change, problem(err)
}

// Fork builds the input from the run's histories.
func (b *Backend) Fork(ctx context.Context, run *serve.Run, o fork.Options) (*contract.RunInput, error) {
	tree, err := b.Tree(ctx, run)
	if err != nil {
		return nil, err
	}
	in, err := fork.Input(ctx, b.of(run), tree, o)
	return in, problem(err)
}

var answerProblems = map[string]serve.Kind{
	contract.ClassBadRequest: serve.InvalidAnswer, contract.ClassSchema: serve.InvalidAnswer, contract.ClassTooLarge: serve.TooLarge,
	contract.ClassUnknownRequest: serve.UnknownRequest, contract.ClassAlreadyAnswered: serve.AlreadyAnswered,
	contract.ClassUnavailable: serve.Busy, contract.ClassStateTooLarge: serve.RunEnded,
}

// Answer sends an Update and waits for its receipt.
func (b *Backend) Answer(ctx context.Context, run *serve.Run, kind string, answer any) (*contract.Receipt, error) {
	r, err := b.of(run).Update(ctx, kind, answer)
	if err != nil {
		return nil, refusal(run, err)
	}
	return r, nil
}

func runEnded(run *serve.Run) error {
	return serve.NewProblem(serve.RunEnded, "see GET /runs/ID", "the run %q has ended", run.ID)
}

func refusal(run *serve.Run, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, runs.ErrNoReceipt):
		return serve.NewProblem(serve.NoWorker, "start a worker and send the same answer again", "the run %q did not acknowledge the answer within %v", run.ID, runs.ReceiptTimeout)
	case runs.Is[*serviceerror.NotFound](err):
		return runEnded(run)
	case runs.Is[*serviceerror.InvalidArgument](err):
		return serve.NewProblem(serve.TooLarge, "shorten it", "Temporal rejected the answer: %v", err)
	case runs.Unavailable(err):
		return problem(err)
	}
	f := contract.FailureOf(err)
	if kind, ok := answerProblems[f.Class]; ok {
		p := serve.NewProblem(kind, f.Remedy, "%s", f.Text)
		p.Errors = f.Errors
		return p
	}
	return fmt.Errorf("answer the run %q: %w", run.ID, err)
}

// Cancel requests the cancellation of a run.
func (b *Backend) Cancel(ctx context.Context, run *serve.Run) error {
	limited, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	err := b.Client.CancelWorkflow(limited, b.of(run).ID, "")
	if runs.Is[*serviceerror.NotFound](err) {
		return runEnded(run)
	}
	return problem(err)
}

// Ready checks whether Temporal responds.
func (b *Backend) Ready(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := b.Client.CheckHealth(limited, &client.CheckHealthRequest{}); err != nil {
		return serve.NewProblem(serve.NoTemporal, "retry later", "Temporal at %s does not respond: %v", b.Address, err)
	}
	return nil
}
