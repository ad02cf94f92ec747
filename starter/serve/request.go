package serve

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/specadapter/source"
	"weft/starter/plaintext"
)

type object struct {
	*source.Value
	problems []string
}

// read reads the body of a request, which must be one JSON object.
func (srv *Server) read(w http.ResponseWriter, r *http.Request) (*object, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, NewProblem(MediaType, "send JSON with Content-Type: application/json", "unsupported Content-Type %s", source.Quote(r.Header.Get("Content-Type")))
	}
	most, setting := srv.Settings.MaxBody, "serve.max_body"
	if caller := callerIn(r.Context()); caller != nil && caller.MaxBody > 0 && caller.MaxBody < most {
		most, setting = caller.MaxBody, "max_body of the principal"
	}
	data, err := io.ReadAll(http.MaxBytesReader(unmasked(w), r.Body, int64(most)))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, NewProblem(TooLarge, "shorten the body, or have the operator raise "+setting+" in weft.yaml", "the body exceeds %d bytes", long.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		extend(w, srv.times.send) // reading has used up part of the timeout
		return nil, NewProblem(SlowBody, "send the whole body without a pause", "the body was not received within %v, only %d bytes of it", srv.times.body, len(data))
	case err != nil:
		return nil, NewProblem(BadRequest, "send the whole body without a pause", "read the body: %v", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, NewProblem(BadRequest, "send one JSON object", "the body is empty")
	}
	doc, diags := source.ParseValue(data)
	if doc == nil {
		p := NewProblem(BadRequest, "send one JSON object", "the body is not valid JSON")
		for _, g := range diags {
			g.File = "body"
			p.Diagnostics = append(p.Diagnostics, oneLine(g.String()))
		}
		return nil, p
	}
	if doc.Root.Kind != source.Object {
		return nil, NewProblem(InvalidBody, "send one JSON object", "the body is %s, expected an object", doc.Root.Describe())
	}
	return &object{Value: doc.Root}, nil
}

// oneLine appends a diagnostic's help to its text.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n\t", "; ") }

func (o *object) addProblem(at source.Pos, format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf("body:%d:%d: ", at.Line, at.Col)+fmt.Sprintf(format, args...))
}

// checkFields adds problems for unknown members and removes them, so that they are not decoded.
func (o *object) checkFields(known ...string) {
	names := source.NewSuggester(known)
	o.Members = slices.DeleteFunc(o.Members, func(m source.Member) bool {
		if slices.Contains(known, m.Key) {
			return false
		}
		help := "known: " + strings.Join(known, ", ")
		if near := names.Nearest(m.Key); near != "" {
			help = fmt.Sprintf("did you mean %q?", near)
		}
		o.addProblem(m.KeyPos, "unknown field %s; %s", source.Quote(m.Key), help)
		return true
	})
}

func (o *object) get(key string, want source.Kind) *source.Value {
	v := o.Get(key)
	switch {
	case v == nil || v.Kind == source.Null:
		return nil
	case v.Kind != want:
		o.addProblem(v.Pos, "%s is %s, expected %s", key, v.Describe(), want)
		return nil
	}
	return v
}

func (o *object) text(key string) string {
	if v := o.get(key, source.String); v != nil {
		return v.Text
	}
	return ""
}

