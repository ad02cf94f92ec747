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

// oddType begins an error about an answer that is neither JSON nor a stream of events.
const oddType = "unexpected content type: "

// sessionUnknown reports whether a server refused a request, unexecuted, because it does not know the session.
func sessionUnknown(err error) bool {
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

func classify(at *target, err error) error {
	if f, ok := errors.AsType[*contract.Failure](err); ok {
		own := *f // shared by all who waited for the same session
		return &own
	}
	if special := classifyOwn(at, err); special != nil {
		return special
	}
	var se *statusError
	var timeout net.Error
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &se):
		return classifyStatus(at, se)
	case errors.As(err, &syntax) && !strings.Contains(syntax.Error(), "unexpected end"): // which a cut answer has
		return at.malformed("its answer is not JSON that can be read: %v", syntax)
	case errors.Is(err, errSessionUnknown):
		return at.failure(contract.ClassUnavailable, fmt.Sprintf("the server lost the session twice: %v", textutil.ErrorText(err)), "")
	case errors.As(err, &timeout) && timeout.Timeout():
		return at.failure(contract.ClassTimeout, textutil.ErrorText(err), "")
	}
	text := strings.Replace(textutil.ErrorText(err), "unexpected nil response", "the stream of the answer ended before the answer came", 1) // the library's
	return at.failure(contract.ClassUnavailable, text, "check that the server is up and reachable from the worker")
}

// classifyOwn knows the errors of this package and of certificates; nil: none of them.
func classifyOwn(at *target, err error) error {
	var (
		no       *address.RefusedError
		redirect *redirected
		cert     *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, errStopping):
		return at.failure(contract.ClassUnavailable, errStopping.Error(), "")
	case errors.Is(err, stream.ErrTooLarge):
		return at.tooLarge()
	case errors.As(err, &no):
		return refused(no, at.id)
	case errors.As(err, &redirect):
		return at.failure(contract.ClassConnection, "it "+redirect.Error()+", and redirects are not followed",
			"set the connection's url to the final one")
	case errors.As(err, &cert), errors.As(err, &unknown):
		remedy := fmt.Sprintf("set %s.%s.ca_file to the authority that signed it", SettingConnections, at.id)
		switch {
		case at.kind == plan.ConnectionHTTP:
			remedy = "use a certificate of an authority that the worker trusts, or name a secret with that authority in the flow"
		case at.supplied:
			remedy = fmt.Sprintf("set the authority that signed it in weft.yaml, with this url: %s: {%q: {url: %q, ca_file: FILE}}", SettingConnections, at.id, redactURL(at.conn.URL))
		}
		return at.failure(contract.ClassConnection, textutil.ErrorText(err), remedy)
	}
	return nil
}

// classifyDial is classify for the start of a session, where a wrong address or transport shows.
func classifyDial(at *target, err error) error {
	var se *statusError
	if text := otherVersion(err); text != "" {
		return at.failure(contract.ClassConnection, text, "use a server that speaks one of the versions "+strings.Join(mcp.ValidProtocolVersions, ", "))
	}
	// A page for people, most often: the library has no error of its own for it.
	page := strings.Contains(err.Error(), oddType)
	wrong := page || errors.Is(err, transport.ErrLegacySSEServer) || errors.Is(err, transport.ErrSessionTerminated)
	if errors.As(err, &se) && se.status != http.StatusNotFound {
		wrong = se.status == 400 || se.status == 405 || se.status == 406 || se.status == 410 || se.status == 415
	}
	if wrong {
		return noServer(at, se, err, page)
	}
	if f, ok := errors.AsType[*contract.Failure](err); ok && f.Class == contract.ClassUnavailable && at.conn.Transport == TransportStdio {
		// A command that does not get to its first answer is not configured well.
		return connectionFailure(f.Text, "correct "+at.setting("command")+", or its args and env")
	}
	return classify(at, err)
}

// noServer is the failure where no MCP server answers. se may be nil; page: the content type was wrong.
func noServer(at *target, se *statusError, err error, page bool) error {
	text := "no MCP server answers over " + at.conn.Transport
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
	return at.failure(contract.ClassConnection, text, "check the path of the url; for a server that speaks the other transport "+remedy)
}

// otherVersion is the error of a server that supports no version of the client's; empty for other errors.
func otherVersion(err error) string {
	var version mcp.UnsupportedProtocolVersionError
	supported := versionsOf(err)
	switch {
	case len(supported) > 0:
		return "unsupported protocol version: the server speaks " + short(strings.Join(supported, ", "))
	case errors.As(err, &version):
		return version.Error()
	}
	return ""
}

