package codec

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// asIs is a [Fetch] without a store.
func asIs(_ context.Context, p *commonpb.Payload) (*commonpb.Payload, error) { return p, nil }

// TestRemoteCodec checks the endpoint with the SDK's remote codec.
func TestRemoteCodec(t *testing.T) {
	c := mustOpen(t, Settings{Compress: true, Encrypt: "a", Keys: []Key{key("a")}})
	claim, stored := payload(t, "claim"), payload(t, "what lay in the store")
	srv := httptest.NewServer(c.Handler(Access{Tokens: []string{"kimkimkimkimkimkim"}, Fetch: func(_ context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
		if proto.Equal(p, claim) {
			return stored, nil
		}
		return p, nil
	}}))
	defer srv.Close()
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: srv.URL + "/default", ModifyRequest: func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer kimkimkimkimkimkim")
		return nil
	}})
	want := payload(t, "hello")
	sealed, err := remote.Encode([]*commonpb.Payload{want})
	if err != nil || string(sealed[0].Metadata["encoding"]) != encodingEncrypted {
		t.Fatalf("encoded %v: %v", sealed, err)
	}
	back, err := remote.Decode(append(sealed, claim, want))
	if err != nil || len(back) != 3 || !proto.Equal(back[0], want) || !proto.Equal(back[1], stored) || !proto.Equal(back[2], want) {
		t.Errorf("decoded %v: %v", back, err)
	}
}

func TestHandlerRejects(t *testing.T) {
	c := mustOpen(t, Settings{Encrypt: "a", Keys: []Key{key("a")}})
	foreign, err := mustOpen(t, Settings{Encrypt: "b", Keys: []Key{key("b")}}).Encode([]*commonpb.Payload{payload(t, "x")})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protojson.Marshal(&commonpb.Payloads{Payloads: foreign})
	if err != nil {
		t.Fatal(err)
	}
	ui, open := Access{Origins: []string{"http://127.0.0.1:8233"}, Fetch: asIs}, Access{Fetch: asIs}
	tokens := Access{Tokens: []string{"kimkimkimkimkimkim"}, Fetch: asIs}
	type head map[string]string
	tests := map[string]struct {
		access       Access
		method, path string
		host         string
		head         head
		body         string
		status       int
		text         string
	}{
		"valid":                         {open, "POST", "/decode", "", nil, "{}", 200, "{}"},
		"origin of the Web UI":          {ui, "POST", "/decode", "", head{"Origin": "http://127.0.0.1:8233", "X-Namespace": "default"}, "{}", 200, "{}"},
		"preflight of the Web UI":       {ui, "OPTIONS", "/decode", "", head{"Origin": "http://127.0.0.1:8233", "Access-Control-Request-Method": "POST"}, "", 204, ""},
		"another origin":                {ui, "POST", "/decode", "", head{"Origin": "https://evil.example"}, "{}", 403, "origin not allowed; add it to codec.origins"},
		"preflight of another origin":   {ui, "OPTIONS", "/decode", "", head{"Origin": "https://evil.example"}, "", 403, "codec.origins"},
		"DNS rebinding":                 {open, "POST", "/decode", "evil.example:8766", nil, "{}", 403, "not a loopback name"},
		"form content type":             {open, "POST", "/decode", "", head{"Content-Type": "text/plain"}, "{}", 415, "application/json"},
		"no token":                      {tokens, "POST", "/decode", "", nil, "{}", 401, "codec.tokens_env"},
		"invalid token":                 {tokens, "POST", "/decode", "", head{"Authorization": "Bearer annannannannannann"}, "{}", 401, "codec.tokens_env"},
		"another authentication scheme": {tokens, "POST", "/decode", "", head{"Authorization": "Basic kimkimkimkimkimkim"}, "{}", 401, "codec.tokens_env"},
		"unknown path":                  {open, "POST", "/", "", nil, "{}", 404, "/encode and /decode"},
		"invalid method":                {open, "GET", "/decode", "", nil, "", 405, "method not allowed; send POST"},
		"invalid body":                  {open, "POST", "/encode", "", nil, "[1]", 400, "the body is not"},
		"missing key":                   {open, "POST", "/decode", "", nil, string(raw), 400, `payload_key: a payload is encrypted with the key "b"`},
		"oversized body":                {open, "POST", "/decode", "", nil, `{"payloads":[{"data":"` + strings.Repeat("A", maxBody) + `"}]}`, 413, "exceeds 64 MiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body))
			r.Host = "127.0.0.1:8766"
			if tc.host != "" {
				r.Host = tc.host
			}
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			for k, v := range tc.head {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			c.Handler(tc.access).ServeHTTP(w, r)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.text) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, tc.status, tc.text)
			}
			if allowed := w.Header().Get("Access-Control-Allow-Origin"); allowed != "" && allowed != "http://127.0.0.1:8233" {
				t.Errorf("Access-Control-Allow-Origin = %s", allowed)
			}
		})
	}
}

func TestServeStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, mustOpen(t, Settings{}).Handler(Access{Fetch: asIs})) }()
	got, err := http.Post("http://"+l.Addr().String()+"/decode", "application/json", strings.NewReader("{}"))
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%v: %v", got, err)
	}
	got.Body.Close()
	cancel()
	if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
