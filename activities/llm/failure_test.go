package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

func errorBody(code, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"some_type","code":%q}}`, message, code)
}

func TestErrorClasses(t *testing.T) {
	tests := map[string]struct {
		handle   http.HandlerFunc
		class    string
		after    time.Duration
		wantText []string
	}{
		"429 with Retry-After in seconds":    {answer(429, errorBody("rate_limit_exceeded", "slow down"), "Retry-After", "17"), contract.ClassRateLimited, 17 * time.Second, []string{"fake/vendor/m-1", "429 Too Many Requests", "slow down"}},
		"429 with retry-after-ms first":      {answer(429, "{}", "Retry-After", "17", "Retry-After-Ms", "1500"), contract.ClassRateLimited, 1500 * time.Millisecond, nil},
		"429 with a delay above the maximum": {answer(429, "{}", "Retry-After", "86400"), contract.ClassRateLimited, 10 * time.Minute, nil},
		"429 with an invalid delay":          {answer(429, "{}", "Retry-After", "NaN"), contract.ClassRateLimited, 0, nil},
		"429 with a negative delay":          {answer(429, "{}", "Retry-After", "-5"), contract.ClassRateLimited, 0, nil},
		"429 with the reset of a limit":      {answer(429, "{}", "X-Ratelimit-Reset-Requests", "20ms", "X-Ratelimit-Reset-Tokens", "6m0s", "X-Ratelimit-Remaining-Tokens", "5", "X-Ratelimit-Remaining-Requests", "0"), contract.ClassRateLimited, 20 * time.Millisecond, nil},
		"429 with resets but no remainders":  {answer(429, "{}", "X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Reset-Tokens", "1m30s"), contract.ClassRateLimited, 90 * time.Second, nil},
		"429 with Google's RetryInfo":        {answer(429, `[{"error":{"code":429,"message":"exhausted","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"21s"}]}}]`), contract.ClassRateLimited, 21 * time.Second, []string{"exhausted"}},
		"429 without credit":                 {answer(429, errorBody("insufficient_quota", "You exceeded your current quota")), contract.ClassQuotaExceeded, 0, []string{"FAKE_API_KEY"}},
		"402":                                {answer(402, errorBody("402", "Insufficient credits")), contract.ClassQuotaExceeded, 0, nil},
		"401":                                {answer(401, errorBody("invalid_api_key", "Incorrect API key provided: "+testKey)), contract.ClassDenied, 0, []string{"[secret]", "check FAKE_API_KEY in the worker's environment"}},
		"403":                                {answer(403, errorBody("forbidden", "no")), contract.ClassDenied, 0, nil},
		"403 from moderation":                {answer(403, `{"error":{"code":403,"message":"moderated","metadata":{"flagged_input":"x","reasons":["violence"]}}}`), contract.ClassRefused, 0, nil},
		"400":                                {answer(400, errorBody("invalid_value", "bad field")), contract.ClassBadRequest, 0, []string{"bad field"}},
		"400 context too long":               {answer(400, errorBody("context_length_exceeded", "too long")), contract.ClassContextLength, 0, []string{"shorten"}},
		"400 context too long, message only": {answer(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens","code":400}`), contract.ClassContextLength, 0, nil},
		"400 of a content filter":            {answer(400, errorBody("content_filter", "filtered by policy")), contract.ClassRefused, 0, nil},
		"404 unknown model":                  {answer(404, errorBody("model_not_found", "no such model")), contract.ClassBadRequest, 0, []string{"no such model", "check the model's name", "providers.fake.base_url"}},
		"413":                                {answer(413, "too large"), contract.ClassTooLarge, 0, nil},
		"422 with a list of details":         {answer(422, `{"detail":[{"loc":["body","top_k"],"msg":"extra field","type":"extra_forbidden"}]}`), contract.ClassBadRequest, 0, []string{"extra field"}},
		"408":                                {answer(408, ""), contract.ClassUnavailable, 0, []string{"408", "no message"}},
		"409":                                {answer(409, ""), contract.ClassUnavailable, 0, nil},
		"425":                                {answer(425, ""), contract.ClassUnavailable, 0, nil},
		"500 with a page":                    {answer(500, "<html>\n<b>oops</b></html>", "Content-Type", "text/html"), contract.ClassUnavailable, 0, []string{"oops"}},
		"503 with Retry-After":               {answer(503, `{"error":"server busy"}`, "Retry-After", "3"), contract.ClassUnavailable, 3 * time.Second, []string{"server busy"}},
		"500 with rate limit headers":        {answer(500, "{}", "X-Ratelimit-Reset-Tokens", "6m0s"), contract.ClassUnavailable, 0, nil},
		"529":                                {answer(529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`), contract.ClassUnavailable, 0, []string{"529", "Overloaded"}},
		"200 with an error object":           {answer(200, errorBody("", "upstream gone")), contract.ClassUnavailable, 0, []string{"upstream gone"}},
		"200 with an error of status 429":    {answer(200, `{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"busy upstream","headers":{"X-RateLimit-Reset":"4102444800000"}}}}`), contract.ClassRateLimited, 10 * time.Minute, []string{"busy upstream"}},
		"200 with an error of type auth":     {answer(200, `{"error":{"type":"authentication_error","message":"no"}}`), contract.ClassDenied, 0, nil},
		"200 with an error in choices":       {answer(200, `{"choices":[{"error":{"code":502,"message":"bad upstream"}}]}`), contract.ClassUnavailable, 0, []string{"bad upstream"}},
		"200 with a page":                    {answer(200, "<html>login</html>"), contract.ClassUnavailable, 0, []string{"login", "base_url"}},
		"200 with nothing":                   {answer(200, ""), contract.ClassUnavailable, 0, []string{"empty"}},
		"200 with a list":                    {answer(200, `[]`), contract.ClassUnavailable, 0, nil},
		"200 without choices":                {answer(200, `{"choices":[]}`), contract.ClassUnavailable, 0, []string{"no choices"}},
		"200 with half an answer":            {answer(200, `{"choices":[{"message":{"content":"he`), contract.ClassUnavailable, 0, []string{"not JSON"}},
		"a content filter at the end":        {answer(200, completion(`{"content":"x"}`, "content_filter")), contract.ClassRefused, 0, nil},
		"a refusal":                          {answer(200, completion(`{"refusal":"I will not"}`, "stop")), contract.ClassRefused, 0, []string{"I will not"}},
		"finish reason error":                {answer(200, completion(`{"content":"x"}`, "error")), contract.ClassUnavailable, 0, nil},
		"content that is an object":          {answer(200, completion(`{"content":{}}`, "stop")), contract.ClassUnavailable, 0, nil},
		"a tool call without a name":         {answer(200, completion(`{"tool_calls":[{"id":"a","function":{"arguments":"{}"}}]}`, "tool_calls")), contract.ClassUnavailable, 0, nil},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://user:pw@elsewhere.test/x?token=abc", http.StatusTemporaryRedirect)
		}, contract.ClassConnection, 0, []string{"https://elsewhere.test", "not followed", "base_url"}},
		"closed connection": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			_ = c.Close()
		}, contract.ClassUnavailable, 0, []string{"can be reached"}},
	}
	for name, tc := range tests {
		for mode, change := range map[string]func(*ProviderSettings){"unary": unary, "stream": func(*ProviderSettings) {}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := serve(t, tc.handle)
				_, err := ask(t, openModel(t, "compatible", s.URL, change), &Call{IdempotencyKey: "k"})
				f := failureOf(t, err)
				if f.Class != tc.class || f.After != tc.after {
					t.Errorf("class %q after %s, want %q after %s: %v", f.Class, f.After, tc.class, tc.after, f)
				}
				checkContains(t, f.Error(), append(tc.wantText, "m-1")...)
				if strings.Contains(f.Error(), testKey) || strings.Contains(f.Error(), "token=abc") {
					t.Errorf("secret in %q", f.Error())
				}
				if s.calls() != 1 {
					t.Errorf("%d requests, want 1", s.calls())
				}
			})
		}
	}
}

func TestStreamErrors(t *testing.T) {
	slow := func(pieces ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, p := range pieces {
				_, _ = io.WriteString(w, p)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}
	}
	cutOff := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\ndata: {\"cho", text("Hel"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	tests := map[string]struct {
		handle   http.HandlerFunc
		class    string
		wantText []string
	}{
		"it ends without a finish_reason":         {sse(text("Hel")), contract.ClassUnavailable, []string{"finish_reason"}},
		"the connection breaks":                   {cutOff, contract.ClassUnavailable, nil},
		"it stalls":                               {slow("data: " + text("Hel") + "\n\n"), contract.ClassUnavailable, []string{"no byte for "}},
		"it stalls in mid-line":                   {slow("data: {\"choices\""), contract.ClassUnavailable, []string{"no byte"}},
		"an error object in mid-stream":           {sse(text("Hel"), `{"error":{"code":502,"message":"upstream died"}}`), contract.ClassUnavailable, []string{"upstream died"}},
		"an error of type rate_limit_error":       {sse(text("Hel"), `{"error":{"type":"rate_limit_error","message":"slow"}}`), contract.ClassRateLimited, nil},
		"an error object without the field error": {sse(`{"object":"error","message":"context length exceeded","code":400}`), contract.ClassContextLength, nil},
		"an error as a bare line":                 {answer(200, "data: "+text("a")+"\n\n{\"error\":\"boom\"}\n", "Content-Type", "text/event-stream"), contract.ClassUnavailable, []string{"boom"}},
		"an error after the finish":               {sse(text("a"), finish("stop"), `{"error":{"message":"late"}}`), contract.ClassUnavailable, []string{"late"}},
		"an event is not JSON":                    {sse(text("a"), "{oops"), contract.ClassUnavailable, []string{"oops"}},
		"a refusal in pieces":                     {sse(`{"choices":[{"delta":{"refusal":"I "}}]}`, `{"choices":[{"delta":{"refusal":"won't"}}]}`, finish("stop")), contract.ClassRefused, []string{"I won't"}},
		"a filter ends it":                        {sse(text("a"), finish("content_filter")), contract.ClassRefused, nil},
		"it is empty":                             {sse(), contract.ClassUnavailable, []string{"empty"}},
		"it has only DONE":                        {sse(done), contract.ClassUnavailable, nil},
		"it has only comments":                    {answer(200, ": hi\n\n: hi\n\n", "Content-Type", "text/event-stream"), contract.ClassUnavailable, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tc.handle)
			_, err := ask(t, openModel(t, "compatible", s.URL), &Call{})
			f := failureOf(t, err)
			if f.Class != tc.class {
				t.Errorf("class %q, want %q: %v", f.Class, tc.class, f)
			}
			checkContains(t, f.Error(), append(tc.wantText, "fake/vendor/m-1")...)
		})
	}
}

func TestStalledUnaryAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		start    string
		wantText string
	}{
		"before the first byte": {"", "no byte within 400ms"},
		"in mid-answer":         {`{"choices":[`, "no byte for "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if tc.start != "" {
					_, _ = io.WriteString(w, tc.start)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			})
			m := openModel(t, "compatible", s.URL, unary)
			m.firstByte = 400 * time.Millisecond
			_, err := ask(t, m, &Call{})
			f := failureOf(t, err)
			if f.Class != contract.ClassUnavailable {
				t.Errorf("class %q", f.Class)
			}
			checkContains(t, f.Error(), tc.wantText, "first_token_timeout")
		})
	}
}

