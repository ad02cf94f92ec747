// Package config reads the settings of worker and starter: one YAML file, the
// environment and flags; and it makes the Temporal client from Temporal's own settings.
//
// A flag wins over the environment, that over the file, that over the default. Whatever
// is wrong is reported at once, with its place. The file holds no secret: it names
// environment variables, and each variable NAME can be given as a file NAME_FILE instead.
// Nothing else in the project but the commands themselves reads the environment.
//
// Start at [Load]; the settings there are stand in settings.go.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/viper"
	"go.temporal.io/sdk/contrib/envconfig"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/specadapter/source"
	"weft/worker/store"
	"weft/workflows/plan"
)

// DefaultFile is the file that is read, if it is there, when none is named.
const DefaultFile = "weft.yaml"

// fileVariable names the file; prefix begins the name of every other variable.
const (
	fileVariable = "WEFT_CONFIG"
	prefix       = "WEFT_"
)

// keyLoopback is the setting that is another for a worker of its own user; originAuthor is
// where it came from then.
const (
	keyLoopback  = "allow_loopback"
	originAuthor = "default of weft-devserver"
)

// Env is the environment; [OS] is the process's own.
type Env = envconfig.EnvLookup

// OS is the environment of this process.
var OS Env = envconfig.EnvLookupOS

// Options say where settings come from.
type Options struct {
	// File is the flag -config; empty means WEFT_CONFIG, or else [DefaultFile] if there
	// is one.
	File string
	// Env is the environment; nil means [OS].
	Env Env
	// Flags hold settings that were given as flags, by key, such as "task_queue".
	Flags map[string]string
	// Author says that the worker serves nobody but its own user, on this machine: what
	// only flows of others could misuse is allowed unless it is set otherwise, and the
	// commands that this user has allowed may be started.
	Author bool
	// Identity is the client's name at Temporal; empty leaves it to the SDK.
	Identity string
	// Lent, if set, are the secrets that other programs of this user hand to this process.
	Lent *Lent
}

// Config holds all settings, checked and with defaults filled in.
type Config struct {
	// File is the file that was read, or "".
	File string
	// TaskQueue is where workers poll and runs are started.
	TaskQueue string
	// Model is provider/model for flows that name none. Empty: [Config.DefaultModel]
	// looks at the environment.
	Model  string
	Limits plan.Limits
	Policy plan.Policy
	Worker Worker
	Flows  Flows
	// Budget bounds what every run may spend on models; a zero field is no bound.
	Budget Budget
	// Trusted are the folders whose programs agents may run.
	Trusted []string
	// Store says where payloads go that are too large for Temporal.
	Store store.Settings
	// StoreKeyEnv and StoreSecretEnv name the variables that hold the keys of its bucket.
	StoreKeyEnv, StoreSecretEnv string
	// Codec says how payloads are encoded.
	Codec Codec
	// Serve says how starter serve answers.
	Serve Serve
	// AllowPrivate, AllowLoopback and AllowHosts say which addresses a flow's own URLs may
	// lead to.
	AllowPrivate  bool
	AllowLoopback bool
	AllowHosts    []string
	// AllowCommands are the commands that a flow may start as MCP servers; * is any.
	AllowCommands []string
	// AllowEnv are the names of variables that a flow may set for them; * is any. AllowDirs are
	// folders in and below which it may start them.
	AllowEnv, AllowDirs []string
	// Providers are keyed by name, Connections by id; Tools maps names to ids.
	Providers map[string]Provider
	// Prices are keyed by provider/model, or by its beginning and *.
	Prices      map[string]llm.Price
	Connections map[string]Connection
	Tools       map[string]string
	// Activities are tools that are activities of other workers, by name.
	Activities map[string]Activity
	// Secrets are those that flows may name, by that name.
	Secrets map[string]Secret
	// Variables are those of the worker's environment that agents may send, by name.
	Variables map[string]Variable
	// Webhooks are receivers of events by a name of the operator's.
	Webhooks map[string]Webhook
	// Confirm are rules by a name of the operator's.
	Confirm map[string]ConfirmRule
	// Contexts are rules by a name of the operator's.
	Contexts map[string]ContextRule
	// Warnings say what is probably a mistake but keeps nothing from working.
	Warnings []string

	env      Env
	identity string
	author   bool
	lent     *Lent
	mask     *mask.Mask
	masked   *sync.Once
	// origin says where a value of each key came from; no entry means the default.
	origin map[string]string
}

