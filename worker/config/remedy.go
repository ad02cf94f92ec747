package config

import (
	"errors"
	"slices"
	"strings"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// checks are what is to be looked at where Temporal does not answer, by words of the connection's
// error. The first row that fits counts.
var checks = []struct {
	words []string
	look  string
}{
	{[]string{"connection refused"}, "nothing listens there: check host and port, and that Temporal's frontend runs"},
	{[]string{"no address is known", "no such host", "server misbehaving"}, "check the host's name, and that this machine can look it up"},
	{[]string{"no answer within", "i/o timeout", "deadline exceeded", "no route to host", "network is unreachable"},
		"check host and port, and that no firewall or network policy stands between"},
	{[]string{"first record does not look like a tls handshake"}, "that port speaks no TLS: check host and port, or unset TEMPORAL_TLS, TEMPORAL_TLS_… and TEMPORAL_API_KEY"},
	{[]string{"server preface", "connection reset", "broken pipe", "eof"}, "that port may want TLS (TEMPORAL_TLS=true), or is not that of Temporal's frontend"},
	{[]string{"unknown authority"}, "name the certificate of its authority with TEMPORAL_TLS_SERVER_CA_CERT_PATH"},
	{[]string{"certificate is valid for", "not valid for any names", "doesn't contain any ip sans"}, "check the host, or name the certificate's own with TEMPORAL_TLS_SERVER_NAME"},
	{[]string{"certificate has expired"}, "the server's certificate, or this machine's clock, is out of date"},
	{[]string{"certificate required", "bad certificate", "unknown certificate", "handshake failure"},
		"it wants a client's certificate: check TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"},
}

// remedy says what to check where a connection to an address failed. from says where the address
// came from.
func remedy(address, from string, err, shown error) string {
	var denied *serviceerror.PermissionDenied
	if errors.As(err, &denied) || status.Code(err) == codes.Unauthenticated || status.Code(err) == codes.PermissionDenied {
		return "it refuses who asks: check TEMPORAL_API_KEY or the client's certificate, and that it may use the namespace"
	}
	out := "check that Temporal's frontend is there"
	text := strings.ToLower(shown.Error())
	for _, c := range checks {
		if slices.ContainsFunc(c.words, func(word string) bool { return strings.Contains(text, word) }) {
			out = c.look
			break
		}
	}
	if from == fromDefault {
		out += "; or name another with TEMPORAL_ADDRESS"
	}
	if Loopback(address) {
		out += "; in a container that address is the container itself; on a laptop start one with: make dev"
	}
	return out
}
