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

func TestPlainError(t *testing.T) {
	err := plain(context.Background(), errors.New(`failed reaching server: rpc error: code = Unavailable desc = "no children to pick from"`))
	if err == nil || err.Error() != "cannot resolve that host; the address is host:port" {
		t.Errorf("unresolved host: error = %v", err)
	}
}

// listenLocal opens a local port, calls each with its connections, and returns its address.
func listenLocal(t *testing.T, each func(net.Conn)) string {
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

// TestUnreachableTemporal checks that the error of a failed connection says what to check.
func TestUnreachableTemporal(t *testing.T) {
	previous := dialTimeout
	dialTimeout = time.Minute
	t.Cleanup(func() { dialTimeout = previous })
	closing := listenLocal(t, func(net.Conn) {})
	tlsServer := httptest.NewUnstartedServer(nil)
	tlsServer.EnableHTTP2, tlsServer.Config.ErrorLog = true, stdlog.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	t.Cleanup(tlsServer.Close)
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
		"nothing listens":   {address: "127.0.0.1:1", want: "nothing is listening there: check host and port, and that Temporal's frontend is running; in a container that address is the container itself; for development start one with: make dev"},
		"connection closed": {address: closing, want: "that port may require TLS (TEMPORAL_TLS=true), or is not Temporal's frontend"},
		"TLS on a plain port": {address: listenLocal(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}), env: fakeEnv{"TEMPORAL_TLS": "true"}, want: "that port does not use TLS"},
		"unknown certificate authority": {address: tlsServer.Listener.Addr().String(), env: fakeEnv{"TEMPORAL_TLS": "true"}, want: "TEMPORAL_TLS_SERVER_CA_CERT_PATH"},
		"rejected API key":              {address: l.Addr().String(), want: "it denies access: check TEMPORAL_API_KEY"},
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
			var unreachable *Unreachable
			if !errors.As(err, &unreachable) || !strings.Contains(fmt.Sprint(unreachable), tc.want) || unreachable.From != "TEMPORAL_ADDRESS" {
				t.Errorf("error = %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestCompression checks that calls are compressed, except those to the same machine.
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
			t.Errorf("compression of calls to %s = %T, want %T", address, got, want)
		}
	}
}

func TestRemedies(t *testing.T) {
	tests := map[string]struct{ address, from, message, want string }{
		"no such host":                {"temporal.example.com:7233", "TEMPORAL_ADDRESS", "cannot resolve that host; the address is host:port", "check the host name, and that this machine can resolve it"},
		"timeout":                     {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "no response within 8s", "check host and port, firewalls and network policies"},
		"certificate of another host": {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate is valid for a, not b", "TEMPORAL_TLS_SERVER_NAME"},
		"client certificate required": {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "remote error: tls: certificate required", "TEMPORAL_TLS_CLIENT_CERT_PATH"},
		"unknown error":               {"10.0.0.9:7233", "TEMPORAL_ADDRESS", "no idea", "check that Temporal's frontend is running"},
		"default address":             {"127.0.0.1:7233", fromDefault, "connect: connection refused", "frontend is running; or set TEMPORAL_ADDRESS; in a container"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := errors.New(tc.message)
			if got := remedy(tc.address, tc.from, err, err); !strings.Contains(got, tc.want) {
				t.Errorf("remedy = %q, want %q in it", got, tc.want)
			}
		})
	}
}
