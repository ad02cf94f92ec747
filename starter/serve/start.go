package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/specadapter"
	"weft/specadapter/blueprint"
	"weft/specadapter/inputs"
	"weft/specadapter/source"
)

type started struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	// Status is always pending.
	Status string `json:"status"`
}

// start starts a run of an agent, in the format of the blueprint dialect's framework, or of a flow.
func (srv *Server) start(w http.ResponseWriter, r *http.Request) (any, error) {
	o, err := srv.read(w, r)
	if err != nil {
		return nil, err
	}
	if o.Get("flow") == nil && o.text("type") == resumeSession {
		return srv.resume(w, r, o)
	}
	s, repeats, err := srv.name(r, o)
	if err != nil {
		return nil, err
	}
	if s.ID != "" {
		// Do not compile a repeated start again: the flow may have changed.
		run, err := srv.Runs.Find(r.Context(), s.ID)
		if err == nil {
			return again(w, s, run, repeats)
		}
		if !isNotFound(err) {
			return nil, err
		}
	}
	if err := srv.checkSession(r.Context(), s); err != nil {
		return nil, err
	}
	readStart := srv.flowStart
	if o.Get("flow") == nil {
		readStart = srv.sessionStart
	}
	if err := readStart(r.Context(), o, s); err != nil {
		return nil, err
	}
	run, existed, err := srv.Runs.Start(r.Context(), s)
	switch {
	case err != nil:
		return nil, err
	case existed:
		return again(w, s, run, repeats)
	}
	return created(w, run)
}

// checkSession returns an error if the session id is the generated id of another session.
func (srv *Server) checkSession(ctx context.Context, s *Start) error {
	if s.Session == "" {
		return nil
	}
	run, err := srv.session(ctx, s.Session)
	switch {
	case err == nil:
		return NewProblem(RunExists, "use another session_id, or continue with resume_session", "the session %q already exists: run %q", s.Session, run.ID)
	case isNotFound(err):
		return nil
	}
	return err
}

func created(w http.ResponseWriter, run *Run) (any, error) {
	w.Header().Set("Location", "/runs/"+url.PathEscape(run.ID))
	return reply(w, http.StatusCreated, started{RunID: run.ID, SessionID: sessionOf(run), Status: "pending"})
}

func again(w http.ResponseWriter, s *Start, run *Run, repeats string) (any, error) {
	same := run.Hash == s.Hash
	switch {
	case same && repeats != "":
		w.Header().Set("Idempotent-Replayed", "true")
		return created(w, run)
	case repeats == byKey:
		return nil, NewProblem(KeyReused, "send the same body as before, or use another key", "the Idempotency-Key was already used for the run %q with a different body", run.ID)
	}
	return nil, NewProblem(RunExists, "use another id, or get the run", "the run %q already exists", run.ID)
}

// Fields that make a start idempotent.
const (
	byKey = "Idempotency-Key"
	byID  = "id"
)

// name returns a start with the requested id, "" for any, and the field that makes it idempotent.
func (srv *Server) name(r *http.Request, o *object) (s *Start, repeats string, err error) {
	s = &Start{ID: o.text("id"), Session: o.text("session_id"), Hash: hashOf(o.Value), Caller: callerOf(r)}
	key := r.Header.Get("Idempotency-Key")
	if err := checkNames(key, s, o); err != nil {
		return nil, "", err
	}
	switch {
	case s.ID != "":
		return s, byID, nil
	case s.Session != "":
		s.ID = derived(ofSession, s.Session)
	case key != "":
		s.ID = derived(ownerOf(r), key)
	}
	if key != "" {
		repeats = byKey
	}
	return s, repeats, nil
}

// maxName is the maximum length of ids and keys of clients; the ids of children extend a run's id.
const maxName = 200

// inPaths are path segments with a special meaning.
var inPaths = []string{".", ".."}

func checkNames(key string, s *Start, o *object) error {
	for _, n := range []struct{ what, value string }{{"the header Idempotency-Key", key}, {"id", s.ID}, {"session_id", s.Session}} {
		if len(n.value) > maxName || strings.ContainsFunc(n.value, func(c rune) bool { return c < ' ' || c > '~' }) {
			return NewProblem(BadRequest, "use printable ASCII, at most 200 bytes", "%s is %s", n.what, source.Quote(n.value))
		}
	}
	switch {
	case strings.Contains(s.ID, ofTurn):
		return NewProblem(BadRequest, "use another one", "id is %s, but %s is reserved for ids of a session's later turns", source.Quote(s.ID), ofTurn)
	case contract.CheckRunID(s.ID) != nil:
		return NewProblem(BadRequest, "use another one", "%v", contract.CheckRunID(s.ID))
	case slices.Contains(inPaths, s.ID), slices.Contains(inPaths, s.Session):
		return NewProblem(BadRequest, "use another one", `an id or session_id of "." or ".." cannot be part of a URL`)
	case s.ID != "" && key != "":
		return NewProblem(BadRequest, "remove one of them", "id and Idempotency-Key both identify the run")
	case s.ID != "" && s.Session != "":
		return NewProblem(BadRequest, "remove one of them", "id and session_id both identify the run")
	}
	return o.problem()
}

