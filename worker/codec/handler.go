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

// Door says who may use a [Handler] and what it does besides.
type Door struct {
	// Origins are those whose pages may use it, such as http://127.0.0.1:8233, the Web UI's.
	Origins []string
	// Tokens are bearer tokens; none: every program of this machine may use it.
	Tokens []string
	// Fetch gives the payload that a claim of the store stands for, or the payload itself;
	// nil: claims stay as they are.
	Fetch func(context.Context, *commonpb.Payload) (*commonpb.Payload, error)
}

// maxBody bounds the body of a request: a page of history with all its payloads.
const maxBody = 64 << 20

// Handler answers POST …/encode and …/decode as Temporal's remote codecs do: payloads as
// JSON in, payloads as JSON out. A namespace before these, as in /default/decode, is
// taken and makes no difference.
func (c *Codec) Handler(d Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if status, text := d.refuses(w, r); status != 0 {
			http.Error(w, text, status)
			return
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if status, text := d.stranger(r); status != 0 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, text, status)
			return
		}
		list, status, err := c.answer(w, r, d)
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

// answer does what a request asks for; with an error, status is the response's.
func (c *Codec) answer(w http.ResponseWriter, r *http.Request, d Door) (list []*commonpb.Payload, status int, err error) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	encode := strings.HasSuffix(path, "/encode")
	if !encode && !strings.HasSuffix(path, "/decode") {
		return nil, http.StatusNotFound, errors.New("there is nothing here; the addresses are /encode and /decode")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, errors.New("send POST")
	}
	// A page of a foreign origin can send anything but this without asking first.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errors.New("send Content-Type: application/json")
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, http.StatusRequestEntityTooLarge, errors.New("the body cannot be read, or is over 64 MiB")
	}
	var in commonpb.Payloads
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &in); err != nil {
		return nil, http.StatusBadRequest, errors.New(`the body is not {"payloads": [{"metadata": {…}, "data": "…"}]} with texts in base64`)
	}
	if encode {
		list, err = c.Encode(in.GetPayloads())
	} else {
		list, err = c.decodeAll(r.Context(), in.GetPayloads(), d)
	}
	if err != nil {
		return nil, http.StatusBadRequest, refusal(err)
	}
	return list, 0, nil
}

// decodeAll fetches what is in the store and decodes it.
func (c *Codec) decodeAll(ctx context.Context, list []*commonpb.Payload, d Door) ([]*commonpb.Payload, error) {
	if d.Fetch != nil {
		whole := make([]*commonpb.Payload, len(list))
		for i, p := range list {
			var err error
			if whole[i], err = d.Fetch(ctx, p); err != nil {
				return nil, err
			}
		}
		list = whole
	}
	return c.Decode(list)
}

// refusal says the class of a failure besides.
func refusal(err error) error {
	var f *contract.Failure
	if errors.As(err, &f) {
		return errors.New(f.Class + ": " + f.Error())
	}
	return err
}

// refuses keeps pages of foreign origins out, and lets those in that are configured.
func (d Door) refuses(w http.ResponseWriter, r *http.Request) (status int, text string) {
	// Without tokens the name under which it was reached is what tells programs of this
	// machine from a web page: names of others may be made to lead here.
	if len(d.Tokens) == 0 && !local(r.Host) {
		return http.StatusForbidden, "the request is for a host that is not this machine's own name; use 127.0.0.1, or set codec.tokens_env"
	}
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return 0, ""
	}
	if !slices.Contains(d.Origins, origin) {
		return http.StatusForbidden, "pages of this origin may not use it; to allow it add the origin to codec.origins"
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Allow-Credentials", "true")
	w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Authorization-Extras, Content-Type, X-Namespace, X-CSRF-Token")
	w.Header().Set("Access-Control-Max-Age", "600")
	return 0, ""
}

// stranger refuses a request without a token, where tokens are wanted.
func (d Door) stranger(r *http.Request) (status int, text string) {
	if len(d.Tokens) == 0 {
		return 0, ""
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum, known := sha256.Sum256([]byte(strings.TrimSpace(given))), 0
	for _, t := range d.Tokens {
		own := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(sum[:], own[:])
	}
	if known == 1 && strings.EqualFold(scheme, "Bearer") {
		return 0, ""
	}
	return http.StatusUnauthorized, "send Authorization: Bearer TOKEN with a token of codec.tokens_env"
}

// local reports whether a Host header names this machine itself.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// drain is how long answers under way may take when the endpoint ends.
const drain = 5 * time.Second

// Serve answers at a listener until ctx is done.
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
