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

// answer decodes an answer of the caller's, the author, who may answer for whom the body names.
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
