// Package config reads the settings of worker and starter from a YAML file, the environment and
// flags, and makes the Temporal client from Temporal's own settings.
//
// Flags override the environment, which overrides the file, which overrides defaults. All errors are
// reported at once, with their positions. The file contains no secrets: it names environment variables,
// and each variable NAME can be given as a file NAME_FILE instead. Apart from the commands, no other
// package reads the environment.
//
// Start at [Load]; the settings are the fields of [Config]; schema.go documents their tags.
package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/viper"
	"go.temporal.io/sdk/contrib/envconfig"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/activities/tool"
	"weft/worker/codec"
)

// DefaultFile is the file that is read, if it exists, when none is named.
const DefaultFile = "weft.yaml"

// FileVariable is the variable that names the file; prefix is that of all variables.
const (
	FileVariable = "WEFT_CONFIG"
	prefix       = "WEFT_"
)

// keyLoopback and keyScripts are the settings with another default for the author's own worker; originAuthor is their
// origin then.
const (
	keyLoopback  = "allow_loopback"
	keyScripts   = "flows.scripts"
	originAuthor = "default of weft-devserver"
)

// Env is an environment; [OS] is that of the process.
type Env = envconfig.EnvLookup

// OS is the environment of this process.
var OS Env = envconfig.EnvLookupOS

// Options are the sources of settings.
type Options struct {
	// File is the flag -config; empty means WEFT_CONFIG, or else [DefaultFile] if there
	// is one.
	File string
	// Env is the environment; nil means [OS].
	Env Env
	// Flags are settings given as flags, by key, such as "task_queue".
	Flags map[string]string
	// Author reports whether the worker serves only its own user, on this machine: then what
	// flows of other users could misuse is allowed by default, and the commands that this user has
	// allowed may be started.
	Author bool
	// SealKey seals what runs may reach where no variable has keys; nil: a variable must.
	SealKey *codec.Key
	// Identity is the client's identity; empty: the SDK's default.
	Identity string
	// RuntimeSecrets, if set, are secrets that other programs of this user send to this process.
	RuntimeSecrets *RuntimeSecrets
}

// Config holds all settings, validated and with defaults applied.
type Config struct {
	// File is the file that was read, or "".
	File string `mapstructure:"-"`
	// Warnings are about probable mistakes that are not errors.
	Warnings []string `mapstructure:"-"`

	TaskQueue     string   `mapstructure:"task_queue" default:"weft" doc:"task queue that workers poll and on which runs are started"`
	Model         string   `mapstructure:"model" doc:"provider/model for flows that specify none; default: OpenAI's small model if its key is set, otherwise a model of the Ollama server at OLLAMA_HOST or OLLAMA_BASE_URL"`
	AllowPrivate  bool     `mapstructure:"allow_private" default:"false" doc:"allows URLs supplied by flows to reach private and link-local addresses"`
	AllowLoopback bool     `mapstructure:"allow_loopback" default:"false" doc:"allows them to reach only this machine's own addresses; true for weft-devserver, whose user writes the flows"`
	AllowHosts    []string `mapstructure:"allow_hosts" doc:"hosts that URLs supplied by flows may reach, whatever their addresses"`
	AllowCommands []string `mapstructure:"allow_commands" doc:"commands that flows may start as MCP servers, exactly as the flows write them; * allows any"`
	AllowEnv      []string `mapstructure:"allow_env" doc:"names of variables that flows may set for such commands; * allows any"`
	AllowDirs     []string `mapstructure:"allow_dirs" doc:"absolute paths of folders in or below which flows may start such commands"`

	Authority Authority `mapstructure:"authority" doc:"keys that seal what runs may reach"`
	Agents    Agents    `mapstructure:"agents" doc:"agents that run programs"`
	Flows     Flows     `mapstructure:"flows" doc:"flows that the worker accepts"`
	Starter   Starter   `mapstructure:"starter" doc:"principal of runs and schedules that starter starts"`
	Serve     Serve     `mapstructure:"serve" doc:"the HTTP server of starter serve"`
	Store     Store     `mapstructure:"store" doc:"where payloads are stored that are too large for Temporal"`
	Codec     Codec     `mapstructure:"codec" doc:"encryption and compression of payloads, and the codec server"`
	Limits    Limits    `mapstructure:"limits" doc:"limits of each run"`
	Budget    Budget    `mapstructure:"budget" doc:"what each run may spend"`
	Timeouts  Timeouts  `mapstructure:"timeouts" doc:"timeouts of calls of models and tools"`
	Worker    Worker    `mapstructure:"worker" doc:"the worker process: concurrency, versioning, health, metrics and log"`

	Providers   map[string]Provider         `mapstructure:"providers" doc:"providers of models, by name"`
	Prices      map[string]llm.Price        `mapstructure:"prices" doc:"prices of models, by provider/model or a prefix of it followed by *"`
	Connections map[string]tool.Connection  `mapstructure:"connections" doc:"MCP servers and databases, by name: the data_connection_id of a flow"`
	Activities  map[string]tool.Activity    `mapstructure:"activities" doc:"tools that are activities of other workers, by name"`
	Secrets     map[string]tool.Secret      `mapstructure:"secrets" doc:"secrets that flows refer to, by name"`
	Variables   map[string]Variable         `mapstructure:"variables" doc:"variables of the environment of the worker that agents may send, by name"`
	Webhooks    map[string]Webhook          `mapstructure:"webhooks" doc:"receivers of events of runs, by name"`
	Confirm     map[string]tool.ConfirmRule `mapstructure:"confirm" doc:"calls that need approval by a user, by the name of the rule"`
	Contexts    map[string]ContextRule      `mapstructure:"contexts" doc:"what agents send of conversations that are too long for a model, by the name of the rule"`
	Policies    map[string]contract.Policy  `mapstructure:"policies" doc:"what runs may reach, by the name of the policy"`
	Principals  map[string]Principal        `mapstructure:"principals" doc:"clients of starter serve and what they may do, by name"`
	Issuers     map[string]Issuer           `mapstructure:"issuers" doc:"OpenID Connect providers whose tokens starter serve accepts, by name"`
	Tools       map[string]string           `mapstructure:"tools" kind:"connection" doc:"connection of the tool NAME for flows that specify none"`

	env      Env
	identity string
	author   bool
	sealKey  *codec.Key
	runtime  *RuntimeSecrets
	mask     *mask.Mask
	masked   *sync.Once
	// origin is where the value of each key came from; no entry means the default.
	origin map[string]string
}

