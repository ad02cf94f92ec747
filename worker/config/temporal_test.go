package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestPlainWords(t *testing.T) {
	err := plain(context.Background(), errors.New(`failed reaching server: rpc error: code = Unavailable desc = "no children to pick from"`))
	if err == nil || err.Error() != "cannot resolve that host; the address is host:port" {
		t.Errorf("a host that is not known: %v", err)
	}
}

// listening is a port whose connections are handed to a function.
func listening(t *testing.T, each func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); each(c) }()
		}
	}()
	return l.Addr().String()
}

// Whoever cannot reach Temporal is told what to check.
func TestWhatToCheckWithoutTemporal(t *testing.T) {
	own := dialTimeout
	dialTimeout = time.Minute
	t.Cleanup(func() { dialTimeout = own })
	nobody := listening(t, func(net.Conn) {})
	secured := httptest.NewUnstartedServer(nil)
	secured.EnableHTTP2, secured.Config.ErrorLog = true, stdlog.New(io.Discard, "", 0)
	secured.StartTLS()
	t.Cleanup(secured.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Unauthenticated, "Request unauthorized.")
	}))
	go func() { _ = refusing.Serve(l) }()
	t.Cleanup(refusing.Stop)
	tests := map[string]struct {
		address string
		env     fakeEnv
		want    string
	}{
		"nothing listens": {address: "127.0.0.1:1", want: "nothing is listening there: check host and port, and that Temporal's frontend is running; in a container that address is the container itself; for development start one with: make dev"},
		"it hangs up":     {address: nobody, want: "that port may require TLS (TEMPORAL_TLS=true), or is not Temporal's frontend"},
		"TLS where there is none": {address: listening(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}), env: fakeEnv{"TEMPORAL_TLS": "true"}, want: "that port does not use TLS"},
		"an unknown authority":  {address: secured.Listener.Addr().String(), env: fakeEnv{"TEMPORAL_TLS": "true"}, want: "TEMPORAL_TLS_SERVER_CA_CERT_PATH"},
		"a key that is refused": {address: l.Addr().String(), want: "it denies access: check TEMPORAL_API_KEY"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := fakeEnv{"TEMPORAL_ADDRESS": tc.address, "TEMPORAL_CONFIG_FILE": filepath.Join(t.TempDir(), "none.toml")}
			for k, v := range tc.env {
				env[k] = v
			}
			cfg, err := Load(Options{Env: env})
			if err != nil {
				t.Fatal(err)
			}
			temporal, err := cfg.Dial(t.Context(), log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			if err == nil {
				temporal.Client.Close()
			}
			var none *Unreachable
			if !errors.As(err, &none) || !strings.Contains(fmt.Sprint(none), tc.want) || none.From != "TEMPORAL_ADDRESS" {
				t.Errorf("error is %v, want %q in it", err, tc.want)
			}
		})
	}
}

// What else a connection fails of, in the words of gRPC and Go.
// Calls within this machine are not compressed; those over a network are.
func TestCompression(t *testing.T) {
	for address, want := range map[string]client.GrpcCompression{
		"127.0.0.1:7233": &client.GrpcCompressionNone{}, "localhost:7233": &client.GrpcCompressionNone{}, "[::1]:7233": &client.GrpcCompressionNone{},
		"temporal.internal:7233": &client.GrpcCompressionGzip{}, "10.0.0.7:7233": &client.GrpcCompressionGzip{},
	} {
		c := &Config{env: fakeEnv{"TEMPORAL_ADDRESS": address}}
		options, _, err := c.temporal()
		if err != nil {
			t.Fatal(err)
		}
		if got := options.ConnectionOptions.GrpcCompression; !reflect.DeepEqual(got, want) {
			t.Errorf("calls to %s travel as %T, want %T", address, got, want)
		}
	}
}

func TestWhatToCheckByTheError(t *testing.T) {
	tests := map[string]struct{ address, from, said, want string }{
		"no such host":      {"temporal.example.com:7233", "TEMPORAL_ADDRESS", "cannot resolve that host; the address is host:port", "check the host name, and that this machine can resolve it"},
		"no answer":         {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "no response within 8s", "check host and port, firewalls and network policies"},
		"another host":      {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate is valid for a, not b", "TEMPORAL_TLS_SERVER_NAME"},
		"no certificate":    {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "remote error: tls: certificate required", "TEMPORAL_TLS_CLIENT_CERT_PATH"},
		"something else":    {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "no idea", "check that Temporal's frontend is running"},
		"nobody said where": {"127.0.0.1:7233", fromDefault, "connect: connection refused", "frontend is running; or set TEMPORAL_ADDRESS; in a container"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := errors.New(tc.said)
			if got := remedy(tc.address, tc.from, err, err); !strings.Contains(got, tc.want) {
				t.Errorf("the remedy is %q, want %q in it", got, tc.want)
			}
		})
	}
}
