package tool

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/address"
	"weft/activities/contract"
	"weft/activities/oauth"
	"weft/activities/textutil"
	"weft/activities/tool/stream"
	"weft/workflows/plan"
)

// unexpectedType is the prefix of an error about a response that is neither JSON nor an event stream.
const unexpectedType = "unexpected content type: "

// sessionUnknown reports whether a server rejected a request without executing it because it does not know the session.
func sessionUnknown(err error) bool {
	if errors.Is(err, transport.ErrSessionTerminated) {
		return true
	}
	var se *statusError
	if !errors.As(err, &se) {
		return false
	}
	return (se.status == http.StatusBadRequest || se.status == http.StatusNotFound) && strings.Contains(strings.ToLower(se.body), "session")
}

// classify converts the error of a session to a *contract.Failure.
func classify(at *target, err error) error {
	if f, ok := errors.AsType[*contract.Failure](err); ok {
		own := *f // f is shared by all callers that waited for the same session
		return &own
	}
	if special := classifyKnown(at, err); special != nil {
		return special
	}
	var se *statusError
	var timeout net.Error
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &se):
		return classifyStatus(at, se)
	case errors.As(err, &syntax) && !strings.Contains(syntax.Error(), "unexpected end"): // not a truncated response
		return at.malformed("the response is not valid JSON: %v", syntax)
	case errors.Is(err, errSessionUnknown):
		return at.failure(contract.ClassUnavailable, fmt.Sprintf("the server lost the session twice: %v", textutil.ErrorText(err)), "")
	case errors.As(err, &timeout) && timeout.Timeout():
		return at.failure(contract.ClassTimeout, textutil.ErrorText(err), "")
	}
	text := strings.Replace(textutil.ErrorText(err), "unexpected nil response", "the response stream ended before the response", 1) // the library's text
	return at.failure(contract.ClassUnavailable, text, "check that the server is up and reachable from the worker")
}

// classifyKnown converts the errors of this package and of certificates. It returns nil for other errors.
func classifyKnown(at *target, err error) error {
	var (
		refusal  *address.RefusedError
		redirect *redirectError
		cert     *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, errStopping):
		return at.failure(contract.ClassUnavailable, errStopping.Error(), "")
	case errors.Is(err, stream.ErrTooLarge):
		return at.tooLarge()
	case errors.As(err, &refusal):
		return refusedFailure(refusal, at.id)
	case errors.As(err, &redirect):
		return at.failure(contract.ClassConnection, "it "+redirect.Error()+", and redirects are not followed",
			"set the connection's url to the target of the redirect")
	case errors.As(err, &cert), errors.As(err, &unknown):
		remedy := fmt.Sprintf("set %s.%s.ca_file to the authority that signed it", SettingConnections, at.id)
		switch {
		case at.kind == plan.ConnectionHTTP:
			remedy = "use a certificate of an authority that the worker trusts, or refer to a secret with that authority in the flow"
		case at.supplied:
			remedy = fmt.Sprintf("set the authority that signed it in weft.yaml, with this url: %s: {%q: {url: %q, ca_file: FILE}}", SettingConnections, at.id, redactURL(at.conn.URL))
		}
		return at.failure(contract.ClassConnection, textutil.ErrorText(err), remedy)
	}
	return nil
}

// classifyDial converts an error of starting a session, which may be caused by an incorrect URL or transport.
func classifyDial(at *target, err error) error {
	var se *statusError
	if text := versionMismatch(err); text != "" {
		return at.failure(contract.ClassConnection, text, "use a server that speaks one of the versions "+strings.Join(mcp.ValidProtocolVersions, ", "))
	}
	// The response is usually an HTML page. The library has no separate error for it.
	page := strings.Contains(err.Error(), unexpectedType)
	notMCP := page || errors.Is(err, transport.ErrLegacySSEServer) || errors.Is(err, transport.ErrSessionTerminated)
	if errors.As(err, &se) && se.status != http.StatusNotFound {
		notMCP = se.status == 400 || se.status == 405 || se.status == 406 || se.status == 410 || se.status == 415
	}
	if notMCP {
		return noServer(at, se, err, page)
	}
	if f, ok := errors.AsType[*contract.Failure](err); ok && f.Class == contract.ClassUnavailable && at.conn.Transport == TransportStdio {
		// A command that ends before its first response is probably not configured correctly.
		return connectionFailure(f.Text, "correct "+at.settingName("command")+", or its args and env")
	}
	return classify(at, err)
}

// noServer returns the failure for a URL without an MCP server. se may be nil; page means an unexpected content type.
func noServer(at *target, se *statusError, err error, page bool) error {
	text := "no MCP server responds over " + at.conn.Transport
	switch {
	case se != nil:
		text += ": " + se.Error()
	case page:
		text += ": " + textutil.ErrorText(err)
	}
	other := TransportSSE
	if at.conn.Transport == TransportSSE {
		other = TransportHTTP
	}
	remedy := fmt.Sprintf("set %s.%s.transport: %s", SettingConnections, at.id, other)
	if at.supplied {
		remedy = "set the connection's transport to " + other + " in the flow"
	}
	return at.failure(contract.ClassConnection, text, "check the path of the url; if the server uses the other transport, "+remedy)
}

// versionMismatch returns the message for a server that supports none of the client's versions, and "" for other errors.
func versionMismatch(err error) string {
	var version mcp.UnsupportedProtocolVersionError
	supported := supportedVersions(err)
	switch {
	case len(supported) > 0:
		return "unsupported protocol version: the server supports " + short(strings.Join(supported, ", "))
	case errors.As(err, &version):
		return version.Error()
	}
	return ""
}

