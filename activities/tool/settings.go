package tool

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/datastore"
	"weft/activities/mask"
	"weft/activities/oauth"
	"weft/activities/program"
	"weft/activities/tool/serverrequest"
	"weft/workflows/plan"

	"golang.org/x/net/http/httpguts"
)

// Names of settings in weft.yaml that error messages quote.
const (
	SettingConnections   = "connections"
	SettingTools         = "tools"
	SettingConfirm       = "confirm"
	SettingAllowPrivate  = "allow_private"
	SettingAllowLoopback = "allow_loopback"
	SettingAllowHosts    = "allow_hosts"
	SettingAllowCommand  = "allow_commands"
	SettingAllowEnv      = "allow_env"
	SettingAllowDirs     = "allow_dirs"
	SettingVariables     = "variables"
	SettingTrusted       = program.Setting
)

// Transports of a [Connection].
const (
	TransportHTTP  = "http"
	TransportSSE   = "sse"
	TransportStdio = "stdio"
	// TransportLocal is for Go functions of the worker.
	TransportLocal = "local"
	// TransportPostgres is for a PostgreSQL database.
	TransportPostgres = "postgres"
)

// Values of [Connection.Retry]: whether a call whose outcome is unknown is repeated.
const (
	retryNever  = "never"
	retryAlways = "always"
	retryAsk    = "ask"
)

// Settings configure a worker's tools. They are plain data, except Functions. worker/config defines the struct tags of the types.
type Settings struct {
	// Connections are the operator's servers, by the id that flows use.
	Connections map[string]Connection
	// Tools maps the name of an unbound tool to the id of its connection.
	Tools map[string]string
	// Activities are tools implemented as activities of other workers, by the tool's name.
	Activities map[string]Activity
	// Secrets are the secrets that flows may refer to, by name.
	Secrets map[string]Secret
	// SecretFor, if set, returns secrets that override Secrets. They can change while the worker runs.
	SecretFor func(ref string) (Secret, bool)
	// Confirm are the rules that determine which tools require approval, by the rule's name.
	Confirm map[string]ConfirmRule
	// Functions are tools implemented by the worker's own program.
	Functions []Function
	// AllowPrivate allows supplied URLs at private, loopback and link-local addresses.
	AllowPrivate bool
	// AllowLoopback allows supplied URLs only at this machine's own loopback addresses.
	AllowLoopback bool
	// AllowHosts are hosts, or host:port, that are always allowed in supplied URLs.
	AllowHosts []string
	// AllowCommands are the commands, as flows write them, that flows may start as MCP servers; * allows any. Arguments are not checked.
	AllowCommands []string
	// AllowEnv are the variables that a flow may set for commands; * allows any. AllowDirs are absolute paths of
	// folders in or below which a flow may start commands.
	AllowEnv, AllowDirs []string
	// Variables are the values that flows may send as ${env.NAME} in headers, by name.
	Variables map[string]Secret
	// Trusted are absolute paths of folders whose programs may be run.
	Trusted []string
	// AllowCommand, if set, reports whether the worker's user has allowed exactly this command. It is called for every call.
	AllowCommand func(c Connection) bool
	// MaxResultBytes limits the text of one result; 0 means 1.9 MiB.
	MaxResultBytes int
	// MaxMessageBytes limits one encoded message of a server; 0 means four times MaxResultBytes, but at most 16 MiB more than
	// MaxResultBytes, plus 1 MiB.
	MaxMessageBytes int
	// IdleSeconds is how long an unused session stays open; 0 means 600.
	IdleSeconds int
	// BaseEnv is the part of the worker's environment that every command inherits: PATH, by default
	// /usr/local/bin:/usr/bin:/bin, and HOME.
	BaseEnv map[string]string
	// Logins stores the tokens of connections with OAuth.
	Logins oauth.Logins
	// Mask, if set, removes secrets of other servers from text that errors quote.
	Mask *mask.Mask
}