// Env is the environment that the settings come from.
func (c *Config) Env() Env { return c.env }

// Budget bounds what runs spend on models.
type Budget struct {
	Calls, Tokens int
	// CostMicros is in millionths of the currency of the price table.
	CostMicros int
}

// Means is what a run of this worker may spend, in the contract's words.
func (c *Config) Means() *contract.Means {
	return &contract.Means{Priced: len(c.Prices) > 0,
		Most: contract.Budget{Calls: c.Budget.Calls, Tokens: c.Budget.Tokens, Cost: int64(c.Budget.CostMicros)}}
}

// What flows a worker takes.
const (
	AcceptAny   = "any"
	AcceptNamed = "named"
)

// Flows says which flows this worker runs.
type Flows struct {
	// Dir holds the flows that clients start by name; empty: there are none.
	Dir string
	// Accept is [AcceptAny] or [AcceptNamed].
	Accept string
}

// Worker holds the settings of one worker process.
type Worker struct {
	// Slots is [SlotsFixed] or [SlotsResources].
	Slots string
	// Activities and WorkflowTasks are how many run at the same time, at most.
	Activities    int
	WorkflowTasks int
	// TargetCPU and TargetMemory are percentages, for [SlotsResources].
	TargetCPU, TargetMemory int
	// Memory is in bytes, StickyCache how many runs stay in memory between their tasks; 0: as
	// [Config.Memory] and [Config.StickyCache] say.
	Memory, StickyCache int
	// PollersMin and PollersMax bound the requests for tasks that wait at Temporal, of each kind.
	PollersMin, PollersMax int
	// Versioning is one of the constants; see [Config.Versioning].
	Versioning string
	// Heartbeats is the least time between two heartbeats of a call.
	Heartbeats time.Duration
	// StopTimeout is how long running activities may go on after a signal to stop.
	StopTimeout time.Duration
	// HealthListen and MetricsListen are addresses, host:port, of HTTP; empty: none.
	HealthListen, MetricsListen string
	// Log is [LogText] or [LogJSON]; LogLevel is the least level that is logged.
	Log, LogLevel string
}

// Forms of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Provider configures one provider of models.
type Provider struct {
	Kind    string
	BaseURL string
	// KeyEnv names the variable that holds the key; empty means the kind's own.
	KeyEnv string
	// Headers may refer to variables as ${NAME}.
	Headers map[string]string
	Proxy   string
	Unary   bool
	NoCache bool
	// NoImages says that its models know text alone.
	NoImages bool
	// Region and the four behind it are OCI's.
	Region      string
	Compartment string
	Auth        string
	AuthFile    string
	AuthProfile string
	// RequestsPerMinute and the two behind it bound the calls with one key; 0 is no bound.
	RequestsPerMinute int
	TokensPerMinute   int
	Concurrent        int
	FirstSeconds      int
	IdleSeconds       int
	MaxBodyBytes      int
}

// ConfirmRule says which tools need a person's yes; see [tool.ConfirmRule].
type ConfirmRule struct {
	Tools        []string
	Connections  []string
	LimitSeconds int
	Never        bool
}

// Secret is a value that flows name; see [tool.Secret].
type Secret struct {
	// Value may refer to variables as ${NAME}.
	Value string
	Hosts []string
}

// Variable is a variable NAME, or NAME_FILE, of the worker's environment that an agent's MCP
// servers may be sent as ${env.NAME}.
type Variable struct {
	// Hosts are those it may go to: host or host:port.
	Hosts []string
}

// Webhook configures one receiver of events.
type Webhook struct {
	URL string
	// SecretEnv names the variable with its secrets.
	SecretEnv string
	Events    []string
	// AllowPrivate lets URL lead to private and loopback addresses.
	AllowPrivate bool
}

// Activity configures a tool that is an activity of another worker; see [tool.Activity].
type Activity struct {
	TaskQueue        string
	Activity         string
	Description      string
	Schema           string
	StartSeconds     int
	TimeoutSeconds   int
	HeartbeatSeconds int
	Attempts         int
	Retry            string
	Key              bool
}

