package config

import (
	"errors"
	"slices"
	"strings"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
