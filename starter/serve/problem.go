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
	BadRequest:      {http.StatusBadRequest, "Bad request"},
	Unauthorized:    {http.StatusUnauthorized, "Bearer token required"},
	Forbidden:       {http.StatusForbidden, "Forbidden"},
	NotFound:        {http.StatusNotFound, "Address not found"},
	UnknownRun:      {http.StatusNotFound, "Run not found"},
	UnknownAgent:    {http.StatusNotFound, "Agent not found"},
	UnknownFlow:     {http.StatusNotFound, "Flow not found"},
	UnknownRequest:  {http.StatusNotFound, "Request not found"},
	UnknownThread:   {http.StatusNotFound, "Thread not found"},
	SlowBody:        {http.StatusRequestTimeout, "Request body timed out"},
	MethodUnknown:   {http.StatusMethodNotAllowed, "Method not allowed"},
	RunExists:       {http.StatusConflict, "Run already exists"},
	RunEnded:        {http.StatusConflict, "Run is closed"},
	NoResult:        {http.StatusConflict, "Run has no result"},
	UnknownSession:  {http.StatusNotFound, "Session not found"},
	NotResumable:    {http.StatusBadRequest, "Session cannot be resumed"},
	AlreadyAnswered: {http.StatusConflict, "Request already answered"},
	AgentExists:     {http.StatusConflict, "Agent already exists"},
	TooLarge:        {http.StatusRequestEntityTooLarge, "Content too large"},
	MediaType:       {http.StatusUnsupportedMediaType, "Unsupported content type"},
	InvalidFlow:     {http.StatusUnprocessableEntity, "Invalid flow"},
	InvalidAgent:    {http.StatusUnprocessableEntity, "Invalid agent"},
	InvalidBody:     {http.StatusUnprocessableEntity, "Invalid body"},
	InvalidAnswer:   {http.StatusUnprocessableEntity, "Invalid answer"},
	KeyReused:       {http.StatusUnprocessableEntity, "Idempotency-Key already used for another request"},
	Defect:          {http.StatusInternalServerError, "Internal error"},
	NoWorker:        {http.StatusServiceUnavailable, "No worker answers"},
	NoTemporal:      {http.StatusServiceUnavailable, "Temporal unavailable"},
	Busy:            {http.StatusServiceUnavailable, "Too many requests"},
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
