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
	"weft/activities/tool/questions"
	"weft/workflows/plan"
)

// target is a server, or the worker's functions, ready to be dialled.
type target struct {
	// id is the connection's, or its URL; empty for functions that are bound by name.
	id   string
	kind string // a key of kinds
	conn Connection
	// restricted: the URL is a flow's or a run's, and subject to the policy.
	restricted bool
	// supplied: the connection is a flow's or a run's.
	supplied bool
	settings *Settings
	// tenant is whose login is used, of those who call.
	tenant  string
	secrets secrets
	key     string
	// limit bounds a call beside the connection's timeout; 0: it does not. ownTimeout and callTimeout say where the two are set.
	limit                   time.Duration
	ownTimeout, callTimeout string
	// session is the one to continue, if there is one.
	session SessionRef
	// probe, if set, is told of refusals, and no token is sent.
	probe func(*oauth.Challenge)
}

// Resolve finds the connection that a tool is called at: the URL that the flow or the run supplies, under the
// policy; else the worker's connection of that id; else, for an unbound tool, that of the setting
// tools.<name>; else the worker's function of that name. The result has no credentials.
//
// A supplied URL gets the credentials of the worker's connection of the same id only if it is that
// connection's URL.
//
// It fails with a *[contract.Failure] of class connection.
func (t *Tools) Resolve(c plan.Connection, toolName string) (plan.Connection, error) {
	if _, ok := kinds[c.Kind]; !ok && c.Kind != "" {
		return c, connectionFailure(fmt.Sprintf("connection %q is of kind %q, which has no tools", c.ID, c.Kind),
			"use kind "+strings.Join(slices.Sorted(maps.Keys(kinds)), " or "))
	}
	if hasAddressTemplate(c) {
		return c, nil // by the arguments of each call
	}
	switch c.Kind {
	case plan.ConnectionHTTP:
		return c, t.checkSupplied(plan.Connection{ID: c.ID, URL: c.URL, Secrets: c.Secrets, TLS: c.TLS})
	case plan.ConnectionA2A:
		return t.resolveAgent(c)
	case plan.ConnectionDatabase:
		return c, t.checkDatabase(c)
	}
	if own, ok := t.settings.Connections[c.ID]; ok && (c.URL == "" || c.URL == own.URL) {
		return plan.Connection{ID: c.ID, Name: c.Name, Kind: own.kind(), Description: c.Description, Retry: c.Retry, WholeResults: c.WholeResults}, nil
	}
	if c.URL != "" || c.Command != "" {
		if err := t.checkSupplied(c); err != nil {
			return c, err
		}
		c.Kind = plan.ConnectionMCP
		return c, nil
	}
	if c.ID != "" {
		return c, connectionFailure(fmt.Sprintf("no connection %q; known: %s", c.ID, t.settings.known()),
			allowRemedy(connectionLine(c.ID, exampleURL))+"; or give the connection a url in the flow")
	}
	return t.resolveName(c, toolName)
}

// Named lists how a flow may have named a connection for a tool: as it is, or one of the worker's own with its URL too,
// or by the tool's name alone.
func (t *Tools) Named(c plan.Connection, toolName string) []plan.Reach {
	out := []plan.Reach{{ID: c.ID, Address: c.Address()}}
	if c.Address() != "" {
		return out
	}
	if own := t.settings.Connections[c.ID].URL; own != "" {
		out = append(out, plan.Reach{ID: c.ID, Address: own})
	}
	if t.settings.Tools[toolName] == c.ID {
		out = append(out, plan.Reach{ID: (&plan.Tool{Name: toolName}).BoundTo()})
	}
	return out
}

