package serve

import (
	_ "embed" // the description is part of the program
	"net/http"

	"weft/activities/contract"
)

// route is a row of the table of addresses.
type route struct {
	method, path string
	run          func(d *Door, w http.ResponseWriter, r *http.Request) error
}

// routes are all addresses; openapi.json describes each. Open ones need no token.
var routes = []route{
	{"GET", "/openapi.json", (*Door).describe},
	{"GET", "/health", (*Door).health},
	{"POST", "/runs", (*Door).start},
	{"GET", "/runs", (*Door).listRuns},
	{"GET", "/runs/{id}", (*Door).getRun},
	{"GET", "/runs/{id}/result", (*Door).getResult},
	{"GET", "/runs/{id}/status", (*Door).getStatus},
	{"GET", "/runs/{id}/state", (*Door).getState},
	{"GET", "/runs/{id}/transcript", (*Door).getTranscript},
	{"GET", "/runs/{id}/events", (*Door).getEvents},
	{"GET", "/runs/{id}/requests", (*Door).getRequests},
	{"POST", "/runs/{id}/message", answer(contract.RequestMessage)},
	{"POST", "/runs/{id}/confirm", answer(contract.RequestConfirm)},
	{"POST", "/runs/{id}/tool_result", answer(contract.RequestToolResult)},
	{"POST", "/runs/{id}/retry", answer(contract.RequestRetry)},
	{"POST", "/runs/{id}/cancel", (*Door).cancel},
	{"GET", "/sessions/{id}/status", (*Door).getSessionStatus},
	{"GET", "/sessions/{id}/result", (*Door).getSessionResult},
	{"POST", "/sessions/{id}/stop", (*Door).stopSession},
	{"GET", "/agents", (*Door).listAgents},
	{"POST", "/agents", (*Door).createAgent},
	{"GET", "/agents/{name}", (*Door).getAgent},
	{"PUT", "/agents/{name}", (*Door).replaceAgent},
	{"DELETE", "/agents/{name}", (*Door).deleteAgent},
}

// open are the addresses that need no token: they tell nothing of runs or agents.
var open = map[string]bool{"/openapi.json": true, "/health": true}

//go:embed openapi.json
var description []byte

func (d *Door) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(description)
	return err
}

// health reports whether runs can be asked for.
func (d *Door) health(w http.ResponseWriter, r *http.Request) error {
	if err := d.Runs.Ready(r.Context()); err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]string{"status": "ok"})
}
