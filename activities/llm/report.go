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

// report is an error reported by a provider, in any of their formats.
type report struct {
	// status is the HTTP status, innerStatus the status in the error object.
	status, innerStatus int
	header              http.Header
	message             string
	// codes are the error object's code, type and status, in lower case.
	codes []string
	// retryAfter is the delay that the provider requests, limitReset the time until its limits are reset.
	retryAfter, limitReset time.Duration
}

// maxRetryAfter caps the delay that a provider may request, so that a run does not wait unnoticed.
const maxRetryAfter = 10 * time.Minute

func newReport(status int, header http.Header, body []byte, now time.Time) *report {
	if header == nil {
		header = http.Header{}
	}
	r := &report{status: status, header: header}
	r.read(bytes.TrimSpace(body), now, 0)
	if r.message == "" {
		r.message = string(body)
	}
	if d := headerRetryAfter(header, now); d > 0 {
		r.retryAfter = d
	}
	// Every response has limits: use them only if a limit caused the error.
	if r.retryAfter == 0 && r.effectiveStatus() == http.StatusTooManyRequests {
		r.retryAfter = max(r.limitReset, headerLimitReset(header, now))
	}
	return r
}

// errorObject has the fields of errors of OpenAI, Mistral and vLLM (message, detail), OpenRouter (metadata) and Google
// (status, details).
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

// retryInfo is an element of Google's details.
type retryInfo struct {
	RetryDelay string `json:"retryDelay"`
}

// metadata is OpenRouter's: the upstream's error text and headers, and the result of moderation.
type metadata struct {
	Raw     wire.LooseText            `json:"raw"`
	Flagged wire.LooseText            `json:"flagged_input"`
	Headers map[string]wire.LooseText `json:"headers"`
}

// decode decodes a value; parts of an unexpected type are ignored.
func decode[T any](raw json.RawMessage) (out T) {
	_ = json.Unmarshal(raw, &out)
	return out
}

// read extracts the message and codes of an error object, of the objects nested in it, or of the first one of a list.
func (r *report) read(raw []byte, now time.Time, depth int) {
	if len(raw) == 0 || depth > 4 {
		return
	}
	switch raw[0] {
	case '"':
		r.message = cmp.Or(r.message, decode[string](raw))
	case '[':
		if list := decode[[]json.RawMessage](raw); len(list) > 0 {
			r.read(list[0], now, depth+1)
		}
	case '{':
		r.readObject(decode[errorObject](raw), now, depth)
	}
}

// flaggedInput is the code for an input that OpenRouter's moderation rejected.
const flaggedInput = "flagged_input"

func (r *report) readObject(o errorObject, now time.Time, depth int) {
	for _, code := range []wire.LooseText{o.Code, o.Type, o.Status} {
		s := strings.ToLower(string(code))
		if n, err := strconv.Atoi(s); err == nil {
			if n >= 300 && n < 600 && r.innerStatus == 0 {
				r.innerStatus = n
			}
		} else if s != "" {
			r.codes = append(r.codes, s)
		}
	}
	for _, d := range decode[[]retryInfo](o.Details) {
		r.retryAfter = max(r.retryAfter, parseDelay(d.RetryDelay, time.Second, now))
	}
	for _, inner := range []json.RawMessage{o.Error, o.Message, o.Detail} {
		r.read(inner, now, depth+1)
	}
	r.message = cmp.Or(r.message, string(o.Msg))
	m := decode[metadata](o.Metadata)
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
	r.retryAfter, r.limitReset = max(r.retryAfter, headerRetryAfter(h, now)), max(r.limitReset, headerLimitReset(h, now))
}

// effectiveStatus returns the HTTP status or, for a 200 response, that of the error object; 0 if unknown.
func (r *report) effectiveStatus() int {
	if r.status >= 300 {
		return r.status
	}
	if r.innerStatus != 0 {
		return r.innerStatus
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

// redirectTarget returns the scheme and host of a redirect, without its path and query, which may contain secrets.
func (r *report) redirectTarget() string {
	u, err := url.Parse(r.header.Get("Location"))
	if err != nil || u.Host == "" {
		return "another address"
	}
	return u.Scheme + "://" + u.Host
}

// headerRetryAfter returns the delay that headers request, 0 if none.
func headerRetryAfter(h http.Header, now time.Time) time.Duration {
	return cmp.Or(parseDelay(h.Get("Retry-After-Ms"), time.Millisecond, now), parseDelay(h.Get("Retry-After"), time.Second, now))
}

// headerLimitReset returns the longest delay in x-ratelimit-reset(-requests, -tokens) and anthropic-ratelimit-*-reset
// of the limits that are exhausted or, if none is, of all.
func headerLimitReset(h http.Header, now time.Time) time.Duration {
	var longest, exhausted time.Duration
	for key := range h {
		key = http.CanonicalHeaderKey(key)
		remaining := strings.Replace(key, "Reset", "Remaining", 1)
		if !strings.HasPrefix(key, "X-Ratelimit-Reset") && (!strings.HasPrefix(key, "Anthropic-Ratelimit-") || !strings.HasSuffix(key, "-Reset")) {
			continue
		}
		d := parseDelay(h.Get(key), time.Second, now)
		longest = max(longest, d)
		if strings.TrimSpace(h.Get(remaining)) == "0" {
			exhausted = max(exhausted, d)
		}
	}
	return cmp.Or(exhausted, longest)
}

// parseDelay parses a delay (12.5 of a unit, 6m0s) or a time (RFC 3339, HTTP's, Unix seconds or milliseconds), capped at
// maxRetryAfter. It returns 0 if v is neither, or in the past.
func parseDelay(v string, unit time.Duration, now time.Time) time.Duration {
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
			wait = time.Duration(min(n, float64(maxRetryAfter/unit)) * float64(unit))
		}
	} else if wait, err = time.ParseDuration(v); err != nil {
		if at, err = time.Parse(time.RFC3339, v); err != nil {
			at, _ = http.ParseTime(v)
		}
	}
	if !at.IsZero() {
		wait = at.Sub(now)
	}
	return min(max(0, wait), maxRetryAfter)
}
