package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/specadapter/source"
	"weft/starter/runs"
	"weft/starter/transcript"
)

type runSummary struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	// Flow is the flow's or the agent's name; null if it is unknown.
	Flow        *string    `json:"flow"`
	Status      string     `json:"status"`
	CreatedAt   time.Time  `json:"created_at"`
	CompletedAt *time.Time `json:"completed_at"`
}

func summary(run *Run) runSummary {
	s := runSummary{RunID: run.ID, SessionID: sessionOf(run), Status: run.Status, CreatedAt: run.Started.UTC(), CompletedAt: run.Closed}
	if run.Flow != "" {
		s.Flow = &run.Flow
	}
	return s
}

type runView struct {
	runSummary
	Result *resultEvent `json:"result"`
	Error  any          `json:"error"`
	// Fields beyond the documented result; absent before the end.
	ResultNode     string                `json:"result_node,omitempty"`
	ExitOutputs    []contract.ExitOutput `json:"exit_outputs,omitempty"`
	NoRoute        []string              `json:"no_route,omitempty"`
	UnreadMessages []contract.Inbound    `json:"unread_messages,omitempty"`
	Usage          *contract.Usage       `json:"usage,omitempty"`
	Model          string                `json:"model,omitempty"`
	FlowHash       string                `json:"flow_hash,omitempty"`
}

// resultEvent is a result with the documented fields of the blueprint dialect's framework.
type resultEvent struct {
	EventType  string          `json:"event_type"`
	SessionID  string          `json:"session_id"`
	Timestamp  time.Time       `json:"timestamp"`
	ResultText *string         `json:"result_text"`
	ResultData json.RawMessage `json:"result_data"`
}

func resultOf(run *Run, res *contract.RunResult) *resultEvent {
	e := &resultEvent{EventType: "result", SessionID: sessionOf(run), Timestamp: ended(run), ResultText: res.ResultText, ResultData: res.ResultData}
	if e.ResultText != nil {
		e.ResultData = nil // null
	}
	return e
}

// printed returns the output of a failed program, nil if there is none.
func printed(run *Run, f *contract.Failure) *resultEvent {
	if len(f.Data) == 0 {
		return nil
	}
	return resultOf(run, &contract.RunResult{ResultData: f.Data})
}

func ended(run *Run) time.Time {
	if run.Closed != nil {
		return run.Closed.UTC()
	}
	return run.Started.UTC()
}

// schemaError is the documented error of an output that does not match its schema.
type schemaError struct {
	Error   string                `json:"error"`
	Message string                `json:"message"`
	Errors  []contract.FieldError `json:"errors"`
}