func TestSlowAnswers(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 8 {
			_, _ = io.WriteString(w, " \n")
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
		_, _ = io.WriteString(w, completion(`{"content":"late"}`, "stop"))
	})
	m := openModel(t, "compatible", s.URL, unary)
	a, err := ask(t, m, &Call{})
	if err != nil || a.Message.Text != "late" {
		t.Errorf("answer %v, error %v", a, err)
	}
}

func TestContextErrors(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", text("Hel"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	s := serve(t, hang)
	ctx, cancel := context.WithCancel(t.Context())
	models, err := Open(Settings{Providers: map[string]ProviderSettings{"a": {Kind: "compatible", BaseURL: s.URL + "/v1"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = models.Generate(ctx, "a/m", newCall(&Call{Partial: func(string) { cancel() }}, hello(), nil))
	if err != context.Canceled {
		t.Errorf("cancelled: error %T %v, want context.Canceled itself", err, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = models.Generate(ctx, "a/m", newCall(&Call{}, hello(), nil)); err != context.DeadlineExceeded {
		t.Errorf("late: error %T %v, want context.DeadlineExceeded itself", err, err)
	}
	if _, err = models.Generate(ctx, "a/m", newCall(&Call{}, hello(), nil)); err != context.DeadlineExceeded || s.calls() != 2 {
		t.Errorf("called with a context that had ended: %d calls, %v", s.calls(), err)
	}
}

// cancellingModel cancels its context and returns an answer.
type cancellingModel struct{ end func() }

func (p cancellingModel) answer(context.Context, *Call) (*wire.Answer, error) {
	p.end()
	return &wire.Answer{Stop: "stop"}, nil
}

func TestSuccessAfterCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := generate(ctx, cancellingModel{cancel}, newCall(&Call{}, hello(), nil)); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

func TestAnswerSizeLimit(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for name, tc := range map[string]struct {
		handle http.HandlerFunc
	}{
		"stream, many events": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 100 {
				fmt.Fprintf(w, "data: %s\n\n", text(long))
			}
		}},
		"stream, one line": {answer(200, "data: "+strings.Repeat(long, 50), "Content-Type", "text/event-stream")},
		"plain":            {answer(200, completion(`{"content":"`+strings.Repeat(long, 50)+`"}`, "stop"))},
		"blanks":           {answer(200, strings.Repeat("    \n", 50000))},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.handle)
			_, err := ask(t, openModel(t, "compatible", s.URL, func(p *ProviderSettings) { p.MaxBodyBytes = 100_000 }), &Call{})
			f := failureOf(t, err)
			if f.Class != contract.ClassTooLarge {
				t.Errorf("class %q: %v", f.Class, f)
			}
			checkContains(t, f.Error(), "100000 bytes", "providers.fake.max_body_bytes")
		})
	}
	exact := completion(`{"content":"`+long+`"}`, "stop")
	s := serve(t, answer(200, exact))
	a, err := ask(t, openModel(t, "compatible", s.URL, func(p *ProviderSettings) { p.MaxBodyBytes = int64(len(exact)) }), &Call{})
	if err != nil || a.Message.Text != long {
		t.Errorf("an answer of exactly the limit: %v", err)
	}
}

func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	_ = l.Close()
	_, err = ask(t, openModel(t, "compatible", address), &Call{})
	f := failureOf(t, err)
	if f.Class != contract.ClassUnavailable {
		t.Errorf("class %q", f.Class)
	}
	checkContains(t, f.Error(), "connection refused", "check that "+address)
}

