package tool

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"weft/activities/address"
	"weft/activities/contract"
	"weft/activities/oauth"
	"weft/activities/tool/serverrequest"
	"weft/workflows/plan"
)

// target is a resolved server, or the worker's own functions, ready to be dialled.
type target struct {
	// id is the connection's id or its URL; empty for functions that are bound by name.
	id   string
	kind string // a key of kinds
	conn Connection
	// restricted means that a flow or a run supplied the URL, which is therefore subject to the policy.
	restricted bool
	// supplied means that a flow or a run supplied the connection.
	supplied bool
	settings *Settings
	// tenant is the caller's tenant, whose login is used.
	tenant  string
	secrets secrets
	key     string
	// callLimit bounds a call in addition to the connection's timeout; 0 means no limit. timeoutSetting and
	// callTimeoutSetting name the settings of the connection's timeout and of callLimit.
	callLimit                          time.Duration
	timeoutSetting, callTimeoutSetting string
	// session is the session to continue, if any.
	session SessionRef
	// probe, if set, receives the server's OAuth challenges; no token is sent.
	probe func(*oauth.Challenge)
}

// Resolve finds the connection for a tool: the URL that the flow or the run supplies, subject to the policy;
// otherwise the worker's connection with that id; otherwise, for an unbound tool, the connection in the setting
// tools.<name>; otherwise the worker's function of that name. The result has no credentials.
//
// A supplied URL gets the credentials of the worker's connection with the same id only if it equals that connection's URL.
//
// Its error is a *[contract.Failure] of class connection.
func (t *Tools) Resolve(c plan.Connection, toolName string) (plan.Connection, error) {
	if _, ok := kinds[c.Kind]; !ok && c.Kind != "" {
		return c, connectionFailure(fmt.Sprintf("connection %q has kind %q, which has no tools", c.ID, c.Kind),
			"use kind "+strings.Join(slices.Sorted(maps.Keys(kinds)), " or "))
	}
	if hasAddressTemplate(c) {
		return c, nil // resolved by the arguments of each call
	}
	switch c.Kind {
	case plan.ConnectionHTTP:
		return c, t.checkSupplied(plan.Connection{ID: c.ID, URL: c.URL, Secrets: c.Secrets, TLS: c.TLS})
	case plan.ConnectionA2A:
		return t.resolveAgent(c)
	case plan.ConnectionDatabase:
		return c, t.checkDatabase(c)
	}
	if configured, ok := t.settings.Connections[c.ID]; ok && (c.URL == "" || c.URL == configured.URL) {
		return plan.Connection{ID: c.ID, Name: c.Name, Kind: configured.kind(), Description: c.Description, Retry: c.Retry, WholeResults: c.WholeResults}, nil
	}
	if c.URL != "" || c.Command != "" {
		if err := t.checkSupplied(c); err != nil {
			return c, err
		}
		c.Kind = plan.ConnectionMCP
		return c, nil
	}
	if c.ID != "" {
		return c, connectionFailure(fmt.Sprintf("unknown connection %q; available connections: %s", c.ID, t.settings.connectionNames()),
			allowRemedy(connectionLine(c.ID, exampleURL))+"; or set the connection's url in the flow")
	}
	return t.resolveName(c, toolName)
}

// References lists the ways in which a flow may refer to a tool's connection: as c does, with the URL of the worker's
// connection added, or by the tool's name alone.
func (t *Tools) References(c plan.Connection, toolName string) []plan.Reach {
	out := []plan.Reach{{ID: c.ID, Address: c.Address()}}
	if c.Address() != "" {
		return out
	}
	if configured := t.settings.Connections[c.ID].URL; configured != "" {
		out = append(out, plan.Reach{ID: c.ID, Address: configured})
	}
	if t.settings.Tools[toolName] == c.ID {
		out = append(out, plan.Reach{ID: (&plan.Tool{Name: toolName}).BoundTo()})
	}
	return out
}

