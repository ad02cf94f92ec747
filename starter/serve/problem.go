package serve

import (
	"encoding/json"
	"fmt"
	"net/http"

	"weft/activities/contract"
)

// Kinds of problems. The type of a problem is its kind behind "urn:weft:problem:".
const (
	BadRequest      = "bad-request"
	Unauthorized    = "unauthorized"
	Forbidden       = "forbidden"
	NotFound        = "not-found"
	UnknownRun      = "unknown-run"
	UnknownAgent    = "unknown-agent"
	UnknownFlow     = "unknown-flow"
	UnknownRequest  = "unknown-request"
	UnknownThread   = "unknown-thread"
	SlowBody        = "slow-body"
	MethodUnknown   = "method-not-allowed"
	RunExists       = "run-exists"
	RunEnded        = "run-ended"
	NoResult        = "no-result"
	AlreadyAnswered = "already-answered"
	UnknownSession  = "unknown-session"
	NotResumable    = "not-resumable"
	AgentExists     = "agent-exists"
	TooLarge        = "too-large"
	MediaType       = "media-type"
	InvalidFlow     = "invalid-flow"
	InvalidAgent    = "invalid-agent"
	InvalidBody     = "invalid-body"
	InvalidAnswer   = "invalid-answer"
	KeyReused       = "idempotency-key-reused"
	Defect          = "defect"
	NoWorker        = "no-worker"
	NoTemporal      = "no-temporal"
	Busy            = "busy"
)

// kinds are all of them, each with its HTTP status and title.
var kinds = map[string]struct {
	status int
	title  string
}{
	BadRequest:      {http.StatusBadRequest, "The request is wrong"},
	Unauthorized:    {http.StatusUnauthorized, "A bearer token is wanted"},
	Forbidden:       {http.StatusForbidden, "This is not allowed here"},
	NotFound:        {http.StatusNotFound, "There is no such address"},
	UnknownRun:      {http.StatusNotFound, "There is no such run"},
	UnknownAgent:    {http.StatusNotFound, "There is no such agent"},
	UnknownFlow:     {http.StatusNotFound, "There is no such flow"},
	UnknownRequest:  {http.StatusNotFound, "The run has no such request"},
	UnknownThread:   {http.StatusNotFound, "The run has no such thread"},
	SlowBody:        {http.StatusRequestTimeout, "The body came too slowly"},
	MethodUnknown:   {http.StatusMethodNotAllowed, "The address has no such method"},
	RunExists:       {http.StatusConflict, "Another run has the id"},
	RunEnded:        {http.StatusConflict, "The run has ended"},
	NoResult:        {http.StatusConflict, "The run has no result"},
	UnknownSession:  {http.StatusNotFound, "There is no such session"},
	NotResumable:    {http.StatusBadRequest, "The session cannot go on"},
	AlreadyAnswered: {http.StatusConflict, "The request has another answer"},
	AgentExists:     {http.StatusConflict, "The agent is there already"},
	TooLarge:        {http.StatusRequestEntityTooLarge, "Something is too large"},
	MediaType:       {http.StatusUnsupportedMediaType, "The body is of another kind"},
	InvalidFlow:     {http.StatusUnprocessableEntity, "The flow cannot be run"},
	InvalidAgent:    {http.StatusUnprocessableEntity, "The agent cannot be saved"},
	InvalidBody:     {http.StatusUnprocessableEntity, "The body is not what is wanted"},
	InvalidAnswer:   {http.StatusUnprocessableEntity, "The answer is not what is wanted"},
	KeyReused:       {http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request"},
	Defect:          {http.StatusInternalServerError, "Something is wrong on this side"},
	NoWorker:        {http.StatusServiceUnavailable, "No worker answers"},
	NoTemporal:      {http.StatusServiceUnavailable, "Temporal does not answer"},
	Busy:            {http.StatusServiceUnavailable, "Too much is asked at once"},
}

// Problem is an error as RFC 9457 writes it, application/problem+json.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what is wrong this time, with the value.
	Detail string `json:"detail"`
	// Remedy says what to do; may be empty.
	Remedy string `json:"remedy,omitempty"`
	// Diagnostics are those of a document or a body, each with its place.
	Diagnostics []string `json:"diagnostics,omitempty"`
	// Errors are the places of an answer that does not match its schema.
	Errors []contract.FieldError `json:"errors,omitempty"`

	header map[string]string
}

// NewProblem makes a problem of a kind.
func NewProblem(kind, remedy, format string, args ...any) *Problem {
	k := kinds[kind]
	p := &Problem{Type: "urn:weft:problem:" + kind, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
	if k.status == http.StatusServiceUnavailable {
		return p.with("Retry-After", "5")
	}
	return p
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// with sets a header of the response.
func (p *Problem) with(name, value string) *Problem {
	if p.header == nil {
		p.header = map[string]string{}
	}
	p.header[name] = value
	return p
}

func (p *Problem) write(w http.ResponseWriter) {
	for name, value := range p.header {
		w.Header().Set(name, value)
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

// writeJSON writes a body. An error means that the client has gone.
func writeJSON(w http.ResponseWriter, status int, media string, v any) {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	encode := json.NewEncoder(w)
	encode.SetEscapeHTML(false)
	_ = encode.Encode(v)
}

// reply writes an answer that is no problem.
func reply(w http.ResponseWriter, status int, v any) error {
	writeJSON(w, status, "application/json", v)
	return nil
}