// decode decodes the object, and adds a problem for the first field that does not match.
func (o *object) decode(to any) {
	strict := json.NewDecoder(bytes.NewReader(o.JSON()))
	strict.DisallowUnknownFields()
	err := strict.Decode(to)
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil || len(o.problems) > 0:
	case errors.As(err, &kind):
		given, _, _ := strings.Cut(kind.Value, " ")
		o.addProblem(o.place(kind.Field), "%s is %s, expected %s", kind.Field, jsonKinds[given], cmp.Or(jsonKinds[kind.Type.Kind().String()], "a whole number"))
	default:
		o.addProblem(o.Pos, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

// place returns the position of the member at a path such as flow.name, or of its nearest ancestor.
func (o *object) place(path string) source.Pos {
	v := o.Value
	for _, key := range strings.Split(path, ".") {
		next := v.Get(key)
		if next == nil {
			break
		}
		v = next
	}
	return v.Pos
}

// jsonKinds are the JSON names of Go kinds, and of kinds in the library's errors.
var jsonKinds = map[string]string{"struct": "an object", "map": "an object", "object": "an object", "slice": "an array", "array": "an array",
	"bool": "a boolean", "string": "a string", "number": "a number"}

func (o *object) problem() error {
	if len(o.problems) == 0 {
		return nil
	}
	p := NewProblem(InvalidBody, "fix the body; see /openapi.json", "%s", o.problems[0])
	p.Diagnostics = o.problems
	return p
}

// Page sizes.
const (
	defaultLimit = 50
	maxLimit     = 200
)

func checkQuery(r *http.Request, known []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return NewProblem(BadRequest, "use NAME=VALUE pairs, percent-encoded", "the query %s cannot be parsed: %v", source.Quote(r.URL.RawQuery), err)
	}
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			help := cmp.Or(plaintext.If(len(known) > 0, "known: %s", strings.Join(known, ", ")), "this endpoint has none")
			return NewProblem(BadRequest, help, "unknown parameter %s", source.Quote(name))
		case len(list) > 1:
			return NewProblem(BadRequest, "remove all but one", "the parameter %s is set %d times", name, len(list))
		}
	}
	return nil
}

func limitOf(r *http.Request) (int, error) {
	text := r.FormValue("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, NewProblem(BadRequest, fmt.Sprintf("use 1 to %d", maxLimit), "the limit is %s", source.Quote(text))
	}
	return n, nil
}

const maxWait = 2 * time.Minute

func waitOf(r *http.Request) (time.Duration, error) {
	text := r.FormValue("wait")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxWait {
		return 0, NewProblem(BadRequest, "use a duration from 0s to 2m, such as 30s, and poll until the run is closed", "wait is %s", source.Quote(text))
	}
	return d, nil
}

func page[T any](r *http.Request, list []T) (part []T, next string, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, "", err
	}
	from := 0
	if token := r.FormValue("page_token"); token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err == nil {
			from, err = strconv.Atoi(string(raw))
		}
		if err != nil || from < 0 {
			return nil, "", NewProblem(BadRequest, "use next_page_token of the previous page", "the page_token is %s", source.Quote(token))
		}
		from = min(from, len(list))
	}
	to := min(from+limit, len(list))
	if to < len(list) {
		next = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(to)))
	}
	return append([]T{}, list[from:to]...), next, nil
}

// Kind is a kind of problem. The type of a problem is "urn:weft:problem:" and its Name.
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
	NotFound        = Kind{"not-found", http.StatusNotFound, "Endpoint not found"}
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
	NoPlan          = Kind{"no-plan", http.StatusConflict, "The run has no plan yet"}
	NoWorker        = Kind{"no-worker", http.StatusServiceUnavailable, "No worker responds"}
	NoIssuer        = Kind{"no-issuer", http.StatusServiceUnavailable, "Issuer of the token unavailable"}
	NoTemporal      = Kind{"no-temporal", http.StatusServiceUnavailable, "Temporal unavailable"}
	TooMany         = Kind{"too-many", http.StatusTooManyRequests, "Too many requests of this client"}
	Busy            = Kind{"busy", http.StatusServiceUnavailable, "Too many requests"}
)

// Problem is an error in the format of RFC 9457, application/problem+json.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail describes this occurrence of the problem, with the value.
	Detail string `json:"detail"`
	// Remedy describes how to fix the problem; may be empty.
	Remedy string `json:"remedy,omitempty"`
	// Diagnostics are the diagnostics of a document or a body, with positions.
	Diagnostics []string `json:"diagnostics,omitempty"`
	// Errors are the mismatches of an answer with its schema.
	Errors []contract.FieldError `json:"errors,omitempty"`

	kind   Kind
	header map[string]string
}

// NewProblem returns a problem of a kind.
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

// Error returns the detail.
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

// writeJSON writes a body. It ignores errors, because they mean that the client has disconnected.
func writeJSON(w http.ResponseWriter, status int, media string, v any) {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	if raw, err := textutil.JSON(v); err == nil {
		_, _ = w.Write(append(textutil.Unescape(raw), '\n'))
	}
}

func reply(w http.ResponseWriter, status int, v any) (any, error) {
	writeJSON(w, status, "application/json", v)
	return nil, nil
}