// Connection configures one tool server.
type Connection struct {
	Transport string
	URL       string
	// Headers and Env may refer to variables as ${NAME}.
	Headers        map[string]string
	Command        string
	Args           []string
	Env            map[string]string
	Dir            string
	TimeoutSeconds int
	ConnectSeconds int
	Retry          string
	CAFile         string
	CertFile       string
	KeyFile        string
	Proxy          string
}

// Problems is the error of settings that are wrong: all that is, one line each.
type Problems []string

// Error joins the problems with line breaks.
func (p Problems) Error() string { return strings.Join(p, "\n") }

// Load reads all settings. Its error is of type [Problems].
func Load(o Options) (*Config, error) {
	if o.Env == nil {
		o.Env = OS
	}
	l := &loader{
		cfg:    &Config{env: o.Env, identity: o.Identity, author: o.Author, lent: o.Lent, mask: mask.New(), masked: &sync.Once{}, Providers: map[string]Provider{}, Prices: map[string]llm.Price{}, Connections: map[string]Connection{}, Secrets: map[string]Secret{}, Tools: map[string]string{}, Activities: map[string]Activity{}, Confirm: map[string]ConfirmRule{}, Contexts: map[string]ContextRule{}, Variables: map[string]Variable{}, Webhooks: map[string]Webhook{}},
		values: viper.New(), file: map[string]any{}, origin: map[string]string{}, env: map[string]string{},
	}
	l.cfg.origin = l.origin
	l.readFile(o.File)
	l.readEnvironment()
	if o.Author && l.origin[keyLoopback] == "" {
		l.give(keyLoopback, "true", originAuthor)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Flags)) {
		l.give(key, o.Flags[key], "-"+strings.ReplaceAll(key, "_", "-"))
	}
	for _, s := range settings {
		s.take(l, s.key)
	}
	l.checkContexts()
	l.checkVersioning()
	l.checkWorker()
	if len(l.problems) > 0 {
		return nil, l.cfg.Placed(l.problems)
	}
	return l.cfg, nil
}

// Placed puts before each problem that begins with a setting where that setting comes from:
// file:line:column, a variable or a flag. Others stay as they are.
func (c *Config) Placed(in Problems) Problems {
	out := make(Problems, 0, len(in))
	for _, text := range in {
		out = append(out, c.placeOf(text)+text)
	}
	return out
}

func (c *Config) placeOf(text string) string {
	if c.File != "" && strings.HasPrefix(text, c.File+":") {
		return ""
	}
	key, _, _ := strings.Cut(text, " ")
	key = strings.TrimSuffix(key, ":")
	for key != "" {
		if from := c.origin[key]; from != "" && from != originAuthor {
			return from + ": "
		}
		key = key[:max(0, strings.LastIndexByte(key, '.'))]
	}
	return ""
}

// loader is one call of [Load] under way. Viper layers the single values. What is keyed
// by an author's names (providers, connections, tools) goes around it, because viper
// lower-cases keys and splits them at dots, and ids and headers keep neither.
type loader struct {
	cfg    *Config
	values *viper.Viper
	// file holds the single values of the file until viper takes them.
	file map[string]any
	// origin says where a value of each key came from, for messages.
	origin map[string]string
	// env holds the variables with the prefix that are not empty.
	env      map[string]string
	problems Problems
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// give sets a value above the file's and above all that were given before.
func (l *loader) give(key string, value any, origin string) {
	l.values.Set(key, value)
	l.origin[key] = origin
}

// readFile finds, parses and checks the file.
func (l *loader) readFile(name string) {
	must := true
	if name == "" {
		name, _ = l.cfg.env.LookupEnv(fileVariable)
	}
	if name == "" {
		name, must = DefaultFile, false
	}
	data, err := os.ReadFile(name)
	if !must && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.problem("read the configuration: %v; name another file with -config or %s", err, fileVariable)
		return
	}
	l.cfg.File = name
	doc, diags := source.Parse(name, data)
	for _, d := range diags {
		if d.Code != source.CodeEmpty {
			l.problem("%s", d)
		}
	}
	if doc == nil || doc.Root.Kind == source.Null {
		return
	}
	l.section(name, "", doc.Root)
	if err := l.values.MergeConfigMap(l.file); err != nil {
		l.problem("read the configuration %s: %v", name, err)
	}
}
