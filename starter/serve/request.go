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

	"weft/specadapter/source"
)

type object struct {
	*source.Value
	problems []string
}

// read reads a request's body: one JSON object.
func (srv *Server) read(w http.ResponseWriter, r *http.Request) (*object, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, NewProblem(MediaType, "send JSON with Content-Type: application/json", "unsupported Content-Type %s", source.Quote(r.Header.Get("Content-Type")))
	}
	data, err := io.ReadAll(http.MaxBytesReader(unmasked(w), r.Body, int64(srv.Settings.MaxBody)))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, NewProblem(TooLarge, "shorten the body", "the body exceeds %d bytes", long.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		extend(w, srv.times.send) // as much of its time as reading took is gone
		return nil, NewProblem(SlowBody, "send the whole body without a pause", "the body was not received within %v, only %d bytes of it", srv.times.body, len(data))
	case err != nil:
		return nil, NewProblem(BadRequest, "send the whole body without a pause", "read the body: %v", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, NewProblem(BadRequest, "send one JSON object", "the body is empty")
	}
	doc, diags := source.Parse("body.json", data)
	if doc == nil {
		p := NewProblem(BadRequest, "send one JSON object", "the body is not valid JSON")
		for _, g := range diags {
			g.File = "body"
			p.Diagnostics = append(p.Diagnostics, oneLine(g.String()))
		}
		return nil, p
	}
	if doc.Root.Kind != source.Object {
		return nil, NewProblem(InvalidBody, "send one JSON object", "the body is %s, want an object", doc.Root.Describe())
	}
	return &object{Value: doc.Root}, nil
}

// oneLine puts a diagnostic's help behind its text.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n\t", "; ") }

func (o *object) addProblem(at source.Pos, format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf("body:%d:%d: ", at.Line, at.Col)+fmt.Sprintf(format, args...))
}

// checkFields notes members that are none of these.
func (o *object) checkFields(known ...string) {
	names := source.NewSuggester(known)
	for _, m := range o.Members {
		if slices.Contains(known, m.Key) {
			continue
		}
		help := "known: " + strings.Join(known, ", ")
		if near := names.Nearest(m.Key); near != "" {
			help = fmt.Sprintf("did you mean %q?", near)
		}
		o.addProblem(m.KeyPos, "unknown field %s; %s", source.Quote(m.Key), help)
	}
}

func (o *object) get(key string, want source.Kind) *source.Value {
	v := o.Get(key)
	switch {
	case v == nil || v.Kind == source.Null:
		return nil
	case v.Kind != want:
		o.addProblem(v.Pos, "%s is %s, want %s", key, v.Describe(), want)
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

// decode decodes the whole object, and notes the first field that does not fit.
func (o *object) decode(to any) {
	strict := json.NewDecoder(bytes.NewReader(o.JSON()))
	strict.DisallowUnknownFields()
	err := strict.Decode(to)
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil || len(o.problems) > 0:
	case errors.As(err, &kind):
		given, _, _ := strings.Cut(kind.Value, " ")
		o.addProblem(o.place(kind.Field), "%s is %s, want %s", kind.Field, jsonKinds[given], cmp.Or(jsonKinds[kind.Type.Kind().String()], "a whole number"))
	default:
		o.addProblem(o.Pos, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

// place is where the member of a path like flow.name stands, or what is nearest to it.
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

// jsonKinds are what JSON calls the kinds of Go, and those of the library's errors.
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

// The size of pages.
const (
	defaultLimit = 50
	maxLimit     = 200
)

func checkQuery(r *http.Request, known []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return NewProblem(BadRequest, "write each as NAME=VALUE, percent-encoded", "the query %s cannot be read: %v", source.Quote(r.URL.RawQuery), err)
	}
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			help := "this address has none"
			if len(known) > 0 {
				help = "known: " + strings.Join(known, ", ")
			}
			return NewProblem(BadRequest, help, "unknown parameter %s", source.Quote(name))
		case len(list) > 1:
			return NewProblem(BadRequest, "leave out all but one", "the parameter %s is given %d times", name, len(list))
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
		return 0, NewProblem(BadRequest, fmt.Sprintf("ask for 1 to %d", maxLimit), "the limit is %s", source.Quote(text))
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
		return 0, NewProblem(BadRequest, "write a duration from 0s to 2m, such as 30s, and ask again as long as the run is open", "wait is %s", source.Quote(text))
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
			return nil, "", NewProblem(BadRequest, "take it from next_page_token of the page before", "the page_token is %s", source.Quote(token))
		}
		from = min(from, len(list))
	}
	to := min(from+limit, len(list))
	if to < len(list) {
		next = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(to)))
	}
	return append([]T{}, list[from:to]...), next, nil
}