// resolveName is [Tools.Resolve] for a tool that is bound to no connection.
func (t *Tools) resolveName(c plan.Connection, toolName string) (plan.Connection, error) {
	if c.Kind == plan.ConnectionLocal || c.Kind == plan.ConnectionActivity {
		return c, nil // resolved before, perhaps by another worker
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
	return c, connectionFailure(fmt.Sprintf("tool %q is bound to no connection; known connections: %s; functions of the worker: %s",
		toolName, t.settings.known(), t.settings.functions()),
		t.bindRemedy(toolName))
}

// resolveAgent is [Tools.Resolve] for a remote agent. The worker's connection of its id and URL has its
// credentials.
func (t *Tools) resolveAgent(c plan.Connection) (plan.Connection, error) {
	if own, ok := t.settings.Connections[c.ID]; ok && own.URL == c.URL {
		c.Headers, c.Secrets, c.TLS = nil, nil, nil
		return c, nil
	}
	return c, t.checkSupplied(c)
}

// supplied is a connection as a flow or a run writes it.
func supplied(c plan.Connection) Connection {
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

// checkSupplied checks a supplied connection as far as possible without name resolution; the rest is checked
// when it is dialled. Only allowed commands are started.
func (t *Tools) checkSupplied(c plan.Connection) error {
	if c.URL == "" || len(c.Headers) > 0 || c.Transport != "" {
		var p problems
		supplied(c).check(&p, fmt.Sprintf("connection %q", c.ID))
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
			remedy = "take it out of the url; " + allowRemedy(fmt.Sprintf("%s: {%q: {url: %q, headers: {Authorization: \"Basic ${TOKEN}\"}}}", SettingConnections, c.ID, redactURL(u.String())))
		}
		return connectionFailure(fmt.Sprintf("connection %q: url %s", c.ID, problem), remedy)
	}
	if err := t.addSecrets(&c, &Connection{Headers: map[string]string{}}); err != nil {
		return err
	}
	if t.isConfigured(c.URL) {
		return nil
	}
	if r := address.New(t.settings.allowed(), c.URL).CheckName(); r != nil {
		return refused(r, c.ID)
	}
	return nil
}

// isConfigured reports whether a URL is that of one of the operator's connections.
func (t *Tools) isConfigured(raw string) bool {
	for _, c := range t.settings.Connections {
		if c.URL == raw {
			return true
		}
	}
	return false
}

// locate resolves a connection to what is dialled.
func (t *Tools) locate(c plan.Connection, toolName string) (*target, error) {
	c, err := t.Resolve(c, toolName)
	if err != nil {
		return nil, err
	}
	own := t.settings.Connections[c.ID]
	at := &target{id: c.ID, kind: c.Kind, settings: &t.settings}
	switch {
	case c.Kind == plan.ConnectionLocal && c.ID == "":
		at.conn = Connection{Transport: TransportLocal}.withDefaults()
	case c.Kind == plan.ConnectionActivity:
		at.id, at.conn = toolName, own.withDefaults()
	case c.URL == "" && c.Command == "", c.Kind == plan.ConnectionA2A && own.URL == c.URL:
		at.conn = own
	default:
		at.conn, at.supplied = supplied(c), true
		if err := t.addSecrets(&c, &at.conn); err != nil {
			return nil, err
		}
		if err := t.fill(c, &at.conn); err != nil {
			return nil, err
		}
		at.restricted, at.id = !t.isConfigured(c.URL), cmp.Or(at.id, redactURL(c.URL))
	}
	at.secrets, at.ownTimeout, at.callTimeout = newSecrets(at.conn), cmp.Or(c.TimeoutAt, at.setting("timeout")), "timeouts.tool in weft.yaml"
	if c.Retry != nil && c.Retry.TimeoutMillis > 0 {
		at.callTimeout = cmp.Or(c.Retry.TimeoutAt, "the timeout of the connection's retry policy in the flow")
	}
	at.key = at.identity()
	return at, nil
}

// identity is the same for targets that can share a session: the same server, credentials and policy. A
// command belongs to its connection alone.
func (t *target) identity() string {
	conn := t.conn
	conn.Timeout, conn.Elicitation, conn.Retry, conn.Resources = 0, 0, "", false
	id := ""
	if conn.Transport == TransportStdio || conn.Transport == TransportLocal || t.kind == plan.ConnectionActivity {
		id = t.id
	}
	b, _ := json.Marshal([]any{id, t.kind, t.restricted, conn}) // texts and numbers alone
	sum := sha256.Sum256(b)
	return string(sum[:])
}

func (t *target) policy() *questions.Policy {
	out := &questions.Policy{Text: t.secrets.text, SamplingTokens: t.conn.SamplingTokens}
	for _, r := range t.conn.Roots {
		root, _ := questions.ParseRoot(r) // it was checked
		out.Roots = append(out.Roots, root)
	}
	return out
}

func (t *target) asks() *questions.Server { return &questions.Server{Policy: *t.policy()} }

// name is how messages call the target.
func (t *target) name() string {
	if t.id == "" {
		return "functions of the worker"
	}
	if t.conn.URL == "" || t.id == redactURL(t.conn.URL) {
		return fmt.Sprintf("connection %q", t.id)
	}
	return fmt.Sprintf("connection %q (%s)", t.id, redactURL(t.conn.URL))
}

// failure makes a failure of this target, without its secrets.
func (t *target) failure(class, text, remedy string) *contract.Failure {
	return &contract.Failure{Class: class, Text: t.secrets.text(t.name()) + ": " + short(t.settings.Mask.Text(t.secrets.text(text))), Remedy: t.secrets.text(remedy)}
}

// malformed is the failure of an answer that breaks the protocol.
func (t *target) malformed(format string, args ...any) *contract.Failure {
	return t.failure(contract.ClassBadRequest, fmt.Sprintf(format, args...), "report it to the server's author")
}

// kind is the kind of one of the worker's connections.
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

// redactURL is a URL without what can be secret in it.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// exampleURL stands in remedies for an address that nobody but the operator knows.
const exampleURL = "https://HOST/mcp"

// allowRemedy is the remedy of a refusal: the settings of which one lifts it.
func allowRemedy(settings ...string) string {
	return "to allow it set in the worker's weft.yaml: " + strings.Join(settings, ", or ")
}

// connectionLine is the line that makes a connection the worker's own.
func connectionLine(id, address string) string {
	return fmt.Sprintf("%s: {%q: {url: %q}}", SettingConnections, id, address)
}

// bindRemedy says which line binds a tool to a connection: to one that there is, or to a new one.
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