// ConfirmRule specifies whether calls of some tools require approval. Patterns are as in path.Match, but * also matches slashes.
type ConfirmRule struct {
	Tools       []string      `mapstructure:"tools" doc:"names of tools whose calls require a user's confirmation; * matches any characters"`
	Connections []string      `mapstructure:"connections" doc:"ids of the connections of these tools; default: all"`
	Timeout     time.Duration `mapstructure:"timeout" unit:"1s" max:"87600h" doc:"how long a call waits for an answer before it is refused; default: unlimited"`
	Never       bool          `mapstructure:"never" default:"false" doc:"true: these tools need no confirmation, regardless of other rules"`
}

// Connection is a server that the operator configures. The default of Transport is stdio if Command is set and URL is not,
// otherwise http. URL is not subject to the policy. Password, OAuthClientSecret, and the values of Headers and Env are secrets.
// CAFile, CertFile and KeyFile are PEM or paths of PEM files, which are read when a session starts.
type Connection struct {
	Transport         string            `mapstructure:"transport" doc:"http, sse, stdio, local: Go functions of the worker, or postgres: a database"`
	URL               string            `mapstructure:"url" kind:"url" doc:"URL of an MCP server, or postgres://USER@HOST:PORT/DATABASE; a database's certificate is verified unless the URL sets another sslmode"`
	Password          string            `mapstructure:"password" kind:"secret" doc:"password of a database's user; ${NAME} is a variable"`
	Headers           map[string]string `mapstructure:"headers" doc:"headers of every call; ${NAME} is a variable"`
	Command           string            `mapstructure:"command" doc:"program of a stdio server"`
	Args              []string          `mapstructure:"args" doc:"its arguments"`
	Env               map[string]string `mapstructure:"env" doc:"its environment; ${NAME} is a variable"`
	Dir               string            `mapstructure:"dir" doc:"its working directory"`
	Timeout           time.Duration     `mapstructure:"timeout" unit:"1s" doc:"timeout of one call"`
	ConnectTimeout    time.Duration     `mapstructure:"connect_timeout" unit:"1s" doc:"timeout for connecting and listing tools"`
	Elicitation       time.Duration     `mapstructure:"elicitation_timeout" unit:"1s" max:"24h" doc:"total time that a server (of a protocol up to 2025-11-25) waits for users' answers during one call; default: 10m"`
	SamplingTokens    int               `mapstructure:"sampling_tokens" max:"1000000" doc:"maximum tokens of an answer of the run's model that the server asks for (sampling), within the run's budget; default: not allowed"`
	Roots             []string          `mapstructure:"roots" doc:"roots that a server gets if it asks for them: file URIs, as file:///folder or NAME=file:///folder; default: not allowed"`
	Retry             string            `mapstructure:"retry" oneof:"never,ask,always" doc:"whether to repeat a call whose outcome is unknown; default: only if the tool is declared read-only or idempotent, otherwise the model is notified; always: for tools that are safe to repeat and servers that honour the idempotency key; never; ask: an operator decides about calls that the default would not repeat"`
	Session           string            `mapstructure:"session" oneof:"run" doc:"run: each root run has its own session with the server; default: all runs of a tenant share one"`
	Stream            bool              `mapstructure:"session_stream" default:"false" doc:"true: open the session's stream (GET) during calls, for servers of protocols up to 2025-11-25 that send their requests there; servers that expect it to stay open, such as Playwright's, end the session when it closes"`
	Resources         bool              `mapstructure:"resources" default:"false" doc:"true: models may read the resources that results of its tools link to, with the tool read_resource"`
	CAFile            string            `mapstructure:"ca_file" doc:"certificates to trust"`
	CertFile          string            `mapstructure:"cert_file" doc:"certificate of this client"`
	KeyFile           string            `mapstructure:"key_file" doc:"its key"`
	Proxy             string            `mapstructure:"proxy" kind:"url" doc:"URL of a proxy"`
	OAuth             string            `mapstructure:"oauth" oneof:"login,client" doc:"source of tokens; login: a user runs worker login NAME once; client: the worker's own credentials at the authorization server"`
	OAuthClientID     string            `mapstructure:"oauth_client_id" doc:"id of a client registered at the authorization server; default for a login: a client is registered automatically"`
	OAuthClientSecret string            `mapstructure:"oauth_client_secret" kind:"secret" doc:"its secret; ${NAME} is a variable"`
	OAuthKeyFile      string            `mapstructure:"oauth_key_file" doc:"its private key, EC or RSA, instead of a secret"`
	OAuthClientURL    string            `mapstructure:"oauth_client_url" kind:"url" doc:"URL of the client's metadata, used if the authorization server supports it"`
	OAuthScopes       []string          `mapstructure:"oauth_scopes" doc:"scopes to request; default: those that the server advertises"`

	// secretValues are the values of secrets that the flow refers to. They are masked in all text.
	secretValues []string
}

