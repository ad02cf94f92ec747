package tool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"weft/activities/address"
	"weft/activities/contract"
	"weft/activities/oauth"
	"weft/activities/textutil"
	"weft/activities/tool/delivery"
	"weft/activities/tool/serverrequest"
	"weft/activities/tool/stream"
	"weft/workflows/plan"
)

const (
	dialTimeout = 10 * time.Second
	// maxErrorBody limits how much of the body of an error response is read, in bytes.
	maxErrorBody = 64 << 10
	// noTimeout is passed to the library where it requires a limit; calls are limited by their contexts.
	noTimeout = 24 * time.Hour
)

// redirectError reports a redirect. Redirects are not followed, because credentials and policy apply to one server.
type redirectError struct{ to string }

func (r *redirectError) Error() string { return "redirects to " + r.to }

// statusError is an HTTP error status with the response body.
type statusError struct {
	status     int
	retryAfter time.Duration
	body       string
	err        error // the library's, may be nil
	// transient means that the same request may succeed later, regardless of the status.
	transient bool
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.status, http.StatusText(e.status))
	if e.body != "" {
		text += ": " + e.body
	}
	return text
}

func (e *statusError) Unwrap() error { return e.err }

// exchange records what the HTTP layer observes about one request, which the library hides from its callers.
type exchange struct {
	mu sync.Mutex
	// statusErr is the error status of the last response, if it had one.
	statusErr *statusError
	tooLarge  bool
	// resumed means that the response stream ended early and was requested again.
	resumed bool
}

// update calls change with the lock held, because the library reads a response in a separate goroutine.
func (e *exchange) update(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

type exchangeKey struct{}

func withExchange(ctx context.Context, e *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, e)
}

// newHTTPTransport returns a streamable HTTP transport. Its sessions do not depend on a network connection.
func newHTTPTransport(at *target) (*mcpTransport, error) {
	c, err := newHTTPClient(at)
	if err != nil {
		return nil, err
	}
	o := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(c), transport.WithHTTPLogger(discardLog)}
	if at.resumesSession() {
		o = append(o, transport.WithSession(at.session.ID))
	}
	tr, err := transport.NewStreamableHTTP(at.conn.URL, o...)
	if err != nil {
		return nil, err
	}
	requests := at.newServerRequests()
	c.Transport.(*guard).intercept = func(req *http.Request, event []byte) bool {
		return interceptRequest(requests, event, func(q serverrequest.Request) {
			go stream.Answer(req.Context(), requests, q, c, at.conn.URL, req.Header)
		})
	}
	t := &rawHTTPTransport{rawTransport: rawTransport{tr, nil}, http: tr}
	listener := &stream.Listener{Client: c, URL: at.conn.URL}
	return &mcpTransport{
		serverRequests: requests,
		transport:      t,
		lost:           context.Background(),
		close:          c.CloseIdleConnections,
		respond: func(ctx context.Context, message []byte) error {
			return stream.Send(ctx, c, at.conn.URL, t.header(), message)
		},
		listen: func(ctx context.Context) (done func()) {
			if !at.conn.Stream || t.GetSessionId() == "" {
				return func() {} // without a session id, the server cannot assign the stream to a session
			}
			return listener.Listen(ctx, t.header())
		},
	}, nil
}

// interceptRequest passes a server's request to answer, or its notification to requests. It reports whether event was a request.
func interceptRequest(requests *serverrequest.Server, event []byte, answer func(serverrequest.Request)) bool {
	q, ok := stream.ParseRequest(event)
	switch {
	case !ok:
	case len(q.ID) == 0:
		requests.Notify(q.Method, q.Params)
	default:
		answer(q)
		return true
	}
	return false
}

// foreignEndpoint returns the address in an endpoint event if it is invalid or on another server, for which the library would
// wait forever. Otherwise it returns "".
func foreignEndpoint(event []byte, own string) string {
	if !bytes.Contains(event, []byte("endpoint")) {
		return ""
	}
	name, data := stream.ParseEvent(event)
	base, err := url.Parse(own)
	if name != "endpoint" || err != nil {
		return ""
	}
	to, err := base.Parse(string(bytes.TrimSpace(data)))
	switch {
	case err != nil:
		return "(not a URL)"
	case to.Host == base.Host && plan.Origin(to.String()) == plan.Origin(own): // the library compares hosts without normalizing them
		return ""
	}
	return redactURL(to.String())
}

// maxServerRequests bounds the pending requests of a server; further requests are dropped.
const maxServerRequests = 64

