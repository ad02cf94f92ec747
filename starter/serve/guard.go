package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"weft/activities/mask"
	"weft/specadapter/source"
	"weft/worker/codec"
	"weft/worker/config"
)

// What browsers may send and read across origins.
const (
	corsMethods = "GET, POST, PUT, DELETE"
	corsHeaders = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
	corsExposed = "Location, Idempotent-Replayed, Retry-After, WWW-Authenticate"
)

// guard authenticates requests and responds to unknown addresses.
func (srv *Server) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &masker{w, srv.Mask}
		defer srv.recovered(w, r)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if p := srv.checkOrigin(w, r); p != nil {
			p.write(w)
			return
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		var caller *config.Token
		if !open[r.URL.Path] && srv.guarded() {
			var p *Problem
			if caller, p = srv.caller(r); p != nil {
				p.write(w)
				return
			}
		}
		if h, pattern := mux.Handler(r); pattern == "" {
			noRoute(h, r).write(w)
			return
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

func (srv *Server) recovered(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		panic(v)
	}
	srv.Log("%s %s: defect: %v\n%s", r.Method, r.URL.Path, v, debug.Stack())
	NewProblem(Defect, "report it with the log of this server", "internal error").write(w)
}

// noRoute returns the problem of an unknown address or an unsupported method.
func noRoute(h http.Handler, r *http.Request) *Problem {
	message := httptest.NewRecorder()
	h.ServeHTTP(message, r)
	if allow := message.Header().Get("Allow"); message.Code == http.StatusMethodNotAllowed {
		return NewProblem(MethodUnknown, "use one of: "+allow, "%s does not support %s", r.URL.Path, r.Method).with("Allow", allow)
	}
	return NewProblem(NotFound, "see /openapi.json", "%s not found", source.Quote(r.URL.Path))
}

// checkOrigin rejects requests from pages of foreign origins, except for configured ones.
func (srv *Server) checkOrigin(w http.ResponseWriter, r *http.Request) *Problem {
	// Without tokens, checking the host name protects against DNS rebinding.
	if !srv.guarded() && !codec.LocalHost(r.Host) {
		return NewProblem(Forbidden, "use localhost or 127.0.0.1, or configure tokens", "the host %s of the request is not a loopback name", source.Quote(r.Host))
	}
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if slices.Contains(srv.Settings.Origins, origin) || slices.Contains(srv.Settings.Origins, "*") {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Methods", corsMethods)
		w.Header().Set("Access-Control-Allow-Headers", corsHeaders)
		w.Header().Set("Access-Control-Expose-Headers", corsExposed)
		w.Header().Set("Access-Control-Max-Age", "600")
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host == r.Host {
		return nil
	}
	return NewProblem(Forbidden, "to allow it, set in weft.yaml: serve: {origins: ["+origin+"]}", "origin %s not allowed", source.Quote(origin))
}

// guarded reports whether clients need tokens.
func (srv *Server) guarded() bool { return len(srv.Tokens)+len(srv.issuers) > 0 }

// bearer returns the token of the request.
func (srv *Server) bearer(ctx context.Context, scheme, given string) (*config.Token, *Problem) {
	var found *config.Token
	sum := sha256.Sum256([]byte(given))
	for i := range srv.Tokens {
		own := sha256.Sum256([]byte(srv.Tokens[i].Value))
		if subtle.ConstantTimeCompare(sum[:], own[:]) == 1 {
			found = &srv.Tokens[i]
		}
	}
	switch i := srv.issuers[issuerOf(given)]; {
	case given == "":
		return nil, NewProblem(Unauthorized, "send Authorization: Bearer TOKEN", "missing token").with("WWW-Authenticate", "Bearer")
	case !strings.EqualFold(scheme, "Bearer"):
	case found != nil:
		return found, nil
	case i != nil:
		return srv.signed(ctx, i, given)
	}
	return nil, invalidToken("ask the operator for a token", "invalid token")
}

func invalidToken(remedy, format string, args ...any) *Problem {
	return NewProblem(Unauthorized, remedy, format, args...).with("WWW-Authenticate", `Bearer error="invalid_token"`)
}

type masker struct {
	http.ResponseWriter
	mask *mask.Mask
}

func (v *masker) Unwrap() http.ResponseWriter { return v.ResponseWriter }

// dataOfEvent precedes the JSON of a server-sent event, endOfEvent follows it.
var dataOfEvent, endOfEvent = []byte("\ndata: "), []byte("\n\n")

// Write masks and writes a complete body or event. It does not mask the id of an event, because clients send it back.
func (v *masker) Write(p []byte) (int, error) {
	head, value, end := []byte(nil), p, []byte("\n")
	if v.Header().Get("Content-Type") == eventStream {
		i := bytes.Index(p, dataOfEvent)
		if i < 0 {
			return v.ResponseWriter.Write(p)
		}
		head, value, end = p[:i+len(dataOfEvent)], p[i+len(dataOfEvent):], endOfEvent
	}
	value, ended := bytes.CutSuffix(value, end)
	if !ended {
		end = nil
	}
	if _, err := v.ResponseWriter.Write(slices.Concat(head, v.mask.Answer(value), end)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unmasked returns the server's own writer, which detects requests that are too large to continue.
func unmasked(w http.ResponseWriter) http.ResponseWriter {
	if v, ok := w.(*masker); ok {
		return v.ResponseWriter
	}
	return w
}

// tokenCookie holds the token of a user who signed in on the page. Scripts cannot read it, and it is not sent in cross-site requests.
const tokenCookie = "weft_token"

// signIn sets a cookie with the token in the request.
func (srv *Server) signIn(w http.ResponseWriter, r *http.Request) (any, error) {
	o, err := srv.read(w, r)
	if err != nil {
		return nil, err
	}
	o.checkFields("token")
	token := o.text("token")
	if err := o.problem(); err != nil {
		return nil, err
	}
	if srv.guarded() {
		if _, p := srv.bearer(r.Context(), "Bearer", token); p != nil {
			return nil, p
		}
		http.SetCookie(w, cookieOf(r, token))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// signOut deletes the cookie.
func (srv *Server) signOut(w http.ResponseWriter, r *http.Request) (any, error) {
	c := cookieOf(r, "")
	c.MaxAge = -1
	http.SetCookie(w, c)
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

func cookieOf(r *http.Request, token string) *http.Cookie {
	return &http.Cookie{Name: tokenCookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"}
}

// caller returns the token of a request, from its header or from the page's cookie. A request with the cookie that changes
// state must come from a page of this server.
func (srv *Server) caller(r *http.Request) (*config.Token, *Problem) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if c, err := r.Cookie(tokenCookie); err == nil && r.Header.Get("Authorization") == "" {
		if http.NewCrossOriginProtection().Check(r) != nil {
			return nil, NewProblem(Forbidden, "use the page of this server, or send Authorization: Bearer TOKEN", "the request has a foreign origin")
		}
		scheme, given = "Bearer", c.Value
	}
	return srv.bearer(r.Context(), scheme, strings.TrimSpace(given))
}
