package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/activities/tool/delivery"
	"weft/workflows/plan"
	"weft/workflows/plan/value"

	"golang.org/x/net/http/httpguts"
)

// requests makes HTTP requests to one server. Each call describes its request.
type requests struct{ httpServer }

func dialRequests(_ context.Context, at *target) (remote, error) {
	s, err := newHTTPServer(at)
	return &requests{s}, err
}

func (r *requests) list(context.Context, *plan.Connection) ([]contract.ToolSpec, error) {
	return nil, fmt.Errorf("%s does not list tools: the flow describes them", r.at.name())
}

// call makes one request. If the server rejects it as invalid, call returns a result for the caller; other error
// statuses are returned as errors.
func (r *requests) call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error) {
	k := slices.IndexFunc(in.Connection.Requests, func(q plan.Request) bool { return q.Name == in.Name })
	if k < 0 {
		return Result{}, r.at.failure(contract.ClassConnection, fmt.Sprintf("no request %q", in.Name), "")
	}
	args, err := value.Parse(in.Arguments)
	if err != nil {
		return Result{}, err
	}
	req, problem := buildRequest(ctx, r.at.conn.URL, &in.Connection.Requests[k], args)
	if problem != "" {
		return Result{Text: problem, Failed: true}, nil
	}
	if m.IdempotencyKey != "" && req.Method != http.MethodGet && req.Method != http.MethodHead {
		req.Header.Set("Idempotency-Key", m.IdempotencyKey)
	}
	resp, err := r.do(req)
	if err != nil {
		return Result{}, err
	}
	out, err := replyOf(resp, in.Connection.Retry)
	var failed *statusError
	if errors.As(err, &failed) && (failed.transient || failed.status >= 500 && in.Connection.Retry != nil) {
		delivery.MarkSent(ctx, false) // the flow requests that these statuses be retried
	}
	return out, err
}

// Repeatable reports whether a request can be repeated without further effects, because its method is idempotent.
func Repeatable(q *plan.Request) bool {
	switch strings.ToUpper(q.Method) {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// replyOf converts a response to a result, which may be an error about the arguments, or to an error.
func replyOf(resp response, retry *plan.Retry) (Result, error) {
	failed := resp.statusError()
	failed.transient = resp.status == http.StatusConflict || retry != nil && slices.Contains(retry.Statuses, resp.status)
	switch s := resp.status; {
	case s < 300:
		return Result{Text: string(resp.body)}, nil
	case s < 400:
		return Result{}, &redirectError{to: redactURL(resp.header.Get("Location"))}
	case failed.transient:
		return Result{}, failed
	case slices.Contains(callerErrors, s), s >= 500 && retry != nil && retry.NoServer:
		return Result{Text: failed.Error(), Failed: true}, nil
	}
	return Result{}, failed
}

// callerErrors are the statuses of invalid requests, for which a retry is useless.
var callerErrors = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusUnsupportedMediaType,
	http.StatusUnprocessableEntity, http.StatusNotImplemented}

// filler replaces placeholders with the arguments of a call.
type filler struct {
	args value.Value
	// missing is the name of a placeholder without an argument.
	missing string
}

// fill replaces the placeholders in a text. escape is applied to each argument; placeholders in arguments are not replaced.
func (f *filler) fill(text string, escape func(string) string) string {
	return value.Placeholder.ReplaceAllStringFunc(text, func(m string) string {
		name := value.Placeholder.FindStringSubmatch(m)[1]
		v, ok := f.args.Get(name)
		if !ok {
			f.missing = name
		}
		return escape(v.Spaced())
	})
}

func unescaped(s string) string { return s }

// buildRequest returns the request of a call, or a message about invalid arguments.
func buildRequest(ctx context.Context, server string, q *plan.Request, args value.Value) (*http.Request, string) {
	f := &filler{args: args}
	path, query, _ := strings.Cut(q.Path, "?")
	u, err := url.Parse(server + f.fill(path, url.PathEscape))
	if err != nil {
		return nil, fmt.Sprintf("the arguments result in an invalid address: %v", textutil.ErrorText(err))
	}
	if countParents(u.EscapedPath()) > countParents(server+path) {
		return nil, "the arguments result in a path with ..; use other values"
	}
	u.RawQuery = f.fill(query, url.QueryEscape)
	for _, p := range q.Query {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += url.QueryEscape(f.fill(p.Name, unescaped)) + "=" + url.QueryEscape(f.fill(p.Value, unescaped))
	}
	if !isAllowed(q.Allow, u) {
		return nil, fmt.Sprintf("the address %s is not allowed", redactURL(u.String()))
	}
	header := http.Header{}
	for _, h := range q.Headers {
		name, text := f.fill(h.Name, unescaped), f.fill(h.Value, unescaped)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(text) {
			return nil, fmt.Sprintf("the arguments result in an invalid header %.100q", name)
		}
		header.Set(name, text)
	}
	body := f.body(q.Body, header)
	method := f.fill(q.Method, unescaped)
	if f.missing != "" {
		return nil, fmt.Sprintf("%s has no value for {{%s}}; set one, or declare an input of this name with a default", q.Name, f.missing)
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Sprintf("the arguments result in an invalid request: %v", textutil.ErrorText(err))
	}
	req.Header = header
	return req, ""
}

func countParents(path string) int {
	n := 0
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			n++
		}
	}
	return n
}

