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
	"weft/activities/tool/questions"
	"weft/activities/tool/stream"
	"weft/workflows/plan"
)

const (
	dialTimeout = 10 * time.Second
	// errorBody bounds what is read of an answer with an error status.
	errorBody = 64 << 10
	// noTimeout stands for no limit where the library wants one: the call's context rules.
	noTimeout = 24 * time.Hour
)

// redirected is a redirect. None is followed: credentials and policy belong to one server.
type redirected struct{ to string }

func (r *redirected) Error() string { return "redirects to " + r.to }

// statusError is an HTTP status that is an error, with the server's words.
type statusError struct {
	status     int
	retryAfter time.Duration
	body       string
	err        error // the library's, may be nil
	// transient: the same request may succeed later, whatever the status.
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

// exchange is what the HTTP layer learns of one request, for the layers above the library.
type exchange struct {
	mu sync.Mutex
	// refusal is the last response's error status, if it had one.
	refusal  *statusError
	tooLarge bool
	// resumed: the stream of the answer had ended early, and was asked for again.
	resumed bool
}

// note changes an exchange. The library reads a response in a goroutine of its own.
func (e *exchange) note(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

type exchangeKey struct{}

func withExchange(ctx context.Context, e *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, e)
}

// newHTTPTransport prepares streamable HTTP. A session needs no connection of its own.
func newHTTPTransport(at *target) (*mcpTransport, error) {
	c, err := newHTTPClient(at)
	if err != nil {
		return nil, err
	}
	o := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(c), transport.WithHTTPLogger(discardLog)}
	if at.continues() {
		o = append(o, transport.WithSession(at.session.ID))
	}
	tr, err := transport.NewStreamableHTTP(at.conn.URL, o...)
	if err != nil {
		return nil, err
	}
	asks := at.asks()
	c.Transport.(*guard).take = func(req *http.Request, event []byte) bool {
		return takeRequest(asks, event, func(q questions.Request) {
			go stream.Answer(req.Context(), asks, q, c, at.conn.URL, req.Header)
		})
	}
	t := &rawHTTPTransport{rawTransport: rawTransport{tr, nil}, http: tr}
	listener := &stream.Listener{Client: c, URL: at.conn.URL}
	return &mcpTransport{
		asks:      asks,
		transport: t,
		lost:      context.Background(),
		close:     c.CloseIdleConnections,
		respond: func(ctx context.Context, message []byte) error {
			return stream.Send(ctx, c, at.conn.URL, t.header(), message)
		},
		listen: func(ctx context.Context) (done func()) {
			if !at.conn.Stream || t.GetSessionId() == "" {
				return func() {} // the server could not tell which stream is whose
			}
			return listener.Listen(ctx, t.header())
		},
	}, nil
}

// takeRequest takes what a server asks in an event, and reads its notifications.
func takeRequest(by *questions.Server, event []byte, answer func(questions.Request)) bool {
	q, ok := stream.Message(event)
	switch {
	case !ok:
	case len(q.ID) == 0:
		by.Notify(q.Method, q.Params)
	default:
		answer(q)
		return true
	}
	return false
}

// foreignEndpoint reads an endpoint event whose address is invalid or another server's. The library would wait for
// ever.
func foreignEndpoint(event []byte, own string) string {
	if !bytes.Contains(event, []byte("endpoint")) {
		return ""
	}
	name, data := stream.Fields(event)
	base, err := url.Parse(own)
	if name != "endpoint" || err != nil {
		return ""
	}
	to, err := base.Parse(string(bytes.TrimSpace(data)))
	switch {
	case err != nil:
		return "(not a URL)"
	case to.Host == base.Host && plan.Origin(to.String()) == plan.Origin(own): // the library compares the host as it is written
		return ""
	}
	return redactURL(to.String())
}

// maxServerRequests is how many requests of a server wait for answers; more are dropped.
const maxServerRequests = 64

// newSSETransport prepares HTTP with server-sent events. The session ends with its stream.
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
	asks := at.asks()
	slots := make(chan struct{}, maxServerRequests)
	c.Transport.(*guard).take = func(_ *http.Request, event []byte) bool {
		if to := foreignEndpoint(event, at.conn.URL); to != "" && tr.GetEndpoint() == nil {
			end(at.failure(contract.ClassConnection, "the server's endpoint is on another server: "+to,
				"correct the server's endpoint, or set the connection's url to that server"))
		}
		return takeRequest(asks, event, func(q questions.Request) {
			select {
			case slots <- struct{}{}:
				go func() {
					if to := tr.GetEndpoint(); to != nil {
						stream.Answer(lost, asks, q, c, to.String(), nil)
					}
					<-slots
				}()
			default:
			}
		})
	}
	tr.SetConnectionLostHandler(func(err error) { end(fmt.Errorf("the event stream ended: %w", err)) })
	return &mcpTransport{
		asks:      asks,
		transport: rawSSETransport{tr},
		lost:      lost,
		close: func() {
			end(errStopping)
			c.CloseIdleConnections()
		},
		respond: func(ctx context.Context, message []byte) error {
			return stream.Send(ctx, c, tr.GetEndpoint().String(), nil, message)
		},
	}, nil
}