func TestRedirectsNotFollowed(t *testing.T) {
	other := serve(t, answer(200, completion(`{"content":"stolen"}`, "stop")))
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) })
		_, err := ask(t, openModel(t, "compatible", s.URL, func(p *ProviderSettings) { p.Headers = map[string]string{"X-Api-Key": "abcdefgh-secret"} }), &Call{})
		if f := failureOf(t, err); f.Class != contract.ClassConnection {
			t.Errorf("status %d: class %q", status, f.Class)
		}
	}
	if other.calls() != 0 {
		t.Errorf("redirect target received %d requests, want 0", other.calls())
	}
}

// TestNoTransportRetries checks that http.Transport does not retry: by default it repeats a
// request with an Idempotency-Key if a reused connection breaks.
func TestNoTransportRetries(t *testing.T) {
	n := 0
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		if n == 1 {
			_, _ = io.WriteString(w, completion(`{"content":"ok"}`, "stop"))
			return
		}
		c, _, _ := w.(http.Hijacker).Hijack()
		_ = c.Close()
	})
	m := openModel(t, "compatible", s.URL, unary)
	if _, err := ask(t, m, &Call{IdempotencyKey: "a"}); err != nil {
		t.Fatal(err)
	}
	_, err := ask(t, m, &Call{IdempotencyKey: "b"})
	if f := failureOf(t, err); f.Class != contract.ClassUnavailable || s.calls() != 2 {
		t.Errorf("class %q after %d requests, want unavailable after 2", f.Class, s.calls())
	}
}

