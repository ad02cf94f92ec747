package serve

import (
	"net/http"
	"slices"

	"weft/activities/contract"
	"weft/specadapter/source"
)

// resultAlone is the result of a run that has ended.
func (srv *Server) resultAlone(w http.ResponseWriter, r *http.Request, run *Run) error {
	res, failure, err := srv.Runs.Outcome(r.Context(), run)
	if err != nil {
		return err
	}
	if failure != nil && len(failure.Data) > 0 {
		return reply(w, http.StatusOK, printed(run, failure))
	}
	if failure != nil {
		p := NewProblem(NoResult, failure.Remedy, "the run %q ended as %s: %s: %s", run.ID, run.Status, failure.Class, failure.Text)
		p.Errors = failure.Errors
		return p
	}
	return reply(w, http.StatusOK, resultOf(run, res))
}

func (srv *Server) getStatus(w http.ResponseWriter, r *http.Request, run *Run) error {
	st, err := srv.Runs.Status(r.Context(), run)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, st)
}

func (srv *Server) getState(w http.ResponseWriter, r *http.Request, run *Run) error {
	state, err := srv.Runs.State(r.Context(), run)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, state)
}

type transcriptPage struct {
	Messages []Line `json:"messages"`
	// Gone are branches and sub-agents whose histories are gone.
	Gone []string `json:"gone,omitempty"`
	Next string   `json:"next_page_token,omitempty"`
}

// getTranscript shows what was said, in all threads or in one.
func (srv *Server) getTranscript(w http.ResponseWriter, r *http.Request, run *Run) error {
	lines, missing, err := srv.Runs.Transcript(r.Context(), run)
	if err != nil {
		return err
	}
	if thread := r.FormValue("thread"); thread != "" {
		lines = slices.DeleteFunc(lines, func(l Line) bool { return l.Thread != thread })
		if len(lines) == 0 {
			return NewProblem(UnknownThread, "leave out thread to see all", "the run %q has no thread %s", run.ID, source.Quote(thread))
		}
	}
	out := transcriptPage{Gone: missing}
	if out.Messages, out.Next, err = page(r, lines); err != nil {
		return err
	}
	return reply(w, http.StatusOK, out)
}

type requestPage struct {
	Requests []contract.Request `json:"requests"`
	// More counts those that are listed once some of these are answered.
	More int    `json:"more_requests,omitempty"`
	Next string `json:"next_page_token,omitempty"`
}

// getRequests shows what a run waits for, the longest wait first.
func (srv *Server) getRequests(w http.ResponseWriter, r *http.Request, run *Run) error {
	st := &contract.Status{}
	var err error
	if run.Closed == nil {
		if st, err = srv.Runs.Status(r.Context(), run); err != nil {
			return err
		}
	}
	out := requestPage{More: st.MoreRequests}
	if out.Requests, out.Next, err = page(r, st.Requests); err != nil {
		return err
	}
	return reply(w, http.StatusOK, out)
}
