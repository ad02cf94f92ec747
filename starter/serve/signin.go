package serve

import (
	"net/http"
	"strings"

	"weft/worker/config"
)

// tokenCookie has the token of a person who signed in on the page. Scripts cannot read it, and other sites cannot have it sent.
const tokenCookie = "weft_token"

// signIn gives a browser a cookie with the token that it sends.
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

// signOut takes the cookie back.
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

// caller is whose token a request has: in its head, or in the cookie of the page. A request with the cookie that changes
// something must come from a page of this server.
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