// newSSETransport returns a transport over HTTP with server-sent events. The session ends with its event stream.
func newSSETransport(at *target) (*mcpTransport, error) {
	c, err := newHTTPClient(at)
	if err != nil {
		return nil, err
	}
	tr, err := transport.NewSSE(at.conn.URL, transport.WithHTTPClient(c), transport.WithSSELogger(discardLog),
		transport.WithEndpointTimeout(noTimeout), transport.WithResponseTimeout(noTimeout))
	if err != nil {
		return nil, err
	}
	lost, end := context.WithCancelCause(context.Background())
	requests := at.newServerRequests()
	slots := make(chan struct{}, maxServerRequests)
	c.Transport.(*guard).intercept = func(_ *http.Request, event []byte) bool {
		if to := foreignEndpoint(event, at.conn.URL); to != "" && tr.GetEndpoint() == nil {
			end(at.failure(contract.ClassConnection, "the server's endpoint is on another server: "+to,
				"correct the server's endpoint, or set the connection's url to that server"))
		}
		return interceptRequest(requests, event, func(q serverrequest.Request) {
			select {
			case slots <- struct{}{}:
				go func() {
					if to := tr.GetEndpoint(); to != nil {
						stream.Answer(lost, requests, q, c, to.String(), nil)
					}
					<-slots
				}()
			default:
			}
		})
	}
	tr.SetConnectionLostHandler(func(err error) { end(fmt.Errorf("the event stream ended: %w", err)) })
	return &mcpTransport{
		serverRequests: requests,
		transport:      rawSSETransport{tr},
		lost:           lost,
		close: func() {
			end(errStopping)
			c.CloseIdleConnections()
		},
		respond: func(ctx context.Context, message []byte) error {
			return stream.Send(ctx, c, tr.GetEndpoint().String(), nil, message)
		},
	}, nil
}

// newHTTPClient returns the client of one target. It adds credentials, enforces limits, and does not follow redirects.
func newHTTPClient(at *target) (*http.Client, error) {
	security, err := tlsConfig(at.conn)
	if err != nil {
		where := SettingConnections + "." + at.id
		if at.supplied {
			where = "the " + SettingSecrets + " that the flow names"
		}
		return nil, connectionFailure(fmt.Sprintf("%s: %v", at.name(), err), fmt.Sprintf("correct %s in weft.yaml", where))
	}
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	if at.restricted {
		d.Control = address.New(at.settings.allowed(), at.conn.URL).Control
	}
	base := &http.Transport{
		DialContext: d.DialContext, TLSClientConfig: security, TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
	}
	if at.conn.Proxy != "" {
		base.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(at.conn.Proxy) }
	}
	g := &guard{base: base, at: at, origin: plan.Origin(at.conn.URL)}
	if at.conn.OAuth != "" {
		g.access = oauth.New(at.oauth(), base)
	}
	return &http.Client{
		Transport: g,
		CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			return &redirectError{to: redactURL(req.URL.String())}
		},
	}, nil
}

type httpServer struct {
	at     *target
	client *http.Client
}

func newHTTPServer(at *target) (httpServer, error) {
	c, err := newHTTPClient(at)
	return httpServer{at, c}, err
}

func (s *httpServer) usable(bool) bool { return true }

func (s *httpServer) close() { s.client.CloseIdleConnections() }

type response struct {
	status int
	header http.Header
	body   []byte
}

// statusError returns the error for a response whose status is not a success.
func (r response) statusError() *statusError {
	return &statusError{status: r.status, retryAfter: retryAfter(r.header.Get("Retry-After"), time.Now()), body: string(bytes.TrimSpace(r.body))}
}

func (s *httpServer) do(req *http.Request) (response, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, body}, err
}