func TestSecretsMasked(t *testing.T) {
	p := &provider{key: "zz-very-secret-key", headers: http.Header{"X-Org": {"token abcdefgh-header"}}}
	tests := map[string]struct{ in, want string }{
		"the key":            {"bad key zz-very-secret-key!", "bad key [secret]!"},
		"a header's value":   {"bad abcdefgh-header", "bad [secret]"},
		"a bearer token":     {"header Authorization: Bearer abc.def", "header Authorization: [secret]"},
		"partly masked key":  {"provided: sk-abc****wxyz.", "provided: [secret]"},
		"stars":              {"Your api key: ****abcd is invalid", "Your api key: [secret] is invalid"},
		"control characters": {"a\x1b[31m\r\n\tb", "a [31m b"},
		"invalid UTF-8":      {"a\xffb", "a\uFFFDb"},
		"ordinary words":     {"risk-free sky and monkey_business", "risk-free sky and monkey_business"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := p.clean(tc.in); got != tc.want {
				t.Errorf("clean(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
	if got := p.clean(strings.Repeat("é", 5000)); len(got) > maxQuoted || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestParseDelay(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for in, want := range map[string]time.Duration{
		"1s": time.Second, "6m0s": 6 * time.Minute, "20ms": 20 * time.Millisecond, "12.5": 12500 * time.Millisecond,
		"1800000030": 30 * time.Second, "1800000030000": 30 * time.Second, "2027-01-15T08:01:00Z": time.Minute,
		"1e300": 0, "NaN": 0, "-3": 0, "Inf": 0, "": 0, "soon": 0, "1799999999": 0, "999999": 10 * time.Minute, "-9223372036854775808": 0,
	} {
		if got := parseDelay(in, time.Second, now); got != want {
			t.Errorf("parseDelay(%q) = %s, want %s", in, got, want)
		}
	}
	h := http.Header{"Retry-After": {now.Add(42 * time.Second).UTC().Format(http.TimeFormat)}}
	if got := headerRetryAfter(h, now); got != 42*time.Second {
		t.Errorf("a date: %s", got)
	}
}

func TestOllamaModels(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/tags" {
			w.WriteHeader(404)
			return
		}
		_, _ = io.WriteString(w, `{"models":[{"name":"qwen3:8b"},{"name":"nomic-embed-text","details":{"family":"nomic-bert"}},{"name":"llama3.2"}]}`)
	}))
	defer s.Close()
	for _, base := range []string{s.URL, s.URL + "/v1", strings.TrimPrefix(s.URL, "http://")} {
		names, err := OllamaModels(t.Context(), base)
		if err != nil || strings.Join(names, " ") != "qwen3:8b llama3.2" {
			t.Errorf("%s: %v, %v", base, names, err)
		}
	}
	s.Close()
	_, err := OllamaModels(t.Context(), s.URL)
	f := failureOf(t, err)
	if f.Class != contract.ClassUnavailable {
		t.Errorf("class %q", f.Class)
	}
	checkContains(t, f.Error(), "ollama serve")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OllamaModels(ctx, s.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