// SessionOfRun is the value of [Connection.Session] that gives each root run its own session.
const SessionOfRun = "run"

const (
	defaultMaxResult   = 19 << 20 / 10
	defaultElicitation = 10 * time.Minute
	defaultConnect     = 30 * time.Second
	defaultPath        = "/usr/local/bin:/usr/bin:/bin"
)

func (s Settings) withDefaults() Settings {
	s.MaxResultBytes = cmp.Or(s.MaxResultBytes, defaultMaxResult)
	s.MaxMessageBytes = cmp.Or(s.MaxMessageBytes, min(4*s.MaxResultBytes, s.MaxResultBytes+16<<20)+1<<20)
	s.IdleSeconds = cmp.Or(s.IdleSeconds, 600)
	env := map[string]string{"PATH": cmp.Or(s.BaseEnv["PATH"], defaultPath)}
	if home := s.BaseEnv["HOME"]; home != "" {
		env["HOME"] = home
	}
	s.BaseEnv, s.Connections = env, maps.Clone(s.Connections)
	for id, c := range s.Connections {
		s.Connections[id] = c.withDefaults()
	}
	return s
}

func (c Connection) withDefaults() Connection {
	if c.Transport == "" {
		c.Transport = TransportHTTP
		if c.Command != "" && c.URL == "" {
			c.Transport = TransportStdio
		}
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnect)
	c.Elicitation = cmp.Or(c.Elicitation, defaultElicitation)
	return c
}

type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p *problems) addIf(invalid bool, format string, args ...any) {
	if invalid {
		p.add(format, args...)
	}
}

func (p *problems) hosts(setting string, list []string) {
	for _, h := range list {
		p.addIf(h == "" || strings.ContainsAny(h, "/@ *"), "%s: %q is not a host; write it as example.com or example.com:8080", setting, h)
	}
}

// check returns one failure that lists all problems of the settings, sorted.
func (s Settings) check() error {
	var p problems
	for id, c := range s.Connections {
		c.check(&p, SettingConnections+"."+id)
	}
	for name, id := range s.Tools {
		if _, ok := s.Connections[id]; !ok {
			p.add("%s.%s: unknown connection %q; available connections: %s", SettingTools, name, id, s.connectionNames())
		}
	}
	for name, a := range s.Activities {
		a.check(&p, SettingActivities+"."+name)
		if id, ok := s.Tools[name]; ok {
			p.add("%s.%s: %s.%s already binds the tool to connection %q; remove one of them", SettingActivities, name, SettingTools, name, id)
		}
	}
	for name, r := range s.Confirm {
		r.check(&p, SettingConfirm+"."+name)
	}
	for ref, secret := range s.Secrets {
		secret.check(&p, SettingSecrets+"."+ref)
	}
	for name, v := range s.Variables {
		v.checkHosts(&p, SettingVariables+"."+name+".hosts")
	}
	s.checkFunctions(&p)
	s.checkAllowed(&p)
	if len(p) == 0 {
		return nil
	}
	sort.Strings(p)
	return &contract.Failure{Class: contract.ClassConnection, Text: strings.Join(p, "\n"), Diagnostics: p}
}

