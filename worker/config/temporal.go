package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weft/worker/codec"
	"weft/worker/store"
)

// Temporal is a connected client and its address.
type Temporal struct {
	Client client.Client
	// Store is where the client stores payloads that are too large.
	Store *store.Store
	// Codec is how it encodes payloads.
	Codec *codec.Codec
	// Address is host:port; Namespace is the namespace of all calls.
	Address, Namespace string

	// from is the origin of the address.
	from string
}

// Unreachable is the error if Temporal cannot be used.
type Unreachable struct {
	// Address and Namespace are those that were tried; From is the origin of the address.
	Address, Namespace, From string
	// Cause is the error, Remedy what to do.
	Cause  error
	Remedy string
}

// Error describes the attempt, the cause and the remedy.
func (u *Unreachable) Error() string {
	return fmt.Sprintf("no Temporal at %s (%s), namespace %q: %v; %s", u.Address, u.From, u.Namespace, u.Cause, u.Remedy)
}

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Cause }

// dialTimeout bounds the first response of the server; tests use a longer one.
var dialTimeout = 8 * time.Second

// Client connects to Temporal as Temporal's own settings say: TEMPORAL_ADDRESS,
// TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_… and temporal.toml. The error is
// [Problems] for invalid settings (or a store that cannot be used) and [*Unreachable] if the server does
// not respond or the namespace does not exist. Each of with may modify the client's options.
func (c *Config) Client(ctx context.Context, logger log.Logger, with ...func(*client.Options)) (*Temporal, error) {
	t, err := c.Dial(ctx, logger, with...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	_, err = t.Client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); missing {
		t.Client.Close()
		return nil, &Unreachable{Address: t.Address, Namespace: t.Namespace, From: t.from, Cause: errors.New("namespace not found"),
			Remedy: "create it with: worker setup, or temporal operator namespace create; or set TEMPORAL_NAMESPACE"}
	}
	// Other errors are ignored: a client may be allowed to use a namespace but not to describe it.
	return t, nil
}

// Dial is [Config.Client] for a namespace that may not exist yet.
func (c *Config) Dial(ctx context.Context, logger log.Logger, with ...func(*client.Options)) (*Temporal, error) {
	options, from, err := c.temporal()
	if err != nil {
		return nil, err
	}
	t := &Temporal{Address: options.HostPort, Namespace: options.Namespace, from: from}
	if t.Store, err = c.OpenStore(); err != nil {
		return nil, err
	}
	if t.Codec, err = c.OpenCodec(); err != nil {
		return nil, err
	}
	t.Codec.Apply(&options)
	t.Store.Apply(&options)
	options.Logger, options.Identity = logger, c.identity
	for _, add := range with {
		add(&options)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if t.Client, err = client.DialContext(ctx, options); err != nil {
		cause := plain(ctx, err)
		return nil, &Unreachable{Address: t.Address, Namespace: t.Namespace, From: from, Cause: cause, Remedy: remedy(t.Address, from, err, cause)}
	}
	return t, nil
}

// DevIdentity is the prefix of the identity of workers that run only while a command uses them.
const DevIdentity = "weft-dev-worker"

// TemporalAddress returns the address of Temporal's own settings, as host:port. The error is [Problems].
func (c *Config) TemporalAddress() (string, error) {
	options, _, err := c.temporal()
	return options.HostPort, err
}

// Loopback reports whether an address, host:port, is a loopback address, without name resolution.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && codec.LocalHost(host)
}

// Compression returns the gRPC compression for an address. Local connections are not compressed: that
// would cost both sides CPU time and save none.
func Compression(address string) client.GrpcCompression {
	if Loopback(address) {
		return &client.GrpcCompressionNone{}
	}
	return &client.GrpcCompressionGzip{}
}

// fromDefault is the origin of the default address.
const fromDefault = "the default"

// temporal reads Temporal's own settings, and returns the origin of the address.
func (c *Config) temporal() (options client.Options, from string, err error) {
	options, err = envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: c.env})
	if err != nil {
		return options, "", Problems{fmt.Sprintf("read Temporal's settings (TEMPORAL_… and temporal.toml): %v", err)}
	}
	from = "Temporal's configuration file"
	if c.variable("TEMPORAL_ADDRESS") != "" {
		from = "TEMPORAL_ADDRESS"
	}
	if options.HostPort == "" {
		options.HostPort, from = "127.0.0.1:7233", fromDefault
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	options.ConnectionOptions.GrpcCompression = Compression(options.HostPort)
	return options, from, nil
}

// plain shortens the connection's error, which gRPC wraps repeatedly.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no response within %v", dialTimeout)
	}
	text := err.Error()
	if i := strings.LastIndex(text, "desc = "); i >= 0 {
		text = text[i+len("desc = "):]
	}
	text = strings.Trim(strings.TrimPrefix(text, "failed reaching server: "), `"`)
	if text == "no children to pick from" { // gRPC's text if the resolver returns nothing
		text = "cannot resolve that host; the address is host:port"
	}
	return errors.New(text)
}

// remedies says what to check when Temporal cannot be reached, by the text of the connection's error:
// gRPC gives no type. The first match counts.
var remedies = []struct {
	texts  []string
	remedy string
}{
	{[]string{"connection refused"}, "nothing is listening there: check host and port, and that Temporal's frontend is running"},
	{[]string{"cannot resolve that host", "no such host", "server misbehaving"}, "check the host name, and that this machine can resolve it"},
	{[]string{"no response within", "i/o timeout", "deadline exceeded", "no route to host", "network is unreachable"},
		"check host and port, firewalls and network policies"},
	{[]string{"first record does not look like a tls handshake"}, "that port does not use TLS: check host and port, or unset TEMPORAL_TLS, TEMPORAL_TLS_… and TEMPORAL_API_KEY"},
	{[]string{"server preface", "connection reset", "broken pipe", "eof"}, "that port may require TLS (TEMPORAL_TLS=true), or is not Temporal's frontend"},
	{[]string{"unknown authority"}, "set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the certificate of its authority"},
	{[]string{"certificate is valid for", "not valid for any names", "doesn't contain any ip sans"}, "check the host, or set TEMPORAL_TLS_SERVER_NAME to the certificate's name"},
	{[]string{"certificate has expired"}, "check the server's certificate and this machine's clock"},
	{[]string{"certificate required", "bad certificate", "unknown certificate", "handshake failure"},
		"it requires a client certificate: check TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"},
}

// remedy is what to check after a connection to an address failed. from is the origin of the address.
func remedy(address, from string, err, shown error) string {
	if _, denied := errors.AsType[*serviceerror.PermissionDenied](err); denied || status.Code(err) == codes.Unauthenticated || status.Code(err) == codes.PermissionDenied {
		return "it denies access: check TEMPORAL_API_KEY or the client certificate, and its permissions for the namespace"
	}
	out := "check that Temporal's frontend is running"
	text := strings.ToLower(shown.Error())
	for _, c := range remedies {
		if slices.ContainsFunc(c.texts, func(s string) bool { return strings.Contains(text, s) }) {
			out = c.remedy
			break
		}
	}
	if from == fromDefault {
		out += "; or set TEMPORAL_ADDRESS"
	}
	if Loopback(address) {
		out += "; in a container that address is the container itself; for development start one with: make dev"
	}
	return out
}
