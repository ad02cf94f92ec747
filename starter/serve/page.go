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

// checkQuery refuses parameters that are unknown, repeated or cannot be read.
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

// waitOf returns how long the client waits for the end of a run.
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

// page returns the part of a list that a request asks for, and the token of the next page.
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