type runError struct {
	Error   string `json:"error"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Node and Step are the execution that failed, At is its position in the document.
	Node        string                `json:"node,omitempty"`
	Step        int                   `json:"step,omitempty"`
	At          string                `json:"at,omitempty"`
	Errors      []contract.FieldError `json:"errors,omitempty"`
	Answers     []contract.Answer     `json:"answers,omitempty"`
	NoRoute     []string              `json:"no_route,omitempty"`
	Diagnostics []string              `json:"diagnostics,omitempty"`
}

func errorOf(f *contract.Failure) any {
	if f.Class != contract.ClassOutputSchema {
		return runError{Error: f.Class, Message: f.Text, Remedy: f.Remedy, Node: f.Node, Step: f.Step, At: f.At,
			Errors: f.Errors, Answers: f.Answers, NoRoute: f.NoRoute, Diagnostics: f.Diagnostics}
	}
	e := schemaError{Error: f.Class, Message: f.Text, Errors: []contract.FieldError{}}
	for _, p := range f.Errors {
		e.Errors = append(e.Errors, contract.FieldError{Path: p.Path, Message: p.Message})
	}
	if len(e.Errors) > 0 {
		// The errors follow the message.
		e.Message, _, _ = strings.Cut(e.Message, ": ")
	}
	return e
}

func (srv *Server) getRun(w http.ResponseWriter, r *http.Request) (any, error) {
	wait, err := waitOf(r)
	if err != nil {
		return nil, err
	}
	run, err := srv.Runs.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if wait > 0 && run.Closed == nil {
		if run, err = srv.await(w, r, run, wait); err != nil {
			return nil, err
		}
	}
	return srv.view(r.Context(), run)
}

// await waits until a run is closed or the time has elapsed, and finds it again.
func (srv *Server) await(w http.ResponseWriter, r *http.Request, run *Run, wait time.Duration) (*Run, error) {
	ended, err := srv.hold(r.Context())
	if err != nil {
		return nil, err
	}
	defer ended()
	extend(w, wait+srv.times.send)
	// No deadline: a server that knows it may end the call slightly earlier.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer time.AfterFunc(wait, cancel).Stop()
	go srv.cancelOnClose(ctx, cancel)
	if err := srv.Runs.Await(ctx, run); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return srv.Runs.Find(r.Context(), run.ID)
}

func (srv *Server) view(ctx context.Context, run *Run) (*runView, error) {
	v := &runView{runSummary: summary(run)}
	if run.Closed == nil {
		return v, nil
	}
	res, failure, err := srv.Runs.Outcome(ctx, run)
	switch {
	case err != nil:
		return nil, err
	case failure != nil:
		v.Error, v.Result = errorOf(failure), printed(run, failure)
	default:
		v.Result = resultOf(run, res)
		v.ResultNode, v.ExitOutputs, v.NoRoute, v.UnreadMessages = res.ResultNode, res.ExitOutputs, res.NoRoute, res.UnreadMessages
		v.Usage, v.Model, v.FlowHash = &res.Usage, res.Model, res.FlowHash
	}
	return v, nil
}

func (srv *Server) getResult(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	if run.Closed == nil {
		return nil, NewProblem(NoResult, "poll GET /runs/ID?wait=30s", "the run %q has not ended", run.ID)
	}
	return srv.resultAlone(r, run)
}

type runPage struct {
	Runs []runSummary `json:"runs"`
	Next string       `json:"next_page_token,omitempty"`
}

func (srv *Server) listRuns(w http.ResponseWriter, r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	wanted := runs.Filter{Status: r.FormValue("status"), Flow: r.FormValue("flow"), Closed: true, Limit: limit}
	if wanted.Status != "" && !slices.Contains(runs.StatusNames(), wanted.Status) {
		return nil, NewProblem(BadRequest, "use one of: "+strings.Join(runs.StatusNames(), ", "), "the status is %s", source.Quote(wanted.Status))
	}
	list, next, err := srv.Runs.List(r.Context(), wanted, r.FormValue("page_token"))
	if err != nil {
		return nil, err
	}
	out := runPage{Runs: []runSummary{}, Next: next}
	for i := range list {
		out.Runs = append(out.Runs, summary(&list[i]))
	}
	return out, nil
}

func (srv *Server) resultAlone(r *http.Request, run *Run) (any, error) {
	res, failure, err := srv.Runs.Outcome(r.Context(), run)
	if err != nil {
		return nil, err
	}
	if failure != nil && len(failure.Data) > 0 {
		return printed(run, failure), nil
	}
	if failure != nil {
		p := NewProblem(NoResult, failure.Remedy, "the run %q ended as %s: %s: %s", run.ID, run.Status, failure.Class, failure.Text)
		p.Errors = failure.Errors
		return nil, p
	}
	return resultOf(run, res), nil
}

func (srv *Server) getStatus(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	return srv.Runs.Status(r.Context(), run)
}

func (srv *Server) getState(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	return srv.Runs.State(r.Context(), run)
}

type transcriptPage struct {
	Messages []transcript.Line `json:"messages"`
	// Gone are branches and sub-agents whose histories are no longer retained.
	Gone []string `json:"gone,omitempty"`
	Next string   `json:"next_page_token,omitempty"`
}

func (srv *Server) getTranscript(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	lines, missing, err := srv.Runs.Transcript(r.Context(), run)
	if err != nil {
		return nil, err
	}
	if thread := r.FormValue("thread"); thread != "" {
		lines = slices.DeleteFunc(lines, func(l transcript.Line) bool { return l.Thread != thread })
		if len(lines) == 0 {
			return nil, NewProblem(UnknownThread, "omit thread to get all", "the run %q has no thread %s", run.ID, source.Quote(thread))
		}
	}
	out := transcriptPage{Gone: missing}
	if out.Messages, out.Next, err = page(r, lines); err != nil {
		return nil, err
	}
	return out, nil
}

type requestPage struct {
	Requests []contract.Request `json:"requests"`
	// More is the number of requests that are omitted until some of these are answered.
	More int    `json:"more_requests,omitempty"`
	Next string `json:"next_page_token,omitempty"`
}

func (srv *Server) getRequests(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	st := &contract.Status{}
	var err error
	if run.Closed == nil {
		if st, err = srv.Runs.Status(r.Context(), run); err != nil {
			return nil, err
		}
	}
	out := requestPage{More: st.MoreRequests}
	if out.Requests, out.Next, err = page(r, st.Requests); err != nil {
		return nil, err
	}
	return out, nil
}
