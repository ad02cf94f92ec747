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

// TestRemoteCodec talks to the endpoint with the SDK's own client of such endpoints.
func TestRemoteCodec(t *testing.T) {
	c := opened(t, Settings{Compress: true, Encrypt: "a", Keys: []Key{key("a")}})
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

func TestEndpointRefuses(t *testing.T) {
	c := opened(t, Settings{Encrypt: "a", Keys: []Key{key("a")}})
	foreign, err := opened(t, Settings{Encrypt: "b", Keys: []Key{key("b")}}).Encode([]*commonpb.Payload{payload(t, "x")})
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
		door         Access
		method, path string
		host         string
		head         head
		body         string
		status       int
		text         string
	}{
		"a good one":                    {open, "POST", "/decode", "", nil, "{}", 200, "{}"},
		"the Web UI's page":             {ui, "POST", "/decode", "", head{"Origin": "http://127.0.0.1:8233", "X-Namespace": "default"}, "{}", 200, "{}"},
		"its question before":           {ui, "OPTIONS", "/decode", "", head{"Origin": "http://127.0.0.1:8233", "Access-Control-Request-Method": "POST"}, "", 204, ""},
		"another page":                  {ui, "POST", "/decode", "", head{"Origin": "https://evil.example"}, "{}", 403, "origin not allowed; add it to codec.origins"},
		"another page's question":       {ui, "OPTIONS", "/decode", "", head{"Origin": "https://evil.example"}, "", 403, "codec.origins"},
		"a name that was made to lead":  {open, "POST", "/decode", "evil.example:8766", nil, "{}", 403, "not a loopback name"},
		"a form of a page":              {open, "POST", "/decode", "", head{"Content-Type": "text/plain"}, "{}", 415, "application/json"},
		"no token":                      {tokens, "POST", "/decode", "", nil, "{}", 401, "codec.tokens_env"},
		"a wrong token":                 {tokens, "POST", "/decode", "", head{"Authorization": "Bearer annannannannannann"}, "{}", 401, "codec.tokens_env"},
		"a token of another kind":       {tokens, "POST", "/decode", "", head{"Authorization": "Basic kimkimkimkimkimkim"}, "{}", 401, "codec.tokens_env"},
		"another address":               {open, "POST", "/", "", nil, "{}", 404, "/encode and /decode"},
		"another method":                {open, "GET", "/decode", "", nil, "", 405, "method not allowed; send POST"},
		"no payloads":                   {open, "POST", "/encode", "", nil, "[1]", 400, "the body is not"},
		"a key that is not here":        {open, "POST", "/decode", "", nil, string(raw), 400, `payload_key: a payload is encrypted with the key "b"`},
		"a body of more than the bound": {open, "POST", "/decode", "", nil, `{"payloads":[{"data":"` + strings.Repeat("A", maxBody) + `"}]}`, 413, "exceeds 64 MiB"},
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
			c.Handler(tc.door).ServeHTTP(w, r)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.text) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tc.status, tc.text)
			}
			if allowed := w.Header().Get("Access-Control-Allow-Origin"); allowed != "" && allowed != "http://127.0.0.1:8233" {
				t.Errorf("it allows %s", allowed)
			}
		})
	}
}

func TestServeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, opened(t, Settings{}).Handler(Access{Fetch: asIs})) }()
	got, err := http.Post("http://"+l.Addr().String()+"/decode", "application/json", strings.NewReader("{}"))
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%v: %v", got, err)
	}
	got.Body.Close()
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
