package tool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
)

// codeTooLarge is the JSON-RPC error that stands for a message we did not read; it never
// comes from a server's own hand over HTTP.
const codeTooLarge = -31999

// forgotten says whether a server refused a request because it does not know the
// session: it has executed nothing.
func forgotten(err error) bool {
	if errors.Is(err, transport.ErrSessionTerminated) {
		return true
	}
	var se *statusError
	if !errors.As(err, &se) {
		return false
	}
	about := strings.Contains(strings.ToLower(se.body), "session")
	return (se.status == http.StatusBadRequest || se.status == http.StatusNotFound) && about
}

// classify turns any error of a session into a failure.
func classify(at *target, err error) error {
	var f *contract.Failure
	if errors.As(err, &f) {
		own := *f // shared by all who waited for the same session
		return &own
	}
	if special := classifyOwn(at, err); special != nil {
		return special
	}
	var se *statusError
	if errors.As(err, &se) {
		return classifyStatus(at, se)
	}
	if errors.Is(err, errForgotten) {
		return at.failure(contract.ClassUnavailable, fmt.Sprintf("the session was lost twice: %v", plain(err)), "")
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return at.failure(contract.ClassTimeout, plain(err), "")
	}
	return at.failure(contract.ClassUnavailable, plain(err), "is the server up and reachable from the worker?")
}

// classifyOwn knows the errors of this package and of certificates; nil: none of them.
func classifyOwn(at *target, err error) error {
	var (
		no       *refused
		redirect *redirected
		cert     *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
	)
	setting := fmt.Sprintf("%s.%s", SettingConnections, at.id)
	switch {
	case errors.Is(err, errStopping):
		return at.failure(contract.ClassUnavailable, errStopping.Error(), "")
	case errors.Is(err, errTooLarge):
		return at.tooLarge()
	case errors.As(err, &no):
		return no.failure(at.id)
	case errors.As(err, &redirect):
		return at.failure(contract.ClassConnection, "it "+redirect.Error()+", and redirects are not followed",
			"give the connection its final url")
	case errors.As(err, &cert), errors.As(err, &unknown):
		return at.failure(contract.ClassConnection, plain(err), fmt.Sprintf("set %s.ca_file to the authority that signed it", setting))
	}
	return nil
}

// classifyDial is classify for the beginning of a session, where a wrong address or a
// wrong transport shows.
func classifyDial(at *target, err error) error {
	var se *statusError
	if text := otherVersion(err); text != "" {
		return at.failure(contract.ClassConnection, text, "use a server that speaks one of the versions "+strings.Join(mcp.ValidProtocolVersions, ", "))
	}
	wrong := errors.Is(err, transport.ErrLegacySSEServer) || errors.Is(err, transport.ErrSessionTerminated)
	if errors.As(err, &se) && se.status != http.StatusNotFound {
		wrong = se.status == 400 || se.status == 405 || se.status == 406 || se.status == 410 || se.status == 415
	}
	if wrong {
		text := "there is no MCP server over " + at.conn.Transport
		if se != nil {
			text += ": " + se.Error()
		}
		other := TransportSSE
		if at.conn.Transport == TransportSSE {
			other = TransportHTTP
		}
		return at.failure(contract.ClassConnection, text,
			fmt.Sprintf("check the path of the url; for a server that speaks the other transport set %s.%s.transport: %s", SettingConnections, at.id, other))
	}
	var f *contract.Failure
	if errors.As(err, &f) && f.Class == contract.ClassUnavailable && at.conn.Transport == TransportStdio {
		// A command that does not get to its first answer is not configured well.
		return refusal(f.Text, fmt.Sprintf("correct command, args and env of %s.%s in weft.yaml", SettingConnections, at.id))
	}
	return classify(at, err)
}

// otherVersion says that a server speaks no version of the protocol that this client speaks, empty
// if that is not what is wrong. The library reads a server's own words of it only where it has
// asked for a version, so they are read here again.
func otherVersion(err error) string {
	var version mcp.UnsupportedProtocolVersionError
	if errors.As(err, &version) {
		return version.Error()
	}
	var se *statusError
	var said struct {
		Error struct {
			Code int
			Data struct{ Supported []string }
		}
	}
	if !errors.As(err, &se) || json.Unmarshal([]byte(se.body), &said) != nil || said.Error.Code != mcp.UNSUPPORTED_PROTOCOL_VERSION {
		return ""
	}
	return "unsupported protocol version: the server speaks " + short(strings.Join(said.Error.Data.Supported, ", "))
}

func classifyStatus(at *target, se *statusError) error {
	class, remedy := contract.ClassBadRequest, ""
	switch {
	case se.passes:
		class = contract.ClassUnavailable
	case se.status == http.StatusUnauthorized, se.status == http.StatusForbidden, se.status == http.StatusProxyAuthRequired:
		class, remedy = contract.ClassDenied, fmt.Sprintf("set the credentials in %s.%s.headers in weft.yaml", SettingConnections, at.id)
	case se.status == http.StatusPaymentRequired:
		class = contract.ClassQuota
	case se.status == http.StatusTooManyRequests:
		class = contract.ClassRateLimited
	case se.status == http.StatusRequestTimeout, se.status == http.StatusGatewayTimeout:
		class = contract.ClassTimeout
	case se.status == http.StatusRequestEntityTooLarge:
		class = contract.ClassTooLarge
	case se.status == http.StatusNotFound:
		class, remedy = contract.ClassConnection, "check the url"
	case se.status >= 500:
		class = contract.ClassUnavailable
	}
	f := at.failure(class, "the server answered "+se.Error(), remedy)
	if class == contract.ClassRateLimited || class == contract.ClassUnavailable {
		f.After = se.retryAfter
	}
	return f
}

func (t *target) tooLarge() *contract.Failure {
	return t.failure(contract.ClassTooLarge,
		fmt.Sprintf("a message of the server has more than %d bytes", t.settings.MaxMessageBytes),
		"have the tool return less, or raise max_message_bytes")
}

// plain is an error's text without URLs, which can hold keys, and without the layers
// that every error of the library has.
func plain(err error) string {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	text := strings.TrimPrefix(err.Error(), "transport error: ")
	return strings.ReplaceAll(text, "failed to ", "could not ")
}
