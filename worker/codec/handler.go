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
	// Origins are the web origins whose pages may use it, such as the Web UI's, http://127.0.0.1:8233.
	Origins []string
	// Tokens are the accepted bearer tokens; if there are none, every local program may use it.
	Tokens []string
	Fetch  Fetch // fetches payloads from the store
}

// maxBody limits the body of a request; it fits one history page with all its payloads.
const maxBody = 64 << 20

// Handler returns a handler of POST …/encode and …/decode that implements Temporal's remote codec
// protocol: requests and responses are payloads as JSON. A namespace before these paths, as in
// /default/decode, is ignored.
func (c *Codec) Handler(a Access) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		status, err := a.check(w, r)
		var raw []byte
		if status == 0 {
			raw, status, err = c.answer(w, r, a.Fetch)
		}
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		if raw != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = w.Write(raw)
	})
}

// answer handles a request, and returns the body and the status of the response.
func (c *Codec) answer(w http.ResponseWriter, r *http.Request, fetch Fetch) (raw []byte, status int, err error) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	encode := strings.HasSuffix(path, "/encode")
	if !encode && !strings.HasSuffix(path, "/decode") {
		return nil, http.StatusNotFound, errors.New("not found; the paths are /encode and /decode")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, errors.New("method not allowed; send POST")
	}
	// Pages of other origins cannot send this content type without a preflight request.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errors.New("unsupported content type; send application/json")
	}
	if raw, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return nil, http.StatusRequestEntityTooLarge, errors.New("the body cannot be read, or exceeds 64 MiB")
	}
	var body commonpb.Payloads
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &body); err != nil {
		return nil, http.StatusBadRequest, errors.New(`the body is not {"payloads": [{"metadata": {…}, "data": "…"}]} with base64 strings`)
	}
	if encode {
		body.Payloads, err = c.Encode(body.Payloads)
	}
	for i := 0; !encode && err == nil && i < len(body.Payloads); i++ {
		body.Payloads[i], err = c.resolve(r.Context(), fetch, body.Payloads[i])
	}
	if f, ok := errors.AsType[*contract.Failure](err); ok {
		err = errors.New(f.Class + ": " + f.Error())
	}
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if raw, err = protojson.Marshal(&body); err != nil {
		return nil, http.StatusInternalServerError, err
	}
	return raw, http.StatusOK, nil
}

// check rejects requests from origins that are not configured, sets the CORS headers for others, and rejects requests
// without a valid token if tokens are configured. Status 0 means that the request is accepted.
func (a Access) check(w http.ResponseWriter, r *http.Request) (status int, err error) {
	// Without tokens, the Host header distinguishes local programs from web pages: a foreign host name may
	// resolve to this machine (DNS rebinding).
	if len(a.Tokens) == 0 && !LocalHost(r.Host) {
		return http.StatusForbidden, errors.New("the request's host is not a loopback name; use 127.0.0.1, or set codec.tokens_env")
	}
	w.Header().Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		if !slices.Contains(a.Origins, origin) {
			return http.StatusForbidden, errors.New("origin not allowed; add it to codec.origins")
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Authorization-Extras, Content-Type, X-Namespace, X-CSRF-Token")
		w.Header().Set("Access-Control-Max-Age", "600")
	}
	if r.Method == http.MethodOptions {
		return http.StatusNoContent, nil
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum, known := sha256.Sum256([]byte(strings.TrimSpace(given))), 0
	for _, t := range a.Tokens {
		own := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(sum[:], own[:])
	}
	if len(a.Tokens) > 0 && (known == 0 || !strings.EqualFold(scheme, "Bearer")) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return http.StatusUnauthorized, errors.New("send Authorization: Bearer TOKEN with a token of codec.tokens_env")
	}
	return 0, nil
}

// LocalHost reports whether a Host header is a loopback name.
func LocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// drain limits how long the endpoint waits for requests in flight when it stops.
const drain = 5 * time.Second

// Serve serves HTTP on a listener until ctx is done.
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
