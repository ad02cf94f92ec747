package codec

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"weft/activities/contract"
)

// Access defines who may use a [Codec.Handler].
type Access struct {
	// Origins are those whose pages may use it, such as http://127.0.0.1:8233, that of the Web UI.
	Origins []string
	// Tokens are bearer tokens; none: every local program may use it.
	Tokens []string
	Fetch  Fetch
}

// maxBody limits the body of a request: a page of history with all its payloads.
const maxBody = 64 << 20

// Handler answers POST …/encode and …/decode as Temporal's remote codecs do: payloads as
// JSON in, payloads as JSON out. It accepts a namespace before these, as in /default/decode, and
// ignores it.
func (c *Codec) Handler(a Access) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if status, text := a.checkOrigin(w, r); status != 0 {
			http.Error(w, text, status)
			return
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if status, text := a.checkToken(r); status != 0 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, text, status)
			return
		}
		list, status, err := c.answer(w, r, a)
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		raw, err := protojson.Marshal(&commonpb.Payloads{Payloads: list})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw)
	})
}

// answer handles a request; with an error, status is the response's.
func (c *Codec) answer(w http.ResponseWriter, r *http.Request, a Access) (list []*commonpb.Payload, status int, err error) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	encode := strings.HasSuffix(path, "/encode")
	if !encode && !strings.HasSuffix(path, "/decode") {
		return nil, http.StatusNotFound, errors.New("not found; the paths are /encode and /decode")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, errors.New("method not allowed; send POST")
	}
	// A page of another origin cannot send this type without a preflight request.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errors.New("unsupported content type; send application/json")
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, http.StatusRequestEntityTooLarge, errors.New("the body cannot be read, or exceeds 64 MiB")
	}
	var in commonpb.Payloads
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &in); err != nil {
		return nil, http.StatusBadRequest, errors.New(`the body is not {"payloads": [{"metadata": {…}, "data": "…"}]} with base64 strings`)
	}
	list = in.GetPayloads()
	if encode {
		list, err = c.Encode(list)
	} else {
		for i := range list {
			if list[i], err = c.resolve(r.Context(), a.Fetch, list[i]); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, http.StatusBadRequest, withClass(err)
	}
	return list, 0, nil
}

// withClass puts the class of a failure before its text.
func withClass(err error) error {
	if f, ok := errors.AsType[*contract.Failure](err); ok {
		return errors.New(f.Class + ": " + f.Error())
	}
	return err
}

// checkOrigin rejects pages of origins that are not configured, and sets the CORS headers for others.
func (a Access) checkOrigin(w http.ResponseWriter, r *http.Request) (status int, text string) {
	// Without tokens the Host header distinguishes local programs from web pages: a foreign name may be
	// made to resolve to this machine (DNS rebinding).
	if len(a.Tokens) == 0 && !LocalHost(r.Host) {
		return http.StatusForbidden, "the request's host is not a loopback name; use 127.0.0.1, or set codec.tokens_env"
	}
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return 0, ""
	}
	if !slices.Contains(a.Origins, origin) {
		return http.StatusForbidden, "origin not allowed; add it to codec.origins"
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Allow-Credentials", "true")
	w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Authorization-Extras, Content-Type, X-Namespace, X-CSRF-Token")
	w.Header().Set("Access-Control-Max-Age", "600")
	return 0, ""
}

// checkToken rejects a request without a valid token, if tokens are configured.
func (a Access) checkToken(r *http.Request) (status int, text string) {
	if len(a.Tokens) == 0 {
		return 0, ""
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum, known := sha256.Sum256([]byte(strings.TrimSpace(given))), 0
	for _, t := range a.Tokens {
		own := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(sum[:], own[:])
	}
	if known == 1 && strings.EqualFold(scheme, "Bearer") {
		return 0, ""
	}
	return http.StatusUnauthorized, "send Authorization: Bearer TOKEN with a token of codec.tokens_env"
}

// LocalHost reports whether a Host header is a loopback name.
func LocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// drain is how long requests in flight may take when the endpoint stops.
const drain = 5 * time.Second

// Serve serves on a listener until ctx is done.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return s.Shutdown(late)
}