// resolveName implements [Tools.Resolve] for a tool that is not bound to a connection.
func (t *Tools) resolveName(c plan.Connection, toolName string) (plan.Connection, error) {
	if c.Kind == plan.ConnectionLocal || c.Kind == plan.ConnectionActivity {
		return c, nil // already resolved, perhaps by another worker
	}
	if id, ok := t.settings.Tools[toolName]; ok && toolName != "" {
		return plan.Connection{ID: id, Kind: t.settings.Connections[id].kind()}, nil
	}
	if _, ok := t.settings.Activities[toolName]; ok {
		return plan.Connection{Kind: plan.ConnectionActivity}, nil
	}
	if t.settings.function(toolName) != nil {
		return plan.Connection{Kind: plan.ConnectionLocal}, nil
	}
	return c, connectionFailure(fmt.Sprintf("tool %q is not bound to a connection; available connections: %s; functions of the worker: %s",
		toolName, t.settings.connectionNames(), t.settings.functionNames()),
		t.bindRemedy(toolName))
}

// resolveAgent implements [Tools.Resolve] for a remote agent. The worker's connection with its id and URL supplies the credentials.
func (t *Tools) resolveAgent(c plan.Connection) (plan.Connection, error) {
	if configured, ok := t.settings.Connections[c.ID]; ok && configured.URL == c.URL {
		c.Headers, c.Secrets, c.TLS = nil, nil, nil
		return c, nil
	}
	return c, t.checkSupplied(c)
}

// suppliedConnection converts a connection that a flow or a run supplies.
func suppliedConnection(c plan.Connection) Connection {
	out := Connection{Transport: c.Transport, URL: c.URL, Command: c.Command, Args: c.Args, Dir: c.Dir, Timeout: time.Duration(c.TimeoutSeconds) * time.Second}
	out.Env, out.Headers = map[string]string{}, map[string]string{}
	for _, v := range c.Env {
		out.Env[v.Name] = v.Value
	}
	for _, h := range c.Headers {
		out.Headers[h.Name] = h.Value
	}
	return out.withDefaults()
}

// checkSupplied validates a supplied connection as far as possible without name resolution; its addresses are
// checked when it is dialled. Commands must be allowed by the operator.
func (t *Tools) checkSupplied(c plan.Connection) error {
	if c.URL == "" || len(c.Headers) > 0 || c.Transport != "" {
		var p problems
		suppliedConnection(c).check(&p, fmt.Sprintf("connection %q", c.ID))
		if len(p) > 0 {
			sort.Strings(p)
			return connectionFailure(strings.Join(p, "; "), "correct the connection")
		}
	}
	if c.Command != "" {
		return t.checkCommandAllowed(c)
	}
	if problem := urlProblem(c.URL); problem != "" {
		remedy := "correct the url of the connection"
		if u, err := url.Parse(c.URL); err == nil && u.User != nil {
			u.User = nil
			remedy = "remove it from the url; " + allowRemedy(fmt.Sprintf("%s: {%q: {url: %q, headers: {Authorization: \"Basic ${TOKEN}\"}}}", SettingConnections, c.ID, redactURL(u.String())))
		}
		return connectionFailure(fmt.Sprintf("connection %q: url %s", c.ID, problem), remedy)
	}
	var failed failures
	t.addSecrets(&c, &Connection{Headers: map[string]string{}}, &failed)
	if err := failed.err(); err != nil {
		return err
	}
	if t.isConfigured(c.URL) {
		return nil
	}
	if r := address.New(t.settings.allowed(), c.URL).CheckName(); r != nil {
		return refusedFailure(r, c.ID)
	}
	return nil
}

// isConfigured reports whether one of the operator's connections has this URL.
func (t *Tools) isConfigured(raw string) bool {
	for _, c := range t.settings.Connections {
		if c.URL == raw {
			return true
		}
	}
	return false
}

// locate resolves a connection to the target to dial.
func (t *Tools) locate(c plan.Connection, toolName string) (*target, error) {
	c, err := t.Resolve(c, toolName)
	if err != nil {
		return nil, err
	}
	configured := t.settings.Connections[c.ID]
	at := &target{id: c.ID, kind: c.Kind, settings: &t.settings}
	switch {
	case c.Kind == plan.ConnectionLocal && c.ID == "":
		at.conn = Connection{Transport: TransportLocal}.withDefaults()
	case c.Kind == plan.ConnectionActivity:
		at.id, at.conn = toolName, configured.withDefaults()
	case c.URL == "" && c.Command == "", c.Kind == plan.ConnectionA2A && configured.URL == c.URL:
		at.conn = configured
	default:
		at.conn, at.supplied = suppliedConnection(c), true
		if err := t.addCredentials(&c, &at.conn); err != nil {
			return nil, err
		}
		at.restricted, at.id = !t.isConfigured(c.URL), cmp.Or(at.id, redactURL(c.URL))
	}
	at.secrets, at.timeoutSetting, at.callTimeoutSetting = newSecrets(at.conn), cmp.Or(c.TimeoutAt, at.settingName("timeout")), "timeouts.tool in weft.yaml"
	if c.Retry != nil && c.Retry.TimeoutMillis > 0 {
		at.callTimeoutSetting = cmp.Or(c.Retry.TimeoutAt, "the timeout of the connection's retry policy in the flow")
	}
	at.key = at.identity()
	return at, nil
}