func (s Settings) checkAllowed(p *problems) {
	p.hosts(SettingAllowHosts, s.AllowHosts)
	for _, c := range s.AllowCommands {
		p.addIf(strings.TrimSpace(c) == "", "%s: a command is empty; write it exactly as flows do, or * for any", SettingAllowCommand)
	}
	for _, name := range s.AllowEnv {
		if strings.TrimSpace(name) == "" || strings.Contains(name, "=") {
			p.add("%s: %q is not the name of a variable; write the name without a value, or * for any", SettingAllowEnv, name)
		}
	}
	for setting, dirs := range map[string][]string{SettingAllowDirs: s.AllowDirs, SettingTrusted: s.Trusted} {
		for _, dir := range dirs {
			p.addIf(!filepath.IsAbs(dir), "%s: %q is not an absolute path", setting, dir)
		}
	}
}

func (c Connection) check(p *problems, at string) {
	p.addIf(strings.TrimPrefix(at, SettingConnections+".") == "", "%s: a connection has an empty id", SettingConnections)
	for i, r := range c.Roots {
		if _, err := serverrequest.ParseRoot(r); err != nil {
			p.add("%s.roots[%d]: %v", at, i, err)
		}
	}
	if (len(c.Roots) > 0 || c.SamplingTokens > 0) && c.kind() != plan.ConnectionMCP {
		p.add("%s: roots and sampling_tokens are settings of MCP servers, not of transport %s", at, c.Transport)
	}
	switch c.Transport {
	case TransportHTTP, TransportSSE:
		c.checkURL(p, at)
	case TransportStdio:
		c.checkCommand(p, at)
	case TransportLocal:
		if c.hasAddress() || c.hasCommand() {
			p.add("%s: transport local is for functions of the worker; only the settings timeout and retry apply to it", at)
		}
	case TransportPostgres:
		if err := (datastore.Settings{URL: c.URL}).Check(); err != nil {
			p.add("%s.url: %v", at, err)
		}
	default:
		p.add("%s.transport: unknown transport %q; use http, sse, stdio, local or postgres", at, c.Transport)
	}
}

func (c Connection) hasAddress() bool {
	return c.URL != "" || len(c.Headers) > 0 || c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" || c.Proxy != "" || c.OAuth != ""
}

func (c Connection) hasCommand() bool {
	return c.Command != "" || len(c.Args) > 0 || len(c.Env) > 0 || c.Dir != ""
}

func (c Connection) checkURL(p *problems, at string) {
	p.addIf(c.hasCommand(), "%s: command, args, env and dir are settings of transport stdio, not of %s", at, c.Transport)
	if problem := urlProblem(c.URL); problem != "" {
		p.add("%s.url: %s", at, problem)
	}
	for name, value := range c.Headers {
		if problem := headerProblem(name, value); problem != "" {
			p.add("%s.headers: %s", at, problem)
		}
	}
	p.addIf((c.CertFile == "") != (c.KeyFile == ""), "%s: cert_file and key_file must be set together", at)
	if c.OAuth == oauth.Client && (c.OAuthClientID == "" || (c.OAuthClientSecret == "") == (c.OAuthKeyFile == "")) {
		p.add("%s: oauth: client requires oauth_client_id, and oauth_client_secret or oauth_key_file", at)
	}
	if c.Proxy != "" {
		if u, err := url.Parse(c.Proxy); err != nil || u.Host == "" {
			p.add("%s.proxy: not a URL; write it as http://host:port", at)
		}
	}
}

func (c Connection) checkCommand(p *problems, at string) {
	p.addIf(c.Command == "", "%s.command: required by transport stdio", at)
	p.addIf(c.hasAddress(), "%s: url, headers, certificates and proxy are settings of transports http and sse, not of stdio", at)
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			p.add("%s.env: %q is not the name of a variable, or its value contains a NUL byte", at, name)
		}
	}
	p.addIf(strings.Contains(c.Command+strings.Join(c.Args, ""), "\x00"), "%s.command: contains a NUL byte", at)
}

