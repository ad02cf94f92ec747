package serve

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/specadapter/source"
)

// The size of pages.
const (
	defaultLimit = 50
	maxLimit     = 200
)

// query are the parameters behind the question mark. The first that is wrong is kept.
type query struct {
	values url.Values
	err    error
}

// queryOf reads parameters, which [checkQuery] has checked.
func queryOf(r *http.Request) *query { return &query{values: r.URL.Query()} }

// checkQuery refuses parameters that are unknown, repeated or cannot be read.
func checkQuery(r *http.Request, known []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return NewProblem(BadRequest, "write each as NAME=VALUE, percent-encoded", "the query %s cannot be read: %v", source.Quote(r.URL.RawQuery), err)
	}
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			help := "there are none here"
			if len(known) > 0 {
				help = "known: " + strings.Join(known, ", ")
			}
			return NewProblem(BadRequest, help, "there is no parameter %s", source.Quote(name))
		case len(list) > 1:
			return NewProblem(BadRequest, "leave out all but one", "the parameter %s is given %d times", name, len(list))
		}
	}
	return nil
}

func (q *query) fail(remedy, format string, args ...any) {
	if q.err == nil {
		q.err = NewProblem(BadRequest, remedy, format, args...)
	}
}

func (q *query) get(name string) string { return q.values.Get(name) }

// limit is how many entries a page shall have.
func (q *query) limit() int {
	s := q.get("limit")
	if s == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxLimit {
		q.fail(fmt.Sprintf("ask for 1 to %d", maxLimit), "the limit is %s", source.Quote(s))
	}
	return n
}

// maxWait bounds how long a request may wait for the end of a run.
const maxWait = 2 * time.Minute

// wait is how long the client waits for the end of a run.
func (q *query) wait() time.Duration {
	s := q.get("wait")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxWait {
		q.fail("write a duration from 0s to 2m, such as 30s, and ask again as long as the run is open", "wait is %s", source.Quote(s))
	}
	return d
}

// page cuts out of a list what a request asks for, and gives the token of the next page.
func page[T any](q *query, list []T) ([]T, string) {
	limit, from := q.limit(), 0
	if token := q.get("page_token"); token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		n, err2 := strconv.Atoi(string(raw))
		if err != nil || err2 != nil || n < 0 {
			q.fail("take it from next_page_token of the page before", "the page_token is %s", source.Quote(token))
			return nil, ""
		}
		from = min(n, len(list))
	}
	to := min(from+limit, len(list))
	if q.err != nil {
		return nil, ""
	}
	next := ""
	if to < len(list) {
		next = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(to)))
	}
	return append([]T{}, list[from:to]...), next
}