func tlsConfig(c Connection) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	texts := map[string][]byte{}
	for _, f := range [][2]string{{"ca_file", c.CAFile}, {"cert_file", c.CertFile}, {"key_file", c.KeyFile}} {
		var err error
		if texts[f[0]], err = textutil.PEM(f[1]); f[1] != "" && err != nil {
			return nil, fmt.Errorf("%s: %w", f[0], err)
		}
	}
	if c.CAFile != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(texts["ca_file"]) {
			return nil, errors.New("ca_file: no PEM certificate found")
		}
	}
	if c.CertFile != "" {
		pair, err := tls.X509KeyPair(texts["cert_file"], texts["key_file"])
		if err != nil {
			return nil, fmt.Errorf("cert_file, key_file: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// guard is the library's round tripper: it adds credentials, limits the size of messages, and records the status, which the library hides.
type guard struct {
	base   *http.Transport
	at     *target
	origin string
	// intercept, if set, is called with each event of a stream; events for which it returns true are removed.
	intercept func(req *http.Request, event []byte) bool
	// access, if set, supplies OAuth tokens.
	access *oauth.Access
}

// CloseIdleConnections implements the method that [http.Client.CloseIdleConnections] calls.
func (g *guard) CloseIdleConnections() { g.base.CloseIdleConnections() }

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete && g.at.kind == plan.ConnectionMCP {
		// Runs may continue the session on other workers; the server expires it.
		return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	}
	if plan.Origin(req.URL.String()) != g.origin {
		return nil, &redirectError{to: redactURL(req.URL.String())}
	}
	req = req.Clone(req.Context())
	for name, value := range g.at.conn.Headers {
		req.Header.Set(name, value)
	}
	// The transport decompresses responses only if it has set this header itself.
	req.Header.Del("Accept-Encoding")
	lowerIdempotencyKeys(req.Header)
	ex, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if ex == nil {
		ex = &exchange{}
	}
	if req.Header.Get("Last-Event-ID") != "" {
		ex.update(func() { ex.resumed = true })
	}
	send := func(req *http.Request) (*http.Response, error) { return g.base.RoundTrip(delivery.Trace(req)) }
	var resp *http.Response
	var err error
	if g.access != nil {
		resp, err = g.access.Send(req, send)
	} else {
		resp, err = send(req)
	}
	if _, failed := errors.AsType[*contract.Failure](err); failed {
		delivery.MarkSent(req.Context(), false) // no token, so the request was not sent
	}
	if err != nil {
		return nil, err
	}
	if delivery.Declined(req, resp) {
		delivery.MarkSent(req.Context(), false)
	}
	if resp.StatusCode >= 400 {
		ex.recordStatus(resp)
		return resp, nil
	}
	ex.update(func() { ex.statusErr = nil })
	return g.limitBody(req, resp, ex)
}

func (g *guard) limitBody(req *http.Request, resp *http.Response, ex *exchange) (*http.Response, error) {
	kind, limit := resp.Header.Get("Content-Type"), g.at.settings.MaxMessageBytes
	media, _, _ := mime.ParseMediaType(kind)
	sessionStream := g.at.conn.Transport == TransportSSE && req.Method == http.MethodGet
	ok := resp.StatusCode == http.StatusOK
	switch {
	case ok && sessionStream && media != eventStream:
		resp.Body.Close()
		return nil, errors.New(unexpectedType + cmp.Or(kind, "none")) // the library would wait for events
	case ok && media == eventStream && g.at.kind == plan.ConnectionMCP && (sessionStream || g.at.conn.Transport == TransportHTTP):
		// The limit applies to each event, not to the stream.
		events := stream.New(resp.Body, limit)
		events.TooLarge = func() { ex.update(func() { ex.tooLarge = true }) }
		if g.intercept != nil {
			events.Intercept = func(event []byte) bool { return g.intercept(req, event) }
		}
		events.Resumable = g.at.conn.Transport == TransportHTTP
		resp.Body = events
	default:
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: limit, ex: ex}
	}
	return resp, nil
}

// lowerIdempotencyKeys writes header names in lower case, because Go's transport repeats requests that have the canonical names.
func lowerIdempotencyKeys(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// recordStatus records an error status with the beginning of the body. It replaces the body with that beginning.
func (e *exchange) recordStatus(resp *http.Response) {
	// A read error is ignored: the status is the error, and a partial body is still useful.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	e.update(func() { e.statusErr = response{resp.StatusCode, resp.Header, body}.statusError() })
}

// maxRetryAfter limits the wait that a server may request.
const maxRetryAfter = time.Hour

// limitedBody limits the size of a body that is not an event stream.
type limitedBody struct {
	io.ReadCloser
	left int
	ex   *exchange
}

// Read fails with [stream.ErrTooLarge] once the limit is exceeded.
func (l *limitedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= n; l.left < 0 {
		l.ex.update(func() { l.ex.tooLarge = true })
		return 0, stream.ErrTooLarge
	}
	return n, err
}

const eventStream = "text/event-stream"

// retryAfter parses a Retry-After header, in seconds or as a date. It returns 0 if the value is absent, past or invalid.
func retryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if s, err := strconv.Atoi(value); err == nil {
		d = time.Duration(min(max(s, 0), int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
