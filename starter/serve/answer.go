package serve

import (
	"net/http"
	"time"

	"weft/activities/contract"
	"weft/specadapter/source"
)

var answerFields = map[string][]string{
	contract.RequestMessage:    {"id", "text", "node", "key", "by"},
	contract.RequestConfirm:    {"id", "approve", "reason", "arguments", "remember", "by"},
	contract.RequestToolResult: {"id", "result", "error", "by"},
	contract.RequestRetry:      {"id", "give_up", "reason", "by"},
}

const answerTime = 90 * time.Second

// answer makes the handler of answers of a kind. The same answer twice is one answer.
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

// readAnswer reads a body as an answer of a kind, by default of the token's name.
func readAnswer(kind string, o *object, r *http.Request) (any, error) {
	o.checkFields(answerFields[kind]...)
	if kind != contract.RequestMessage && o.text("id") == "" && len(o.problems) == 0 {
		o.addProblem(o.Pos, "the body has no id; set it to the id of a request in GET /runs/ID/requests")
	}
	by := callerOf(r)
	switch kind {
	case contract.RequestMessage:
		a := decoded(o, &contract.MessageAnswer{Author: contract.Author{By: by}})
		answered(by, &a.Author)
		if o.get("text", source.String) == nil && len(o.problems) == 0 {
			o.addProblem(o.Pos, "the body has no text")
		}
		if key := r.Header.Get("Idempotency-Key"); a.ID == "" && a.Key == "" {
			a.Key = key
		}
		return a, o.problem()
	case contract.RequestConfirm:
		return readConfirm(o, by), o.problem()
	case contract.RequestToolResult:
		a := decoded(o, &contract.ToolResultAnswer{Author: contract.Author{By: by}})
		answered(by, &a.Author)
		if (len(a.Result) == 0) == (a.Error == "") && len(o.problems) == 0 {
			o.addProblem(o.Pos, "the body must have exactly one of result and error")
		}
		return a, o.problem()
	}
	a := decoded(o, &contract.RetryAnswer{Author: contract.Author{By: by}})
	answered(by, &a.Author)
	return a, o.problem()
}

func readConfirm(o *object, by string) *contract.ConfirmAnswer {
	a := decoded(o, &contract.ConfirmAnswer{Author: contract.Author{By: by}})
	answered(by, &a.Author)
	if a.Approve == nil && len(o.problems) == 0 {
		o.addProblem(o.Pos, "the body has no approve; set \"approve\" to true or false")
	}
	if v := o.Get("arguments"); v != nil && a.Approve != nil && !*a.Approve {
		o.addProblem(v.Pos, "arguments require approve: true; remove arguments or set approve to true")
	}
	return a
}

func decoded[T any](o *object, a T) T {
	o.decode(a)
	return a
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