// Env returns the environment of the settings.
func (c *Config) Env() Env { return c.env }

// variable is the value of a variable, "" if it is not set.
func (c *Config) variable(name string) string {
	value, _ := c.env.LookupEnv(name)
	return value
}

// Problems is the error of invalid settings, one problem per line.
type Problems []string

// Error joins the problems with newlines.
func (p Problems) Error() string { return strings.Join(p, "\n") }

// err is the problems as an error, nil if there are none.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Load reads all settings. Its error is of type [Problems].
func Load(o Options) (*Config, error) {
	if o.Env == nil {
		o.Env = OS
	}
	l := &loader{
		cfg:  &Config{env: o.Env, identity: o.Identity, author: o.Author, sealKey: o.SealKey, runtime: o.RuntimeSecrets, mask: mask.New(), masked: &sync.Once{}, origin: map[string]string{}},
		tree: section{},
	}
	l.readFile(o.File)
	l.readEnvironment()
	for _, key := range []string{keyLoopback, keyScripts} {
		if o.Author && l.cfg.origin[key] == "" {
			l.flag(key, "true", originAuthor)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.Flags)) {
		l.flag(key, o.Flags[key], "-"+strings.ReplaceAll(key, "_", "-"))
	}
	setDefaults(schema, l.tree)
	values := viper.New()
	err := values.MergeConfigMap(l.tree)
	if err == nil {
		err = values.Unmarshal(l.cfg, viper.DecodeHook(l.decode))
	}
	if err != nil {
		l.problems = append(l.problems, problem{text: fmt.Sprintf("read the configuration %s: %v", l.cfg.File, err)})
	}
	problems := l.sorted()
	l.checkContexts()
	l.checkPolicies()
	l.checkIssuers()
	l.checkWorker()
	if problems = append(problems, l.cfg.Placed(l.checks)...); len(problems) > 0 {
		return nil, problems
	}
	return l.cfg, nil
}

// Placed prefixes each problem that begins with a setting with the origin of that setting:
// file:line:column, a variable or a flag. Others are not changed.
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

type loader struct {
	cfg *Config
	// tree holds what the sources give.
	tree section
	// problems are about single values, checks about combinations.
	problems []problem
	checks   Problems
}

func (l *loader) check(format string, args ...any) {
	l.checks = append(l.checks, fmt.Sprintf(format, args...))
}

// flag takes a setting given by the program, by its key.
func (l *loader) flag(key, text, origin string) {
	for _, n := range schema.leaves() {
		if n.key == key {
			l.give(n, text, origin, strings.Split(key, ".")...)
		}
	}
}
