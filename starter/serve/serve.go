// Package serve is the HTTP API for runs of flows, for clients without Temporal: it starts
// runs, shows them, forwards answers, and manages the agents of a folder.
//
// It holds no state: its responses come from [Runs] or from the folder, so that any number
// of servers can run side by side. The API is specified in openapi.json, which it serves.
//
// Start at [New], then [routes].
package serve

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"weft/activities/contract"
	"weft/activities/mask"
	"weft/specadapter"
	"weft/starter/fork"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/transcript"
	"weft/worker/config"

	"weft/workflows/plan"
)

// Options configure a server.
type Options struct {
	Runs Runs
	// Flows sets the folder of flows and agents, and whether clients may supply others.
	Flows config.Flows
	// Reading returns the options with which documents are read.
	Reading func(dialect, profile string) specadapter.Options
	NewID   func(flow string) string
	// OnError is the default for requests without on_error; "" means the contract's default.
	OnError string
	// Settings are the operator's settings. Without Tokens and Issuers, the server accepts requests from this machine only.
	Settings config.Serve
	Tokens   []config.Token
	Issuers  map[string]config.Issuer
	// Mask masks the secrets of the settings in responses; nil means that there are none.
	Mask *mask.Mask
	// Saves returns a channel with the results of saves, and a function that stops it; nil if no folder is watched.
	Saves func() (saves <-chan any, end func())
	// Log logs a line about an error of the server.
	Log func(format string, args ...any)
}

// Server serves the HTTP API. Use [New] to create one.
type Server struct {
	Options
	handler http.Handler
	times   times
	limits  limits
	// issuers are the issuers of tokens, by URL.
	issuers map[string]*issuer
	// streams has an entry for each open event stream.
	streams chan struct{}
	// closing is closed when the server starts to close, which ends waiting requests.
	closing chan struct{}
}

// New returns a server.
func New(o Options) *Server {
	d := &Server{Options: o, times: defaultTimes, issuers: map[string]*issuer{}, streams: make(chan struct{}, maxStreams), closing: make(chan struct{})}
	d.Runs = owned{o.Runs, &d.limits}
	for name, i := range o.Issuers {
		d.issuers[i.URL] = newIssuer(name, i)
	}
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, d.handle(r))
	}
	for address, file := range pageFiles {
		mux.HandleFunc("GET "+address, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Security-Policy", pagePolicy)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cache-Control", "no-cache")
			http.ServeFileFS(unmasked(w), r, webFiles, file)
		})
	}
	if o.Saves != nil {
		mux.HandleFunc("GET /dev/events", d.handle(route{path: "/dev/events", scope: config.ScopeRead, run: (*Server).getSaves}))
	}
	d.handler = d.guard(mux)
	return d
}

type times struct {
	// head is the timeout for receiving the header of a request, body for all of it, idle for the next request on a connection.
	head, body, idle time.Duration
	// send is the timeout for sending a response or an event.
	send time.Duration
	// close is how long requests in progress may continue when the server closes.
	close time.Duration
}

var defaultTimes = times{head: 10 * time.Second, body: 30 * time.Second, idle: 2 * time.Minute, send: 30 * time.Second, close: 10 * time.Second}

// maxHeader limits the size of a request's header. The longest field is Last-Event-ID.
const maxHeader = 64 << 10

// server returns the HTTP server. Its errors are written to srv.Log.
func (srv *Server) server() *http.Server {
	return &http.Server{Handler: srv, ReadHeaderTimeout: srv.times.head, ReadTimeout: srv.times.body, IdleTimeout: srv.times.idle, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(lines(srv.Log), "", 0)}
}

type lines func(format string, args ...any)

