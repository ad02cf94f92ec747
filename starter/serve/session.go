package serve

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/starter/runs"
	"weft/workflows/plan"
)

// Starting an agent opens a session; each turn is a run of the framework. The first turn has the
// id of the session's workflow; the id of a later turn has a suffix.

const ofTurn = "~turn-"

// TurnID returns the run id of a later turn of a session.
func TurnID(workflow, turn string) string { return workflow + ofTurn + turn }

// SplitTurn splits a run's id into the workflow id and the turn, "" for the first.
func SplitTurn(id string) (workflow, turn string) {
	if i := strings.LastIndex(id, ofTurn); i > 0 {
		return id[:i], id[i+len(ofTurn):]
	}
	return id, ""
}

// startFields are fields that only a start supports: a session keeps its values.
var startFields = []unheeded{
	{"id", source.String, "a turn's id is derived from the Idempotency-Key"},
	{"model", source.String, "the session has its model"},
	{"scope", source.Object, "the session has its scope"},
	{"script", source.Object, "the session has its script"},
}

func (srv *Server) resume(w http.ResponseWriter, r *http.Request, o *object) (any, error) {
	o.checkFields(sessionFields...)
	o.mode()
	o.noEffect(withoutEffect)
	o.noEffect(startFields)
	session, agent := o.text("session_id"), o.text("agent_name")
	if err := checkNames(r.Header.Get("Idempotency-Key"), &Start{}, &object{Value: o.Value}); err != nil {
		return nil, err
	}
	params, media := o.parameters(), o.media()
	if session == "" && len(o.problems) == 0 {
		return nil, NewProblem(BadRequest, "set it to the session_id of a started session", "session_id is required for resume_session")
	}
	if err := o.problem(); err != nil {
		return nil, err
	}
	run, err := srv.session(r.Context(), session)
	if err != nil {
		return nil, err
	}
	if !run.IsTurn {
		return nil, NewProblem(NotResumable, "start another session", "the session %q accepts no prompts: it was started as a run, or its flow is not a single agent with a model (procedural_agent_no_resume)", session)
	}
	if agent != "" && agent != run.Flow {
		return nil, NewProblem(InvalidBody, "remove agent_name", "agent_name is %s, but the session %q belongs to the agent %s", source.Quote(agent), session, source.Quote(run.Flow))
	}
	declared, err := srv.Runs.Inputs(r.Context(), run)
	if errors.Is(err, runs.ErrNoPlan) {
		return nil, NewProblem(NoPlan, "retry when the session has started", "%v", err)
	} else if err != nil {
		return nil, err
	}
	given, err := prompt(r.Context(), params.JSON(), run.Flow, inputs.OfTurn(declared))
	if err != nil {
		return nil, err
	}
	return srv.nextTurn(w, r, run, session, contract.PromptInput{Prompt: given, Media: media, By: callerOf(r)})
}

// nextTurn sends a prompt to a session. An Idempotency-Key makes it idempotent.
func (srv *Server) nextTurn(w http.ResponseWriter, r *http.Request, run *Run, session string, in contract.PromptInput) (any, error) {
	key, turn, repeated := r.Header.Get("Idempotency-Key"), randomName(), false
	if key != "" {
		turn = derived(ownerOf(r), key)[len(runPrefix):]
		turns, _, err := srv.Runs.Turns(r.Context(), run)
		if err != nil {
			return nil, err
		}
		if repeated = slices.ContainsFunc(turns, func(t contract.Turn) bool { return t.ID == turn }); repeated {
			w.Header().Set("Idempotent-Replayed", "true")
		}
	}
	if !repeated {
		if err := srv.limits.start(callerIn(r.Context())); err != nil {
			return nil, err
		}
	}
	workflow, _ := SplitTurn(run.ID)
	extend(w, answerTime)
	in.ID = turn
	if err := srv.Runs.Resume(r.Context(), run, in); err != nil {
		w.Header().Del("Idempotent-Replayed")
		if p, ok := errors.AsType[*Problem](err); ok && key != "" && p.kind == AlreadyAnswered {
			return nil, NewProblem(KeyReused, "send the same prompt as before, or use another key", "the Idempotency-Key was already used for another prompt of the session %q", session)
		}
		return nil, err
	}
	return created(w, &Run{Summary: runs.Summary{ID: TurnID(workflow, turn), Session: session}})
}