// identity returns a key that is equal for targets that can share a session: those with the same server,
// credentials and policy. A command's session is never shared between connections.
func (t *target) identity() string {
	conn := t.conn
	conn.Timeout, conn.Elicitation, conn.Retry, conn.Resources = 0, 0, "", false
	id := ""
	if conn.Transport == TransportStdio || conn.Transport == TransportLocal || t.kind == plan.ConnectionActivity {
		id = t.id
	}
	b, _ := json.Marshal([]any{id, t.kind, t.restricted, conn}) // cannot fail: only strings and numbers
	sum := sha256.Sum256(b)
	return string(sum[:])
}

func (t *target) policy() *serverrequest.Policy {
	out := &serverrequest.Policy{Redact: t.secrets.mask, SamplingTokens: t.conn.SamplingTokens}
	for _, r := range t.conn.Roots {
		root, _ := serverrequest.ParseRoot(r) // validated by Open
		out.Roots = append(out.Roots, root)
	}
	return out
}

func (t *target) newServerRequests() *serverrequest.Server {
	return &serverrequest.Server{Policy: *t.policy()}
}

// name returns the target's name for messages.
func (t *target) name() string {
	if t.id == "" {
		return "functions of the worker"
	}
	if t.conn.URL == "" || t.id == redactURL(t.conn.URL) {
		return fmt.Sprintf("connection %q", t.id)
	}
	return fmt.Sprintf("connection %q (%s)", t.id, redactURL(t.conn.URL))
}

// failure returns a failure that names the target. Its secrets are masked.
func (t *target) failure(class, text, remedy string) *contract.Failure {
	return &contract.Failure{Class: class, Text: t.secrets.mask(t.name()) + ": " + short(t.settings.Mask.Text(t.secrets.mask(text))), Remedy: t.secrets.mask(remedy)}
}

// malformed returns the failure for a response that violates the protocol.
func (t *target) malformed(format string, args ...any) *contract.Failure {
	return t.failure(contract.ClassBadRequest, fmt.Sprintf(format, args...), "report it to the server's author")
}

// kind returns the [plan.Connection.Kind] of one of the worker's connections.
func (c Connection) kind() string {
	switch c.Transport {
	case TransportLocal:
		return plan.ConnectionLocal
	case TransportPostgres:
		return plan.ConnectionDatabase
	}
	return plan.ConnectionMCP
}

func connectionFailure(text, remedy string) *contract.Failure {
	return &contract.Failure{Class: contract.ClassConnection, Text: text, Remedy: remedy}
}

// redactURL returns a URL without user, query and fragment, which may contain secrets.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// exampleURL is the placeholder in remedies for a URL that the operator has to supply.
const exampleURL = "https://HOST/mcp"

// allowRemedy returns the remedy for something that is not allowed: any one of the settings allows it.
func allowRemedy(settings ...string) string {
	return "to allow it, set in the worker's weft.yaml: " + strings.Join(settings, ", or ")
}

// connectionLine returns the setting that configures a connection on the worker.
func connectionLine(id, address string) string {
	return fmt.Sprintf("%s: {%q: {url: %q}}", SettingConnections, id, address)
}

// bindRemedy returns the settings that bind a tool to an existing connection or, if there are none, to a new one.
func (t *Tools) bindRemedy(name string) string {
	if name == "" {
		name = "TOOL"
	}
	ids := slices.Sorted(maps.Keys(t.settings.Connections))
	if len(ids) == 0 {
		return allowRemedy(fmt.Sprintf("%s: {%q: \"CONNECTION\"} and %s", SettingTools, name, connectionLine("CONNECTION", exampleURL)))
	}
	var settings []string
	for _, id := range ids[:min(len(ids), 3)] {
		settings = append(settings, fmt.Sprintf("%s: {%q: %q}", SettingTools, name, id))
	}
	return allowRemedy(settings...)
}