// newHTTPClient makes the client of one target: its credentials, its limits, no redirect.
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
			return &redirected{to: redactURL(req.URL.String())}
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

// failed is the error of a status that is no success.
func (r response) failed() *statusError {
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
			return nil, errors.New("ca_file: it has no PEM certificate")
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

// guard is the round tripper under the library: it adds credentials to requests to one server, bounds every
// message, and records the status, which the library hides.
type guard struct {
	base   *http.Transport
	at     *target
	origin string
	// take, if set, is given each event of a stream; those that it takes nobody else reads.
	take func(req *http.Request, event []byte) bool
	// access, if set, has the tokens of an authorization server.
	access *oauth.Access
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] looks for.
func (g *guard) CloseIdleConnections() { g.base.CloseIdleConnections() }

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete && g.at.kind == plan.ConnectionMCP {
		// Runs go on with a session on other workers: the server ends it in its own time.
		return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	}
	if plan.Origin(req.URL.String()) != g.origin {
		return nil, &redirected{to: redactURL(req.URL.String())}
	}
	req = req.Clone(req.Context())
	for name, value := range g.at.conn.Headers {
		req.Header.Set(name, value)
	}
	// The transport asks for compressed answers itself, and expands what it has asked for alone.
	req.Header.Del("Accept-Encoding")
	lowerIdempotencyKeys(req.Header)
	ex, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if ex == nil {
		ex = &exchange{}
	}
	if req.Header.Get("Last-Event-ID") != "" {
		ex.note(func() { ex.resumed = true })
	}
	send := func(req *http.Request) (*http.Response, error) { return g.base.RoundTrip(delivery.Traced(req)) }
	var resp *http.Response
	var err error
	if g.access != nil {
		resp, err = g.access.Send(req, send)
	} else {
		resp, err = send(req)
	}
	if _, failed := errors.AsType[*contract.Failure](err); failed {
		delivery.MarkSent(req.Context(), false) // for want of a token
	}
	if err != nil {
		return nil, err
	}
	if delivery.Declined(req, resp) {
		delivery.MarkSent(req.Context(), false)
	}
	if resp.StatusCode >= 400 {
		ex.failed(resp)
		return resp, nil
	}
	ex.note(func() { ex.refusal = nil })
	return g.bounded(req, resp, ex)
}

func (g *guard) bounded(req *http.Request, resp *http.Response, ex *exchange) (*http.Response, error) {
	kind, limit := resp.Header.Get("Content-Type"), g.at.settings.MaxMessageBytes
	media, _, _ := mime.ParseMediaType(kind)
	endless := g.at.conn.Transport == TransportSSE && req.Method == http.MethodGet
	ok := resp.StatusCode == http.StatusOK
	switch {
	case ok && endless && media != eventStream:
		resp.Body.Close()
		return nil, errors.New(oddType + cmp.Or(kind, "none")) // the library would wait for its events
	case ok && media == eventStream && g.at.kind == plan.ConnectionMCP && (endless || g.at.conn.Transport == TransportHTTP):
		// It is read event by event, so that it has no bound as a whole.
		events := stream.New(resp.Body, limit)
		events.TooLarge = func() { ex.note(func() { ex.tooLarge = true }) }
		if g.take != nil {
			events.Take = func(event []byte) bool { return g.take(req, event) }
		}
		events.Resumable = g.at.conn.Transport == TransportHTTP
		resp.Body = events
	default:
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: limit, ex: ex}
	}
	return resp, nil
}

// lowerIdempotencyKeys writes idempotency keys in lower case: Go's transport repeats requests that have the canonical
// name.
func lowerIdempotencyKeys(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// failed notes an error status with the beginning of the body, which it replaces.
func (e *exchange) failed(resp *http.Response) {
	// What came before a read error is worth showing; the status says the rest.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBody))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	e.note(func() { e.refusal = response{resp.StatusCode, resp.Header, body}.failed() })
}

// longestWait bounds what a server may ask us to wait.
const longestWait = time.Hour

// limitedBody bounds a body that is read as a whole.
type limitedBody struct {
	io.ReadCloser
	left int
	ex   *exchange
}

// Read fails with [stream.ErrTooLarge] once the limit is passed.
func (l *limitedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= n; l.left < 0 {
		l.ex.note(func() { l.ex.tooLarge = true })
		return 0, stream.ErrTooLarge
	}
	return n, err
}

const eventStream = "text/event-stream"

// retryAfter reads the header, seconds or a date; 0 if it is absent, past or invalid.
func retryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if s, err := strconv.Atoi(value); err == nil {
		d = time.Duration(min(max(s, 0), int(longestWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), longestWait)
}