// supportedVersions returns the protocol versions that a server lists when it rejects the client's.
func supportedVersions(err error) []string {
	if version, ok := errors.AsType[mcp.UnsupportedProtocolVersionError](err); ok {
		return version.Supported
	}
	var se *statusError
	var body struct{ Error *mcp.JSONRPCErrorDetails }
	if !errors.As(err, &se) || json.Unmarshal([]byte(se.body), &body) != nil {
		return nil
	}
	return versionsInError(body.Error)
}

// versionsInError returns the versions listed in a JSON-RPC error, whose code depends on the protocol version.
func versionsInError(p *mcp.JSONRPCErrorDetails) []string {
	if p == nil || p.Code != mcp.UNSUPPORTED_PROTOCOL_VERSION && p.Code != mcp.INVALID_PARAMS {
		return nil
	}
	var data struct{ Supported []string }
	raw, err := json.Marshal(p.Data)
	if err != nil || json.Unmarshal(raw, &data) != nil {
		return nil
	}
	return data.Supported
}

// newestCommonVersion returns the newest of the versions that the client supports, or "".
func newestCommonVersion(versions []string) string {
	for _, v := range mcp.ValidProtocolVersions {
		if slices.Contains(versions, v) {
			return v
		}
	}
	return ""
}

// settingName returns a setting of the target and where it is configured.
func (t *target) settingName(name string) string {
	if t.supplied {
		return fmt.Sprintf("%s of the connection %q in the flow", name, t.id)
	}
	return fmt.Sprintf("%s.%s.%s in weft.yaml", SettingConnections, t.id, name)
}

// slowStartRemedy returns the setting that allows a session more time to start.
func (t *target) slowStartRemedy() string {
	if !t.supplied {
		return fmt.Sprintf("raise %s.%s.connect_timeout", SettingConnections, t.id)
	}
	address := fmt.Sprintf("url: %q", redactURL(t.conn.URL))
	if t.conn.Command != "" {
		address = fmt.Sprintf("command: %q", t.conn.Command)
	}
	return fmt.Sprintf("set in weft.yaml: %s: {%q: {%s, connect_timeout: 2m}}", SettingConnections, t.id, address)
}

// hostCheck matches messages with which servers reject an unknown Host or Origin header; some name an allowed host.
var hostCheck = regexp.MustCompile(`(?i)only allowed at\s+([\w.:\[\]-]*\w)?` +
	`|\b(?:invalid|missing|unknown|bad|disallowed|unexpected)\s+(?:host|origin)\b|\b(?:host|origin)\b[^\n]{0,80}\b(?:not|never)\s+(?:be\s+)?(?:allowed|permitted|trusted|valid)`)

// hostRemedy returns the remedy for a server that rejects the host name under which it is reached.
func (t *target) hostRemedy(body string) string {
	allow := fmt.Sprintf("allow the host %s in the server's settings, such as --allowed-hosts", hostOf(t.conn.URL))
	u, err := url.Parse(redactURL(t.conn.URL))
	if named := hostCheck.FindStringSubmatch(body)[1]; named != "" && err == nil {
		u.Host = named
		return fmt.Sprintf("use the host name that the server allows: set %s to %s; or %s", t.settingName("url"), u, allow)
	}
	return allow + "; or use a host name that the server allows: set " + t.settingName("url")
}

// credentialsRemedy returns the settings of the target's credentials.
func (t *target) credentialsRemedy() string {
	switch {
	case t.kind == plan.ConnectionHTTP:
		return fmt.Sprintf("refer to a secret in a header of the request in the flow, and set it in weft.yaml: %s: {NAME: {value: \"${TOKEN}\", hosts: [%q]}}",
			SettingSecrets, plan.ShortOrigin(t.conn.URL))
	case t.supplied:
		return fmt.Sprintf("set them in weft.yaml, with this url: %s: {%q: {url: %q, headers: {Authorization: \"Bearer ${TOKEN}\"}}}", SettingConnections, t.id, redactURL(t.conn.URL))
	}
	return fmt.Sprintf("set the credentials in %s.%s.headers in weft.yaml, or oauth: %s there and run: worker login %s", SettingConnections, t.id, oauth.Login, t.id)
}

// statusClasses are the failure classes of specific statuses.
var statusClasses = map[int]string{
	401: contract.ClassDenied, 402: contract.ClassQuotaExceeded, 403: contract.ClassDenied, 404: contract.ClassConnection, 407: contract.ClassDenied,
	408: contract.ClassTimeout, 413: contract.ClassTooLarge, 429: contract.ClassRateLimited, 504: contract.ClassTimeout,
}

func classifyStatus(at *target, se *statusError) error {
	class, remedy := cmp.Or(statusClasses[se.status], contract.ClassBadRequest), ""
	switch {
	case se.transient:
		class = contract.ClassUnavailable
	case (se.status == http.StatusForbidden || se.status == http.StatusMisdirectedRequest) && hostCheck.MatchString(se.body):
		class, remedy = contract.ClassConnection, at.hostRemedy(se.body)
	case class == contract.ClassDenied:
		remedy = at.credentialsRemedy()
	case class == contract.ClassConnection:
		remedy = "check the url"
	case se.status >= 500 && se.status != http.StatusGatewayTimeout:
		class = contract.ClassUnavailable
	}
	f := at.failure(class, "the server responded with "+se.Error(), remedy)
	if class == contract.ClassRateLimited || class == contract.ClassUnavailable {
		f.After = se.retryAfter
	}
	return f
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

func (t *target) tooLarge() *contract.Failure {
	return t.failure(contract.ClassTooLarge,
		fmt.Sprintf("a message of the server has more than %d bytes", t.settings.MaxMessageBytes),
		"have the tool return less, page its result, or "+t.settings.largerResultRemedy())
}