// prompt returns the text of a prompt with parameters.
func prompt(ctx context.Context, params []byte, agent string, want *plan.Inputs) (string, error) {
	given, err := inputs.For(want, params, "")
	text := ""
	if err == nil {
		_, text, err = inputs.Start(ctx, &plan.Flow{Name: agent, Inputs: want}, inputs.Values{Params: given})
	}
	return text, inputProblem(err, agent)
}

// session finds a session by its session id or by its workflow id.
func (srv *Server) session(ctx context.Context, id string) (*Run, error) {
	names := []string{derived(ofSession, id)}
	if rest, ok := strings.CutPrefix(id, sessionPrefix); ok {
		names = append(names, runPrefix+rest)
	}
	for _, name := range append(names, id) {
		run, err := srv.Runs.Find(ctx, name)
		if isNotFound(err) {
			continue
		}
		return run, err
	}
	return nil, NewProblem(UnknownSession, "check the id", "Session '%.300s' not found", id)
}

type sessionStatus struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	// AgentName is null if it is unknown.
	AgentName     *string    `json:"agent_name"`
	Turns         int        `json:"turns"`
	LastResumedAt *time.Time `json:"last_resumed_at"`
}

func (srv *Server) sessionState(r *http.Request) (*Run, []contract.Turn, *sessionStatus, error) {
	id := r.PathValue("id")
	run, err := srv.session(r.Context(), id)
	if err != nil {
		return nil, nil, nil, err
	}
	turns, open, err := srv.Runs.Turns(r.Context(), run)
	if err != nil {
		return nil, nil, nil, err
	}
	out := &sessionStatus{SessionID: id, Status: run.Status}
	if run.Flow != "" {
		out.AgentName = &run.Flow
	}
	waits := len(turns)
	turns = slices.DeleteFunc(turns, func(t contract.Turn) bool { return t.N == 0 })
	if waits -= len(turns); len(turns) > 0 {
		last := turns[len(turns)-1]
		out.Turns = last.N
		if last.N > 1 {
			out.LastResumedAt = last.StartedAt
		}
		switch {
		case !open:
			out.Status = "stopped"
		case last.Done() && waits == 0:
			out.Status = contract.StatusIdle
		default:
			out.Status = contract.StatusRunning
		}
	}
	return run, turns, out, nil
}

func (srv *Server) getSessionStatus(w http.ResponseWriter, r *http.Request) (any, error) {
	_, _, out, err := srv.sessionState(r)
	return out, err
}

func (srv *Server) getSessionResult(_ http.ResponseWriter, r *http.Request) (any, error) {
	run, turns, _, err := srv.sessionState(r)
	if err != nil {
		return nil, err
	}
	if len(turns) == 0 && run.Closed != nil {
		return srv.resultAlone(r, run)
	}
	if len(turns) == 0 || !turns[len(turns)-1].Done() {
		return nil, NewProblem(BadRequest, "retry when its turn has ended", "Session not finished or idle")
	}
	last := turns[len(turns)-1]
	if last.Failure != nil {
		p := NewProblem(NoResult, last.Failure.Remedy, "the last turn of the session %q ended as %s: %s: %s", r.PathValue("id"), last.Status, last.Failure.Class, last.Failure.Text)
		p.Errors = last.Failure.Errors
		return nil, p
	}
	of := *run
	of.Closed = last.EndedAt
	e := resultOf(&of, &contract.RunResult{ResultText: last.ResultText, ResultData: last.ResultData})
	e.SessionID = r.PathValue("id")
	return e, nil
}

