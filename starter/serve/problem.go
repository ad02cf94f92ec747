package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"weft/activities/contract"
)

// Kind is a kind of problem. The type of a problem is its Name behind "urn:weft:problem:".
type Kind struct {
	Name   string
	status int
	title  string
}

// Kinds of problems.
var (
	BadRequest      = Kind{"bad-request", http.StatusBadRequest, "Bad request"}
	Unauthorized    = Kind{"unauthorized", http.StatusUnauthorized, "Bearer token required"}
	Forbidden       = Kind{"forbidden", http.StatusForbidden, "Forbidden"}
	NotFound        = Kind{"not-found", http.StatusNotFound, "Address not found"}
	UnknownRun      = Kind{"unknown-run", http.StatusNotFound, "Run not found"}
	UnknownAgent    = Kind{"unknown-agent", http.StatusNotFound, "Agent not found"}
	UnknownFlow     = Kind{"unknown-flow", http.StatusNotFound, "Flow not found"}
	UnknownRequest  = Kind{"unknown-request", http.StatusNotFound, "Request not found"}
	UnknownThread   = Kind{"unknown-thread", http.StatusNotFound, "Thread not found"}
	SlowBody        = Kind{"slow-body", http.StatusRequestTimeout, "Request body timed out"}
	MethodUnknown   = Kind{"method-not-allowed", http.StatusMethodNotAllowed, "Method not allowed"}
	RunExists       = Kind{"run-exists", http.StatusConflict, "Run already exists"}
	RunEnded        = Kind{"run-ended", http.StatusConflict, "Run is closed"}
	NoResult        = Kind{"no-result", http.StatusConflict, "Run has no result"}
	UnknownSession  = Kind{"unknown-session", http.StatusNotFound, "Session not found"}
	NotResumable    = Kind{"not-resumable", http.StatusBadRequest, "Session cannot be resumed"}
	AlreadyAnswered = Kind{"already-answered", http.StatusConflict, "Request already answered"}
	AgentExists     = Kind{"agent-exists", http.StatusConflict, "Agent already exists"}
	TooLarge        = Kind{"too-large", http.StatusRequestEntityTooLarge, "Content too large"}
	MediaType       = Kind{"media-type", http.StatusUnsupportedMediaType, "Unsupported content type"}
	InvalidFlow     = Kind{"invalid-flow", http.StatusUnprocessableEntity, "Invalid flow"}
	InvalidAgent    = Kind{"invalid-agent", http.StatusUnprocessableEntity, "Invalid agent"}
	InvalidBody     = Kind{"invalid-body", http.StatusUnprocessableEntity, "Invalid body"}
	InvalidAnswer   = Kind{"invalid-answer", http.StatusUnprocessableEntity, "Invalid answer"}
	KeyReused       = Kind{"idempotency-key-reused", http.StatusUnprocessableEntity, "Idempotency-Key already used for another request"}
	Defect          = Kind{"defect", http.StatusInternalServerError, "Internal error"}
	NoWorker        = Kind{"no-worker", http.StatusServiceUnavailable, "No worker answers"}
	NoTemporal      = Kind{"no-temporal", http.StatusServiceUnavailable, "Temporal unavailable"}
	Busy            = Kind{"busy", http.StatusServiceUnavailable, "Too many requests"}
)

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

	kind   Kind
	header map[string]string
}

// NewProblem makes a problem of a kind.
func NewProblem(k Kind, remedy, format string, args ...any) *Problem {
	p := &Problem{kind: k, Type: "urn:weft:problem:" + k.Name, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
	if k.status == http.StatusServiceUnavailable {
		return p.with("Retry-After", "5")
	}
	return p
}

func isNotFound(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == http.StatusNotFound
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

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

func reply(w http.ResponseWriter, status int, v any) (any, error) {
	writeJSON(w, status, "application/json", v)
	return nil, nil
}
