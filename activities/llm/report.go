package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weft/activities/llm/wire"
)

// report is what a provider says about an error, in whatever shape.
type report struct {
	// status is the HTTP status; inner the one that the error object itself gives.
	status, inner int
	header        http.Header
	message       string
	// codes are the object's code, type and status, in lower case.
	codes []string
	// after is how long the provider asks to wait; reset is when its limits are.
	after, reset time.Duration
}

// maxAfter caps the wait that a provider may ask for: a longer one must not hide a run.
const maxAfter = 10 * time.Minute

func newReport(status int, header http.Header, body []byte, now time.Time) *report {
	if header == nil {
		header = http.Header{}
	}
	r := &report{status: status, header: header}
	r.read(bytes.TrimSpace(body), now, 0)
	if r.message == "" {
		r.message = string(body)
	}
	if d := waitOf(header, now); d > 0 {
		r.after = d
	}
	// Limits come with every answer: wait only if one of them is the problem.
	if r.after == 0 && r.effective() == http.StatusTooManyRequests {
		r.after = max(r.reset, resetOf(header, now))
	}
	return r
}

// errorObject has the error fields of OpenAI, Mistral and vLLM (message, detail), OpenRouter (metadata) and
// Google (status, details).
type errorObject struct {
	Error    json.RawMessage `json:"error"`
	Message  json.RawMessage `json:"message"`
	Detail   json.RawMessage `json:"detail"`
	Msg      wire.LooseText  `json:"msg"`
	Code     wire.LooseText  `json:"code"`
	Type     wire.LooseText  `json:"type"`
	Status   wire.LooseText  `json:"status"`
	Metadata json.RawMessage `json:"metadata"`
	Details  json.RawMessage `json:"details"`
}

// retryInfo is Google's.
type retryInfo struct {
	RetryDelay string `json:"retryDelay"`
}

// metadata is OpenRouter's: the upstream's own words, headers, and moderation.
type metadata struct {
	Raw     wire.LooseText            `json:"raw"`
	Flagged wire.LooseText            `json:"flagged_input"`
	Headers map[string]wire.LooseText `json:"headers"`
}

// decoded reads a value; what has another shape is left out.
func decoded[T any](raw json.RawMessage) (out T) {
	_ = json.Unmarshal(raw, &out)
	return out
}

// read finds a message and codes in an error object, in what it wraps, or in a list of them.
func (r *report) read(raw []byte, now time.Time, depth int) {
	if len(raw) == 0 || depth > 4 {
		return
	}
	switch raw[0] {
	case '"':
		r.message = cmp.Or(r.message, decoded[string](raw))
	case '[':
		if list := decoded[[]json.RawMessage](raw); len(list) > 0 {
			r.read(list[0], now, depth+1)
		}
	case '{':
		r.readObject(decoded[errorObject](raw), now, depth)
	}
}

// flaggedInput is the code of an input that OpenRouter's moderation withheld.
const flaggedInput = "flagged_input"

func (r *report) readObject(o errorObject, now time.Time, depth int) {
	for _, code := range []wire.LooseText{o.Code, o.Type, o.Status} {
		s := strings.ToLower(string(code))
		if n, err := strconv.Atoi(s); err == nil {
			if n >= 300 && n < 600 && r.inner == 0 {
				r.inner = n
			}
		} else if s != "" {
			r.codes = append(r.codes, s)
		}
	}
	for _, d := range decoded[[]retryInfo](o.Details) {
		r.after = max(r.after, readWait(d.RetryDelay, time.Second, now))
	}
	for _, inner := range []json.RawMessage{o.Error, o.Message, o.Detail} {
		r.read(inner, now, depth+1)
	}
	r.message = cmp.Or(r.message, string(o.Msg))
	m := decoded[metadata](o.Metadata)
	if m.Flagged != "" {
		r.codes = append(r.codes, flaggedInput)
	}
	if m.Raw != "" {
		r.message = strings.TrimPrefix(r.message+": "+string(m.Raw), ": ")
	}
	h := http.Header{}
	for k, v := range m.Headers {
		h.Set(k, string(v))
	}
	r.after, r.reset = max(r.after, waitOf(h, now)), max(r.reset, resetOf(h, now))
}

// effective is the HTTP status or, in a 200 answer, that of the error object; 0 if unknown.
func (r *report) effective() int {
	if r.status >= 300 {
		return r.status
	}
	if r.inner != 0 {
		return r.inner
	}
	for _, c := range r.codes {
		if st, ok := statusOfCode[c]; ok {
			return st
		}
	}
	return 0
}

func (r *report) requestID() string {
	return cmp.Or(r.header.Get("X-Request-Id"), r.header.Get("Request-Id"), r.header.Get("Opc-Request-Id"), r.header.Get("X-Amzn-Requestid"))
}

// target is the host of a redirect; its path and query may hold secrets.
func (r *report) target() string {
	u, err := url.Parse(r.header.Get("Location"))
	if err != nil || u.Host == "" {
		return "another address"
	}
	return u.Scheme + "://" + u.Host
}

// waitOf is how long headers ask to wait, 0 if they do not.
func waitOf(h http.Header, now time.Time) time.Duration {
	return cmp.Or(readWait(h.Get("Retry-After-Ms"), time.Millisecond, now), readWait(h.Get("Retry-After"), time.Second, now))
}

// resetOf reads x-ratelimit-reset(-requests, -tokens) and anthropic-ratelimit-*-reset: the longest of the
// limits that are used up, else of all.
func resetOf(h http.Header, now time.Time) time.Duration {
	var longest, empty time.Duration
	for key := range h {
		key = http.CanonicalHeaderKey(key)
		remaining := strings.Replace(key, "Reset", "Remaining", 1)
		if !strings.HasPrefix(key, "X-Ratelimit-Reset") && (!strings.HasPrefix(key, "Anthropic-Ratelimit-") || !strings.HasSuffix(key, "-Reset")) {
			continue
		}
		d := readWait(h.Get(key), time.Second, now)
		longest = max(longest, d)
		if strings.TrimSpace(h.Get(remaining)) == "0" {
			empty = max(empty, d)
		}
	}
	return cmp.Or(empty, longest)
}

// readWait reads a wait (12.5 of a unit, 6m0s) or a time (RFC 3339, HTTP's, Unix seconds or milliseconds), at most
// maxAfter; 0 where v is neither, or in the past.
func readWait(v string, unit time.Duration, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	var at time.Time
	var wait time.Duration
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		switch {
		case !(n > 0 && n <= 1e15):
		case n > 1e11:
			at = time.UnixMilli(int64(n))
		case n > 1e8:
			at = time.Unix(int64(n), 0)
		default:
			wait = time.Duration(min(n, float64(maxAfter/unit)) * float64(unit))
		}
	} else if wait, err = time.ParseDuration(v); err != nil {
		if at, err = time.Parse(time.RFC3339, v); err != nil {
			at, _ = http.ParseTime(v)
		}
	}
	if !at.IsZero() {
		wait = at.Sub(now)
	}
	return min(max(0, wait), maxAfter)
}