func (srv *Server) stopSession(w http.ResponseWriter, r *http.Request) (any, error) {
	run, err := srv.session(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if !run.IsTurn {
		return nil, NewProblem(NotResumable, "use POST /runs/ID/cancel", "the run %q is not a session", run.ID)
	}
	extend(w, answerTime)
	if err := srv.Runs.Stop(r.Context(), run, callerOf(r)); err != nil {
		return nil, err
	}
	return reply(w, http.StatusAccepted, map[string]any{"session_id": r.PathValue("id"), "status": "stopping"})
}

var answerFields = map[string][]string{
	contract.RequestMessage:    {"id", "text", "node", "key", "by"},
	contract.RequestConfirm:    {"id", "approve", "reason", "arguments", "remember", "by"},
	contract.RequestToolResult: {"id", "result", "error", "by"},
	contract.RequestRetry:      {"id", "give_up", "reason", "by"},
}

const answerTime = 90 * time.Second

// answer returns the handler of answers of a kind. Repeating an answer has no effect.
func answer(kind string) handler {
	return ofRun(func(srv *Server, w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
		o, err := srv.read(w, r)
		if err != nil {
			return nil, err
		}
		given, err := readAnswer(kind, o, r)
		if err != nil {
			return nil, err
		}
		if run.Closed != nil {
			return nil, NewProblem(RunEnded, "see GET /runs/ID", "the run %q is already closed: %s", run.ID, run.Status)
		}
		extend(w, answerTime)
		return srv.Runs.Answer(r.Context(), run, kind, given)
	})
}

// readAnswer reads a body as an answer of a kind.
func readAnswer(kind string, o *object, r *http.Request) (any, error) {
	o.checkFields(answerFields[kind]...)
	if kind != contract.RequestMessage && o.text("id") == "" && len(o.problems) == 0 {
		o.addProblem(o.Pos, "the body has no id; set it to the id of a request in GET /runs/ID/requests")
	}
	author := contract.Author{By: callerOf(r)}
	switch kind {
	case contract.RequestMessage:
		a := &contract.MessageAnswer{Author: author}
		o.answer(a, &a.Author)
		if o.get("text", source.String) == nil && len(o.problems) == 0 {
			o.addProblem(o.Pos, "the body has no text")
		}
		if key := r.Header.Get("Idempotency-Key"); a.ID == "" && a.Key == "" {
			a.Key = key
		}
		return a, o.problem()
	case contract.RequestConfirm:
		return readConfirm(o, author), o.problem()
	case contract.RequestToolResult:
		a := &contract.ToolResultAnswer{Author: author}
		o.answer(a, &a.Author)
		if (len(a.Result) == 0) == (a.Error == "") && len(o.problems) == 0 {
			o.addProblem(o.Pos, "the body must have exactly one of result and error")
		}
		return a, o.problem()
	}
	a := &contract.RetryAnswer{Author: author}
	o.answer(a, &a.Author)
	return a, o.problem()
}

func readConfirm(o *object, author contract.Author) *contract.ConfirmAnswer {
	a := &contract.ConfirmAnswer{Author: author}
	o.answer(a, &a.Author)
	if a.Approve == nil && len(o.problems) == 0 {
		o.addProblem(o.Pos, "the body has no approve; set \"approve\" to true or false")
	}
	if v := o.Get("arguments"); v != nil && a.Approve != nil && !*a.Approve {
		o.addProblem(v.Pos, "arguments require approve: true; remove arguments or set approve to true")
	}
	return a
}

// answer decodes an answer. Its author is the caller; a name in the body becomes on_behalf_of.
func (o *object) answer(a any, author *contract.Author) {
	by := author.By
	if o.decode(a); by != "" && author.By != by {
		author.By, author.OnBehalfOf = by, author.By
	}
}

func (srv *Server) cancel(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	if run.Closed != nil {
		return nil, NewProblem(RunEnded, "see GET /runs/ID", "the run %q is already closed: %s", run.ID, run.Status)
	}
	if err := srv.Runs.Cancel(r.Context(), run); err != nil {
		return nil, err
	}
	return reply(w, http.StatusAccepted, summary(run))
}