// isAllowed reports whether a URL in the list has the same server and a path that is a prefix. An empty list allows any URL.
func isAllowed(list []string, u *url.URL) bool {
	if len(list) == 0 {
		return true
	}
	return slices.ContainsFunc(list, func(raw string) bool {
		a, err := url.Parse(raw)
		return err == nil && plan.Origin(raw) == plan.Origin(u.String()) && strings.HasPrefix(u.Path, a.Path) && !hasParent(u.Path)
	})
}

// hasParent reports whether a path has a segment for the parent directory, even after a server decodes it again.
func hasParent(path string) bool {
	isSlash := func(r rune) bool { return r == '/' || r == '\\' }
	return slices.ContainsFunc(strings.FieldsFunc(path, isSlash), func(part string) bool {
		// If it is encoded twice, a backend behind the server decodes it again.
		part = strings.ReplaceAll(strings.ToLower(part), "%2e", ".")
		return part == ".." || strings.HasPrefix(part, "..;")
	})
}

// body returns a request's body, and sets Content-Type unless the header already has it.
func (f *filler) body(raw json.RawMessage, header http.Header) []byte {
	if len(raw) == 0 {
		return nil
	}
	v, err := value.Parse(raw)
	if err != nil {
		return nil
	}
	contentType := header.Get("Content-Type")
	v = f.value(v)
	text := v.JSON()
	switch {
	case v.Kind == value.Object && strings.HasPrefix(strings.ToLower(contentType), "application/x-www-form-urlencoded"):
		form := url.Values{}
		for _, m := range v.Members {
			form.Set(m.Key, m.Value.Spaced())
		}
		return []byte(form.Encode())
	case v.Kind == value.String && !json.Valid([]byte(v.Text)):
		if contentType == "" {
			header.Set("Content-Type", "text/plain; charset=utf-8")
		}
		return []byte(v.Text)
	case v.Kind == value.String:
		text = []byte(v.Text)
	}
	if contentType == "" {
		header.Set("Content-Type", "application/json")
	}
	return text
}

// value replaces the placeholders in all strings of a value, including keys.
func (f *filler) value(v value.Value) value.Value {
	out := v
	out.Items, out.Members = nil, nil
	if v.Kind == value.String {
		out.Text = f.fill(v.Text, unescaped)
	}
	for _, item := range v.Items {
		out.Items = append(out.Items, f.value(item))
	}
	for _, m := range v.Members {
		out.Members = append(out.Members, value.Member{Key: f.fill(m.Key, unescaped), Value: f.value(m.Value)})
	}
	return out
}

// hasAddressTemplate reports whether the arguments of a call determine the server of a request.
func hasAddressTemplate(c plan.Connection) bool {
	return c.Kind == plan.ConnectionHTTP && strings.Contains(c.URL, "{{")
}

// hostValue matches a value that may replace a placeholder in a host name.
var hostValue = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// fillAddress replaces the placeholders in the server's URL, so that rules and secrets apply to the actual URL. The value
// of a leading placeholder is a URL that may have a path; the value of any other is a part of the host name. It returns a
// message if the arguments are invalid.
func fillAddress(in contract.ToolInput) (contract.ToolInput, string) {
	c := in.Connection
	args, err := value.Parse(in.Arguments)
	if err != nil {
		return in, "the arguments are not valid JSON"
	}
	problem := ""
	filled := value.Placeholder.ReplaceAllStringFunc(c.URL, func(m string) string {
		name := value.Placeholder.FindStringSubmatch(m)[1]
		v, ok := args.Get(name)
		text := v.Spaced()
		switch {
		case !ok || text == "":
			problem = "the address has no value for " + name
		case strings.HasPrefix(c.URL, m) && !strings.HasPrefix(c.URL[len(m):], "://"):
			if urlProblem(text) != "" || strings.ContainsAny(text, "?#{}") {
				problem = "the value of " + name + " " + cmp.Or(urlProblem(text), "may only have a server and a path")
			}
			text = strings.TrimRight(text, "/")
		case !hostValue.MatchString(text):
			problem = "the value of " + name + " is not part of a valid host name"
		}
		return text
	})
	if problem != "" {
		return in, problem
	}
	if invalid := urlProblem(filled); invalid != "" {
		return in, "the arguments result in an invalid address: it " + invalid
	}
	u, _ := url.Parse(filled) // urlProblem has parsed it
	base := strings.TrimRight(u.EscapedPath(), "/")
	c.URL = u.Scheme + "://" + u.Host
	c.Requests = slices.Clone(c.Requests)
	for i := range c.Requests {
		c.Requests[i].Path = base + c.Requests[i].Path
	}
	in.Connection = c
	return in, ""
}