// ofSession separates session ids from keys: no client has such a name.
const ofSession = "\x00session"

// derived derives a run's id from a client's key or session id. Keys are per client.
func derived(of, name string) string {
	return runPrefix + contract.SHA([]byte(of + "\x00" + name))[:32]
}

// Prefixes of the ids of agents' runs and sessions, as in the framework of the blueprint dialect.
const (
	runPrefix     = "run_"
	sessionPrefix = "ses_"
)

func randomName() string {
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}

// sessionOf returns the session id of a run, which may be a later turn.
func sessionOf(run *Run) string {
	if run.Session != "" {
		return run.Session
	}
	workflow, _ := SplitTurn(run.ID)
	if rest, ok := strings.CutPrefix(workflow, runPrefix); ok {
		return sessionPrefix + rest
	}
	return workflow
}

func hashOf(v *source.Value) string {
	plain, ok := textutil.DecodeExact(v.JSON())
	raw, err := json.Marshal(plain)
	if !ok || err != nil {
		return ""
	}
	return contract.SHA(raw)
}

func checkInputs(ctx context.Context, s *Start, agent string) error {
	flow := s.Input.Flow.Plan
	if len(s.Input.Value) > 0 && !specadapter.TraitsOf(flow.Dialect).Values {
		return NewProblem(InvalidBody, "use input for the text", "the body has a value, but the flow %q, of the dialect %s, has no typed values", flow.Name, flow.Dialect)
	}
	if flow.Inputs == nil {
		if p := string(s.Input.Params); p != "" && p != "null" && p != "{}" {
			return NewProblem(InvalidBody, "use input for the text, and state for values of nodes",
				"the body has params, but the flow %q, of the dialect %s, declares no inputs", flow.Name, flow.Dialect)
		}
		if p := string(s.Input.Scope); p != "" && p != "null" {
			return NewProblem(InvalidBody, "remove the scope", "the body has a scope, but the flow %q, of the dialect %s, has no placeholders", flow.Name, flow.Dialect)
		}
		s.Input.Params, s.Input.Scope = nil, nil
		return nil
	}
	var v inputs.Values
	err := v.Read(flow.Inputs, s.Input.Params, s.Input.Scope, s.Input.Input)
	if err == nil {
		_, _, err = inputs.Start(ctx, flow, v)
	}
	return inputProblem(err, agent)
}

func inputProblem(err error, agent string) error {
	if err == nil {
		return nil
	}
	if missing, ok := errors.AsType[*inputs.MissingConfig](err); ok {
		return &frameworkError{missing}
	}
	if invalid, ok := errors.AsType[*inputs.Invalid](err); ok {
		invalid.AgentName = agent
		return &frameworkError{invalid}
	}
	return NewProblem(InvalidBody, "", "%s", oneLine(err.Error()))
}

// frameworkError is an error with the documented body of the blueprint dialect's framework.
type frameworkError struct{ error }

func (d *frameworkError) write(w http.ResponseWriter) {
	writeJSON(w, http.StatusBadRequest, "application/json", d.error)
}

// unresolved returns the framework's error for an MCP server if that is the document's first error, otherwise nil.
func unresolved(diags []source.Diagnostic) error {
	var missing *inputs.MissingConfig
	for _, g := range diags {
		switch {
		case g.Severity != source.Error:
			continue
		case missing != nil:
			if g.Code == blueprint.CodeServerConfig && g.About[0] == missing.Server {
				missing.Fields = append(missing.Fields, g.About[1])
			}
			continue
		case g.About[0] == "":
			return nil
		case g.Code == blueprint.CodeServer:
			return &frameworkError{&inputs.UnknownServer{Code: "mcp_ref_resolution_failed", Message: oneLine(g.String()), Server: g.About[0], Ref: g.About[1]}}
		case g.Code == blueprint.CodeServerConfig:
			missing = &inputs.MissingConfig{Code: "missing_required_mcp_config", Message: oneLine(g.String()), Server: g.About[0], Fields: g.About[1:]}
		}
	}
	if missing == nil {
		return nil
	}
	return &frameworkError{missing}
}