// versionsOf are the versions of the protocol that a server names where it refuses the client's.
func versionsOf(err error) []string {
	if version, ok := errors.AsType[mcp.UnsupportedProtocolVersionError](err); ok {
		return version.Supported
	}
	var se *statusError
	var body struct{ Error *mcp.JSONRPCErrorDetails }
	if !errors.As(err, &se) || json.Unmarshal([]byte(se.body), &body) != nil {
		return nil
	}
	return versionsIn(body.Error)
}

// versionsIn are those in an error of JSON-RPC, which has different codes in different versions.
func versionsIn(p *mcp.JSONRPCErrorDetails) []string {
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

// common is the newest version among some that the client speaks.
func common(versions []string) string {
	for _, v := range mcp.ValidProtocolVersions {
		if slices.Contains(versions, v) {
			return v
		}
	}
	return ""
}

// setting says where a setting of the target is.
func (t *target) setting(name string) string {
	if t.supplied {
		return fmt.Sprintf("%s of the connection %q in the flow", name, t.id)
	}
	return fmt.Sprintf("%s.%s.%s in weft.yaml", SettingConnections, t.id, name)
}

// slowStart says how a session may take longer to start.
func (t *target) slowStart() string {
	if !t.supplied {
		return fmt.Sprintf("raise %s.%s.connect_timeout", SettingConnections, t.id)
	}
	address := fmt.Sprintf("url: %q", redactURL(t.conn.URL))
	if t.conn.Command != "" {
		address = fmt.Sprintf("command: %q", t.conn.Command)
	}
	return fmt.Sprintf("set in weft.yaml: %s: {%q: {%s, connect_timeout: 2m}}", SettingConnections, t.id, address)
}

// hostCheck recognizes how servers refuse a Host or Origin header that they do not know; some name a host that they allow.
var hostCheck = regexp.MustCompile(`(?i)only allowed at\s+([\w.:\[\]-]*\w)?` +
	`|\b(?:invalid|missing|unknown|bad|disallowed|unexpected)\s+(?:host|origin)\b|\b(?:host|origin)\b[^\n]{0,80}\b(?:not|never)\s+(?:be\s+)?(?:allowed|permitted|trusted|valid)`)

// wrongHost is how to reach a server that refuses the name under which it is reached.
func (t *target) wrongHost(body string) string {
	allow := fmt.Sprintf("have the server allow the host %s, by its own settings such as --allowed-hosts", hostOf(t.conn.URL))
	u, err := url.Parse(redactURL(t.conn.URL))
	if named := hostCheck.FindStringSubmatch(body)[1]; named != "" && err == nil {
		u.Host = named
		return fmt.Sprintf("reach it under the name that it allows: set %s to %s; or %s", t.setting("url"), u, allow)
	}
	return allow + "; or reach it under a name that it allows: set " + t.setting("url")
}

// credentials says where credentials for the target are configured.
func (t *target) credentials() string {
	switch {
	case t.kind == plan.ConnectionHTTP:
		return fmt.Sprintf("name a secret for a header of the request in the flow, and set it in weft.yaml: %s: {NAME: {value: \"${TOKEN}\", hosts: [%q]}}",
			SettingSecrets, plan.ShortOrigin(t.conn.URL))
	case t.supplied:
		return fmt.Sprintf("set them in weft.yaml, with this url: %s: {%q: {url: %q, headers: {Authorization: \"Bearer ${TOKEN}\"}}}", SettingConnections, t.id, redactURL(t.conn.URL))
	}
	return fmt.Sprintf("set the credentials in %s.%s.headers in weft.yaml, or oauth: %s there and run: worker login %s", SettingConnections, t.id, oauth.Login, t.id)
}

// statusClasses are the classes of statuses that say more than their hundreds.
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
		class, remedy = contract.ClassConnection, at.wrongHost(se.body)
	case class == contract.ClassDenied:
		remedy = at.credentials()
	case class == contract.ClassConnection:
		remedy = "check the url"
	case se.status >= 500 && se.status != http.StatusGatewayTimeout:
		class = contract.ClassUnavailable
	}
	f := at.failure(class, "the server answered "+se.Error(), remedy)
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
		"have the tool return less, page its result, or "+t.settings.larger())
}