// urlProblem describes the problem of a server's URL, or returns "" for a valid one. It never quotes a password.
func urlProblem(raw string) string {
	if raw == "" {
		return "is empty; write it as https://host/path"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "is not a URL; write it as https://host/path"
	case u.User != nil:
		return fmt.Sprintf("%q contains a user or password; remove it, and send a header instead", redactURL(raw))
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("%q has scheme %q; use http or https", redactURL(raw), u.Scheme)
	case u.Hostname() == "":
		return fmt.Sprintf("%q has no host", redactURL(raw))
	}
	return ""
}

// reservedHeaders are the headers that the protocol sets.
var reservedHeaders = map[string]bool{
	"content-type": true, "content-length": true, "accept": true, "host": true, "connection": true,
	"transfer-encoding": true, "mcp-session-id": true, "mcp-protocol-version": true, "last-event-id": true,
}

func headerProblem(name, value string) string {
	switch {
	case name == "":
		return "a header has an empty name"
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Sprintf("%q is not the name of a header", name)
	case reservedHeaders[strings.ToLower(name)]:
		return fmt.Sprintf("%q is set by the protocol", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Sprintf("the value of %q has a line break or another control character", name)
	}
	return ""
}

func (s Settings) connectionNames() string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.Connections)), ", "), "none")
}

// connectionIDs returns a connection's own id and the ids of the operator's connections with the same URL.
func (t *Tools) connectionIDs(c plan.Connection) []string {
	ids := []string{c.ID}
	for id := range t.settings.Connections {
		if configured := t.settings.Connections[id]; c.URL != "" && configured.URL == c.URL {
			ids = append(ids, id)
		}
	}
	return ids
}

// confirmation reports whether calls of a tool require approval, and for how many seconds to wait for it; 0 means no limit.
// A rule with never takes precedence, then the shortest limit. A rule for a connection of the operator requires approval for
// that connection's URL under any id, but a rule with never exempts only the connection itself.
func (t *Tools) confirmation(c plan.Connection, name string) (limit plan.Seconds, need bool) {
	ids := t.connectionIDs(c)
	for _, r := range t.settings.Confirm {
		if r.Never && len(r.Connections) > 0 && !t.isOperatorConnection(c) {
			continue
		}
		// Models and servers may not distinguish Pay from pay: rules that require approval ignore case, exemptions do not.
		fold := strings.ToLower
		if r.Never {
			fold = func(s string) string { return s }
		}
		if !matches(r.Tools, name, fold) || len(r.Connections) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return matches(r.Connections, id, fold) }) {
			continue
		}
		if r.Never {
			return 0, false
		}
		timeout := plan.Seconds(seconds(r.Timeout))
		if need = true; timeout > 0 && (limit == 0 || timeout < limit) {
			limit = timeout
		}
	}
	return limit, need
}

// matches reports whether one of the patterns matches a name, after fold is applied to both.
func matches(patterns []string, s string, fold func(string) string) bool {
	// In path.Match, * does not match slashes, but a rule for all tools must match files/delete.
	noSlash := strings.NewReplacer("/", "\x00")
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(noSlash.Replace(fold(p)), noSlash.Replace(fold(s)))
		return ok && err == nil
	})
}

func (r ConfirmRule) check(p *problems, at string) {
	p.addIf(len(r.Tools) == 0, "%s.tools: is empty; list tools, or \"*\" for all", at)
	for field, patterns := range map[string][]string{"tools": r.Tools, "connections": r.Connections} {
		for _, pattern := range patterns {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				p.add("%s.%s: %q is not a valid pattern; write names, with * for any characters", at, field, pattern)
			}
		}
	}
	p.addIf(r.Never && r.Timeout > 0, "%s: never and timeout are mutually exclusive", at)
}

// largerResultRemedy returns the setting that allows larger results.
func (s *Settings) largerResultRemedy() string {
	if s.MaxResultBytes > defaultMaxResult {
		return "raise store.max_payload"
	}
	return "give the workers a store (store.dir)"
}
