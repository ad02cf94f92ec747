package serve

import (
	_ "embed" // the description is part of the program
	"net/http"

	"weft/activities/contract"
)

// handler answers a request, or returns why it cannot.
type handler func(srv *Server, w http.ResponseWriter, r *http.Request) error

// route is a row of the table of addresses. params are the names of its query parameters.
type route struct {
	method, path string
	params       []string
	run          handler
}

// routes are all addresses; openapi.json describes each.
var routes = []route{
	{"GET", "/openapi.json", nil, (*Server).describe},
	{"GET", "/health", nil, (*Server).health},
	{"POST", "/runs", nil, (*Server).start},
	{"GET", "/runs", []string{"limit", "page_token", "status", "flow"}, (*Server).listRuns},
	{"GET", "/runs/{id}", []string{"wait"}, (*Server).getRun},
	{"GET", "/runs/{id}/result", nil, ofRun((*Server).getResult)},
	{"GET", "/runs/{id}/status", nil, ofRun((*Server).getStatus)},
	{"GET", "/runs/{id}/state", nil, ofRun((*Server).getState)},
	{"GET", "/runs/{id}/transcript", []string{"thread", "limit", "page_token"}, ofRun((*Server).getTranscript)},
	{"GET", "/runs/{id}/events", nil, (*Server).getEvents},
	{"GET", "/runs/{id}/requests", []string{"limit", "page_token"}, ofRun((*Server).getRequests)},
	{"POST", "/runs/{id}/message", nil, answer(contract.RequestMessage)},
	{"POST", "/runs/{id}/confirm", nil, answer(contract.RequestConfirm)},
	{"POST", "/runs/{id}/tool_result", nil, answer(contract.RequestToolResult)},
	{"POST", "/runs/{id}/retry", nil, answer(contract.RequestRetry)},
	{"POST", "/runs/{id}/cancel", nil, ofRun((*Server).cancel)},
	{"GET", "/sessions/{id}/status", nil, (*Server).getSessionStatus},
	{"GET", "/sessions/{id}/result", nil, (*Server).getSessionResult},
	{"POST", "/sessions/{id}/stop", nil, (*Server).stopSession},
	{"GET", "/agents", []string{"limit", "page_token"}, (*Server).listAgents},
	{"POST", "/agents", nil, (*Server).createAgent},
	{"GET", "/agents/{name}", nil, (*Server).getAgent},
	{"PUT", "/agents/{name}", nil, (*Server).replaceAgent},
	{"DELETE", "/agents/{name}", nil, (*Server).deleteAgent},
}

// ofRun makes a handler of a function that needs the run which the address names.
func ofRun(do func(srv *Server, w http.ResponseWriter, r *http.Request, run *Run) error) handler {
	return func(srv *Server, w http.ResponseWriter, r *http.Request) error {
		run, err := srv.find(r)
		if err != nil {
			return err
		}
		return do(srv, w, r, run)
	}
}

// open are the addresses that need no token: they tell nothing of runs or agents.
var open = map[string]bool{"/openapi.json": true, "/health": true}

//go:embed openapi.json
var description []byte

func (srv *Server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(description)
	return err
}

func (srv *Server) health(w http.ResponseWriter, r *http.Request) error {
	if err := srv.Runs.Ready(r.Context()); err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]string{"status": "ok"})
}