func (l lines) Write(p []byte) (int, error) {
	l("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// Serve serves until ctx is done, then waits a moment for requests in progress, and closes the listener.
func (srv *Server) Serve(ctx context.Context, l net.Listener) error {
	server := srv.server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	close(srv.closing)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), srv.times.close)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return errors.Join(server.Close(), fmt.Errorf("requests were interrupted after %v", srv.times.close))
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (srv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { srv.handler.ServeHTTP(w, r) }

// handle returns the handler of a route, which converts errors to problems.
func (srv *Server) handle(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		extend(w, srv.times.send)
		var answer any
		err := needs(callerIn(r.Context()), rt.scope)
		if err == nil {
			err = checkQuery(r, rt.params)
		}
		if err == nil {
			answer, err = rt.run(srv, w, r)
		}
		var p interface {
			error
			write(w http.ResponseWriter)
		}
		switch {
		case err == nil && answer != nil:
			writeJSON(w, http.StatusOK, "application/json", answer)
		case err == nil:
		case errors.As(err, &p):
			p.write(w)
		case r.Context().Err() != nil:
			// The client has disconnected.
		default:
			srv.Log("%s %s: %v", r.Method, rt.path, err)
			NewProblem(Defect, "check the log of this server", "the request could not be processed").write(w)
		}
	}
}

// extend extends the write deadline of a response.
func extend(w http.ResponseWriter, more time.Duration) {
	// Only writers without a connection, as in tests, do not support deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(more))
}

// handler returns the body of a response with status 200, nil if it has written the response itself, or an error.
type handler func(srv *Server, w http.ResponseWriter, r *http.Request) (any, error)

// route is a row of the table of addresses. scope is the scope that a token needs, params are the names of the query
// parameters.
type route struct {
	method, path, scope string
	params              []string
	run                 handler
}

var routes = []route{
	{"POST", "/sign-in", "", nil, (*Server).signIn},
	{"POST", "/sign-out", "", nil, (*Server).signOut},
	{"GET", "/openapi.json", "", nil, (*Server).describe},
	{"GET", "/health", "", nil, (*Server).health},
	{"POST", "/runs", config.ScopeStart, nil, (*Server).start},
	{"GET", "/runs", config.ScopeRead, []string{"limit", "page_token", "status", "flow"}, (*Server).listRuns},
	{"GET", "/runs/{id}", config.ScopeRead, []string{"wait"}, (*Server).getRun},
	{"GET", "/runs/{id}/result", config.ScopeRead, nil, ofRun((*Server).getResult)},
	{"GET", "/runs/{id}/status", config.ScopeRead, nil, ofRun((*Server).getStatus)},
	{"GET", "/runs/{id}/state", config.ScopeRead, nil, ofRun((*Server).getState)},
	{"GET", "/runs/{id}/transcript", config.ScopeRead, []string{"thread", "limit", "page_token"}, ofRun((*Server).getTranscript)},
	{"GET", "/runs/{id}/graph", config.ScopeRead, nil, ofRun((*Server).getGraph)},
	{"GET", "/runs/{id}/executions", config.ScopeRead, nil, ofRun((*Server).getExecutions)},
	{"GET", "/runs/{id}/executions/{execution}/state", config.ScopeRead, nil, ofRun((*Server).getExecutionState)},
	{"GET", "/runs/{id}/compare", config.ScopeRead, []string{"with"}, ofRun((*Server).compareRuns)},
	{"POST", "/runs/{id}/fork", config.ScopeStart, nil, ofRun((*Server).fork)},
	{"GET", "/runs/{id}/events", config.ScopeRead, nil, (*Server).getEvents},
	{"GET", "/runs/{id}/requests", config.ScopeRead, []string{"limit", "page_token"}, ofRun((*Server).getRequests)},
	{"POST", "/runs/{id}/message", config.ScopeAnswer, nil, answer(contract.RequestMessage)},
	{"POST", "/runs/{id}/confirm", config.ScopeAnswer, nil, answer(contract.RequestConfirm)},
	{"POST", "/runs/{id}/tool_result", config.ScopeAnswer, nil, answer(contract.RequestToolResult)},
	{"POST", "/runs/{id}/retry", config.ScopeAnswer, nil, answer(contract.RequestRetry)},
	{"POST", "/runs/{id}/cancel", config.ScopeCancel, nil, ofRun((*Server).cancel)},
	{"GET", "/sessions/{id}/status", config.ScopeRead, nil, (*Server).getSessionStatus},
	{"GET", "/sessions/{id}/result", config.ScopeRead, nil, (*Server).getSessionResult},
	{"POST", "/sessions/{id}/stop", config.ScopeCancel, nil, (*Server).stopSession},
	{"GET", "/agents", config.ScopeRead, []string{"limit", "page_token"}, (*Server).listAgents},
	{"POST", "/agents", config.ScopeAdminister, nil, edit((*Server).createAgent)},
	{"GET", "/agents/{name}", config.ScopeRead, nil, (*Server).getAgent},
	{"PUT", "/agents/{name}", config.ScopeAdminister, nil, edit((*Server).replaceAgent)},
	{"DELETE", "/agents/{name}", config.ScopeAdminister, nil, edit((*Server).deleteAgent)},
}

func ofRun(do func(srv *Server, w http.ResponseWriter, r *http.Request, run *Run) (any, error)) handler {
	return func(srv *Server, w http.ResponseWriter, r *http.Request) (any, error) {
		run, err := srv.Runs.Find(r.Context(), r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		return do(srv, w, r, run)
	}
}

// open are the addresses that need no token: they reveal nothing about runs or agents.
var open = map[string]bool{"/": true, "/page.css": true, "/page.js": true, "/sign-in": true, "/sign-out": true, "/openapi.json": true, "/health": true}

var pageFiles = map[string]string{"/{$}": "web/page.html", "/page.css": "web/page.css", "/page.js": "web/page.js"}

// pagePolicy restricts the page to its own server and its own script.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

var (
	//go:embed openapi.json
	description []byte
	// webFiles is the web page: one document, one script and one style sheet. It uses only the public API.
	//
	//go:embed web
	webFiles embed.FS
)

func (srv *Server) describe(w http.ResponseWriter, _ *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(description)
	return nil, err
}

func (srv *Server) health(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := srv.Runs.Ready(r.Context()); err != nil {
		return nil, err
	}
	return map[string]string{"status": "ok"}, nil
}

// Runs provides the runs of flows. Errors that a client can fix are of type [*Problem].
type Runs interface {
	// Start starts a run. If one with the same id exists, open or closed, it returns that run, and existed is true.
	Start(ctx context.Context, s *Start) (run *Run, existed bool, err error)
	// Find finds a run. If it does not exist, the problem is [UnknownRun].
	Find(ctx context.Context, id string) (*Run, error)
	// List returns up to wanted.Limit runs from a token on, the latest first, and the token of the next page or "".
	List(ctx context.Context, wanted runs.Filter, token string) (list []Run, next string, err error)
	// Await waits until a run is closed. If ctx is done first, it returns ctx's error.
	Await(ctx context.Context, run *Run) error
	// Outcome returns the result or the failure of a closed run.
	Outcome(ctx context.Context, run *Run) (*contract.RunResult, *contract.Failure, error)
	Status(ctx context.Context, run *Run) (*contract.Status, error)
	State(ctx context.Context, run *Run) (map[string]json.RawMessage, error)
	// Transcript returns all messages, thread by thread, and the ids of workflows without history.
	Transcript(ctx context.Context, run *Run) (lines []transcript.Line, missing []string, err error)
	// Graph returns a run's flow and the states of its nodes, or [runs.ErrNoPlan].
	Graph(ctx context.Context, run *Run) (*runs.Graph, error)
	// Tree reads the executions of a run and its descendants.
	Tree(ctx context.Context, run *Run) (*runtree.Tree, error)
	// StateOf returns the state before and after an execution: node#step, prefixed with its place.
	StateOf(ctx context.Context, run *Run, execution string) (*runs.StateChange, error)
	// Fork builds the input of a run that continues from a node of a run. An unsupported fork is a problem.
	Fork(ctx context.Context, run *Run, o fork.Options) (*contract.RunInput, error)
	// Answer sends an answer, or a message without a request.
	Answer(ctx context.Context, run *Run, kind string, answer any) (*contract.Receipt, error)
	Cancel(ctx context.Context, run *Run) error
	// Inputs returns the declared inputs of a run's flow, nil for text only, or [runs.ErrNoPlan].
	Inputs(ctx context.Context, run *Run) (*plan.Inputs, error)
	// Resume sends the next prompt to a session and returns when the prompt is accepted.
	Resume(ctx context.Context, run *Run, in contract.PromptInput) error
	// Stop closes a session.
	Stop(ctx context.Context, run *Run, by string) error
	// Turns returns the turns of a session, and whether it is open. Other runs have none.
	Turns(ctx context.Context, run *Run) (turns []contract.Turn, open bool, err error)
	// CheckEvent returns an error if id is not a valid id of an event.
	CheckEvent(id string) error
	// Follow sends the events after the event with the id after, until the run is closed or ctx is done.
	Follow(ctx context.Context, run *Run, after string, tell func(*Event) error) error
	// Ready reports whether Temporal answers.
	Ready(ctx context.Context) error
}

// Start is a request to start a run.
type Start struct {
	// ID is the run's id, Session the session id that the client chose, Hash the hash of the request.
	ID, Session, Hash string
	// Caller is the name of the caller's token, or "".
	Caller string
	Input  *contract.RunInput
	// Named, if it has a name, is sent instead of the plan: then the workers accept only flows of their folder.
	Named contract.FlowRef
}

// Run describes a run without querying it.
type Run struct {
	runs.Summary
	// Hash is the hash of the request that started it, or "".
	Hash string
	// IsTurn reports that the run is a turn of a session; then Closed is the turn's end.
	IsTurn bool
	// Silent, if not nil, is the reason why a session's turns are unknown; its worker is not queried again.
	Silent error
	// Current and First are the last and the first run id of the chain; only for implementations of [Runs].
	Current, First string
}

// Event is an event of a run.
type Event struct {
	// ID is the position from which a client resumes after this event; "" means that of the event before it.
	ID string `json:"-"`
	// Type is the kind of event, such as model or request_opened.
	Type      string    `json:"event_type"`
	Session   string    `json:"session_id"`
	Timestamp time.Time `json:"timestamp"`
	// Node is the execution, node#step; Call identifies a call in it.
	Node    string            `json:"node,omitempty"`
	Call    string            `json:"call,omitempty"`
	Attempt int32             `json:"attempt,omitempty"`
	Model   string            `json:"model,omitempty"`
	Usage   *contract.Usage   `json:"usage,omitempty"`
	Request *contract.Request `json:"request,omitempty"`
	// Message is the message that was added to a conversation.
	Message *contract.Message `json:"message,omitempty"`
	// Skipped reports whether some of an answer before Text was missed; only for partial answers.
	Skipped bool   `json:"skipped,omitempty"`
	Text    string `json:"text"`
}
