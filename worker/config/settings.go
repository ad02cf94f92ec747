package config

import (
	"time"

	"weft/activities/contract"
	"weft/worker/store"
	"weft/workflows/plan"
)

// AcceptNamed is the value of flows.accept with which only named flows run.
const AcceptNamed = "named"

// Values of worker.log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Agents holds the settings of agents that run programs.
type Agents struct {
	Trusted []string `mapstructure:"trusted" doc:"absolute paths of folders with scripts/ and agents/ whose programs runs may start; default: none"`
}

// Flows holds the settings of flows that a worker accepts.
type Flows struct {
	Dir     string `mapstructure:"dir" doc:"folder of the flows that clients start by name"`
	Accept  string `mapstructure:"accept" oneof:"any,named" default:"any" doc:"any: accept every flow; named: reject documents and plans supplied with a run, and make starter and starter serve send the names of flows in their flows.dir"`
	Scripts bool   `mapstructure:"scripts" default:"false" doc:"allows clients to start runs with the model script, whose answers they supply; true for weft-devserver, whose user writes the flows"`
}

// Starter holds the settings of runs and schedules that starter starts.
type Starter struct {
	Principal string `mapstructure:"principal" doc:"name of the principal that starts runs, for policies and lists of runs; default: the operating system's user"`
	Tenant    string `mapstructure:"tenant" doc:"tenant of that principal; default: none"`
}

// Serve holds the settings of starter serve.
type Serve struct {
	Listen     string   `mapstructure:"listen" default:"127.0.0.1:8765" doc:"host:port of starter serve; an address other than this machine's own requires tokens"`
	TokensEnv  string   `mapstructure:"tokens_env" default:"WEFT_SERVE_TOKENS" doc:"variable, or NAME_FILE, with the tokens of starter serve: NAME:TOKEN, separated by commas or line breaks"`
	Origins    []string `mapstructure:"origins" doc:"origins whose pages may use starter serve; * allows any"`
	EditAgents bool     `mapstructure:"edit_agents" default:"false" doc:"allows clients of starter serve to create, replace and delete agents"`
	Profile    string   `mapstructure:"profile" oneof:"default,authoritative,documented" default:"default" doc:"profile with which starter serve reads agents; see specadapter/blueprint/README.md"`
	MaxBody    int      `mapstructure:"max_body" min:"1024" max:"1073741824" default:"2097152" doc:"largest request body, in bytes; a store takes inputs of up to store.max_payload"`
}

// Store holds the settings of the store for payloads that are too large for Temporal.
type Store struct {
	store.Settings `mapstructure:",squash"`
	KeyEnv         string `mapstructure:"key_env" default:"AWS_ACCESS_KEY_ID" doc:"variable, or NAME_FILE, with the access key; if not set, the machine's role signs requests"`
	SecretEnv      string `mapstructure:"secret_env" default:"AWS_SECRET_ACCESS_KEY" doc:"variable, or NAME_FILE, with the secret key"`
}

// Codec holds the settings of the payload codec and of the codec server.
type Codec struct {
	Compress  bool     `mapstructure:"compress" default:"false" doc:"compresses payloads with zlib if that makes them smaller"`
	Key       string   `mapstructure:"key" doc:"id of the key that encrypts payloads; none: the keys only decrypt"`
	KeysEnv   string   `mapstructure:"keys_env" default:"WEFT_CODEC_KEYS" doc:"variable, or NAME_FILE, with the keys: ID:KEY, separated by commas or line breaks; a KEY is 32 bytes in base64"`
	Listen    string   `mapstructure:"listen" default:"127.0.0.1:8766" doc:"host:port of worker codec; an address other than this machine's own requires tokens"`
	TokensEnv string   `mapstructure:"tokens_env" default:"WEFT_CODEC_TOKENS" doc:"variable, or NAME_FILE, with the tokens of worker codec: NAME:TOKEN, separated by commas or line breaks"`
	Origins   []string `mapstructure:"origins" doc:"origins whose pages may use worker codec, such as the Web UI's"`
}

// Limits holds the limits of runs; see [plan.Limits].
type Limits struct {
	MaxSteps      int `mapstructure:"max_steps" min:"0" max:"1000000" default:"0" doc:"maximum step at which a node runs; 0: the flow's own limit, or 25 if its dialect has none"`
	MaxStateBytes int `mapstructure:"max_state_bytes" min:"1" max:"1073741824" default:"1048576" doc:"largest state of a run: all keys and values together"`
	MaxDepth      int `mapstructure:"max_depth" min:"1" max:"100" default:"5" doc:"maximum nesting depth of sub-agents"`
	FilterBytes   int `mapstructure:"filter_bytes" min:"1" max:"1073741824" default:"4096" doc:"size above which set_state_filtered condenses a value"`
}

// Budget limits what runs spend on models, and what models start; a zero field is no limit.
type Budget struct {
	Calls      int `mapstructure:"calls" min:"0" max:"1000000000" default:"10000" doc:"maximum model calls of a run, or of each turn of a session, including everything it starts; 0: unlimited"`
	Tokens     int `mapstructure:"tokens" min:"0" max:"1000000000" default:"0" doc:"maximum tokens, input and output together; 0: unlimited"`
	Runs       int `mapstructure:"runs" min:"0" max:"1000000" default:"1000" doc:"maximum runs that the models of a run start, at any depth; 0: unlimited"`
	RunsAtOnce int `mapstructure:"runs_at_once" min:"0" max:"1000" default:"20" doc:"maximum number of such runs at the same time; 0: unlimited"`
	RunsPerSec int `mapstructure:"runs_per_second" min:"0" max:"1000" default:"20" doc:"maximum number of such runs started per second; 0: unlimited"`
	Declared   int `mapstructure:"declared_runs" min:"0" max:"1000000000" default:"100000" doc:"maximum runs that flows declare below a run, at any depth: branches, elements of maps, called flows; 0: unlimited"`
	CostMicros int `mapstructure:"cost_micros" min:"0" max:"1000000000000" default:"0" doc:"maximum cost according to prices, in millionths; 0: unlimited"`
}

// BudgetLimits returns the budget of runs of this worker.
func (c *Config) BudgetLimits() *contract.BudgetLimits {
	return &contract.BudgetLimits{Priced: len(c.Prices) > 0,
		Most: contract.Budget{Calls: c.Budget.Calls, Tokens: c.Budget.Tokens, Cost: int64(c.Budget.CostMicros), Runs: c.Budget.Runs, AtOnce: c.Budget.RunsAtOnce,
			PerSecond: c.Budget.RunsPerSec, Declared: c.Budget.Declared}}
}

// Timeouts holds the timeouts of the calls of a run; see [plan.Policy].
type Timeouts struct {
	Model      time.Duration `mapstructure:"model" min:"1s" unit:"1s" default:"10m" doc:"timeout of one attempt of a model call"`
	Tool       time.Duration `mapstructure:"tool" min:"1s" unit:"1s" default:"5m" doc:"timeout of one attempt of a tool call"`
	Heartbeat  time.Duration `mapstructure:"heartbeat" min:"1s" unit:"1s" default:"2s" doc:"heartbeat timeout of a call"`
	Retry      time.Duration `mapstructure:"retry" min:"1s" unit:"1s" default:"1h" doc:"timeout of all attempts of one call together"`
	FirstRetry time.Duration `mapstructure:"first_retry" min:"1ms" unit:"1ms" default:"500ms" doc:"delay before the second attempt; it doubles with each further one"`
}

func (t Timeouts) policy() plan.Policy {
	return plan.Policy{ModelSeconds: wholeSeconds(t.Model), ToolSeconds: wholeSeconds(t.Tool), HeartbeatSeconds: wholeSeconds(t.Heartbeat),
		RetrySeconds: wholeSeconds(t.Retry), FirstRetryMillis: int(t.FirstRetry / time.Millisecond)}
}

func wholeSeconds(d time.Duration) int { return int(d / time.Second) }

// Worker holds the settings of one worker process.
type Worker struct {
	Slots         string        `mapstructure:"slots" oneof:"fixed,resources" default:"fixed" doc:"fixed: the next two settings limit concurrency; resources: CPU and memory limit it as well"`
	Activities    int           `mapstructure:"activities" min:"1" max:"100000" default:"200" doc:"maximum concurrent activities"`
	WorkflowTasks int           `mapstructure:"workflow_tasks" min:"2" max:"100000" default:"100" doc:"maximum concurrent workflow tasks"`
	TargetCPU     int           `mapstructure:"target_cpu" min:"1" max:"100" default:"90" doc:"with slots resources: percentage of this process's CPU above which it takes no more tasks"`
	TargetMemory  int           `mapstructure:"target_memory" min:"1" max:"100" default:"80" doc:"with slots resources: percentage of its memory above which it takes no more tasks"`
	Memory        int           `mapstructure:"memory" min:"67108864" max:"1125899906842624" or:"0" default:"0" doc:"bytes of memory that this process may use; 0: the limit of its container, or the machine's memory if there is none"`
	PollersMin    int           `mapstructure:"pollers_min" min:"2" max:"1000" default:"4" doc:"minimum pollers of each kind of task"`
	PollersMax    int           `mapstructure:"pollers_max" min:"2" max:"1000" default:"32" doc:"maximum pollers of each kind of task; their number follows the load"`
	StickyCache   int           `mapstructure:"sticky_cache" min:"1" max:"1000000" or:"0" default:"0" doc:"number of runs cached in memory between their tasks; 0: a quarter of the memory at 512 KiB each, 100 to 10000"`
	Versioning    string        `mapstructure:"versioning" oneof:"auto,off,auto_upgrade,pinned" default:"auto" doc:"what open runs do when a new build is deployed: auto_upgrade moves them to it, pinned keeps them on theirs; auto is auto_upgrade if TEMPORAL_DEPLOYMENT_NAME or TEMPORAL_WORKER_BUILD_ID is set, off otherwise"`
	Heartbeats    time.Duration `mapstructure:"heartbeats" min:"100ms" default:"300ms" doc:"minimum interval between the heartbeats of a followed call, which carry the model's answer so far; without followers it is a quarter of timeouts.heartbeat, at most 10s"`
	StopTimeout   time.Duration `mapstructure:"stop_timeout" default:"30s" doc:"how long running activities may continue after the worker receives a signal to stop"`
	HealthListen  string        `mapstructure:"health_listen" kind:"address" doc:"address of the HTTP server with /livez and /readyz, such as :8086"`
	MetricsListen string        `mapstructure:"metrics_listen" kind:"address" doc:"address of the HTTP server with Prometheus metrics at /metrics; may be the same as worker.health_listen"`
	Log           string        `mapstructure:"log" oneof:"text,json" default:"text" doc:"format of the log"`
	LogLevel      string        `mapstructure:"log_level" oneof:"warn,error,info,debug" default:"warn" doc:"lowest level that is logged"`
}

// Provider configures one provider of models.
type Provider struct {
	Kind              string            `mapstructure:"kind" doc:"built-in provider whose API it has; default: its name"`
	BaseURL           string            `mapstructure:"base_url" kind:"url" doc:"URL of its API"`
	API               string            `mapstructure:"api" doc:"chat or responses: OpenAI API to use; default: responses for models of openai and azure that support it, otherwise chat"`
	KeyEnv            string            `mapstructure:"key_env" doc:"variable, or NAME_FILE, with its key; default: that of its kind"`
	Headers           map[string]string `mapstructure:"headers" doc:"headers of every call; ${NAME} is a variable"`
	Proxy             string            `mapstructure:"proxy" kind:"url" doc:"URL of a proxy"`
	Stream            bool              `mapstructure:"stream" default:"true" doc:"false: request whole answers instead of streams"`
	Region            string            `mapstructure:"region" doc:"OCI, Bedrock: region of the service, such as us-chicago-1; Bedrock's default: AWS_REGION"`
	Compartment       string            `mapstructure:"compartment" doc:"OCI: OCID of the compartment to charge"`
	Auth              string            `mapstructure:"auth" doc:"OCI: api_key (default), security_token, instance_principal or resource_principal"`
	AuthFile          string            `mapstructure:"auth_file" doc:"OCI: file with keys and tokens; default: ~/.oci/config"`
	AuthProfile       string            `mapstructure:"auth_profile" doc:"OCI: profile in that file; default: DEFAULT"`
	RequestsPerMinute int               `mapstructure:"requests_per_minute" max:"1000000" doc:"maximum calls per minute and key, of all workers; further calls wait; 0: unlimited until the provider refuses one"`
	TokensPerMinute   int               `mapstructure:"tokens_per_minute" max:"1000000000" doc:"maximum tokens per minute and key, of all workers; 0: unlimited"`
	Concurrent        int               `mapstructure:"concurrent" max:"100000" doc:"maximum concurrent calls; 0: unlimited"`
	PromptCache       bool              `mapstructure:"prompt_cache" default:"true" doc:"false: send no markers for the provider's prompt cache"`
	Images            bool              `mapstructure:"images" default:"true" doc:"false: its models accept only text; images are replaced by a text"`
	TextCalls         bool              `mapstructure:"text_calls" default:"false" doc:"true: read tool calls that a server without a parser for its model leaves in the text"`
	FirstTokenTimeout time.Duration     `mapstructure:"first_token_timeout" unit:"1s" doc:"timeout for the first part of an answer"`
	IdleTimeout       time.Duration     `mapstructure:"idle_timeout" unit:"1s" doc:"timeout for each subsequent part"`
	CutRetries        int               `mapstructure:"cut_retries" default:"2" max:"100" doc:"maximum retries of a call whose answer was cut off; each attempt may be charged"`
	MaxBodyBytes      int               `mapstructure:"max_body_bytes" max:"1073741824" doc:"largest answer, in bytes; default: 32 MiB, or twice store.max_payload if that is more and there is a store"`
}

// unconfigured is a provider that the settings do not mention.
var unconfigured = Provider{Stream: true, PromptCache: true, Images: true, CutRetries: 2}

// Variable is a variable NAME, or NAME_FILE, of the worker's environment that agents may send.
type Variable struct {
	Hosts []string `mapstructure:"hosts" doc:"hosts to which agents may send the variable NAME, or NAME_FILE, in the headers of their MCP servers, as ${env.NAME}: HOST or HOST:PORT over https, or http://HOST:PORT"`
}

// Webhook configures one receiver of events.
type Webhook struct {
	URL          string   `mapstructure:"url" kind:"url" doc:"URL that receives the events of runs"`
	SecretEnv    string   `mapstructure:"secret_env" doc:"variable, or NAME_FILE, with the secret that signs them: whsec_ and base64; several, separated by spaces, while secrets are rotated"`
	Events       []string `mapstructure:"events" doc:"request.opened, request.answered, turn.finished, run.finished; default: all"`
	AllowPrivate bool     `mapstructure:"allow_private" default:"false" doc:"true: the URL may be a private or loopback address"`
}

// ContextRule defines what agents send of conversations that are too long; see [plan.Context].
type ContextRule struct {
	How    string   `mapstructure:"how" doc:"what happens if a conversation exceeds the threshold or a model rejects it as too long: fail, truncate or summarise"`
	Tokens int      `mapstructure:"tokens" doc:"the threshold; at most three quarters of the context that a local model's server reports; default: only that, and conversations that a model rejects"`
	Keep   int      `mapstructure:"keep" doc:"number of most recent messages that are always sent"`
	Model  string   `mapstructure:"model" doc:"provider/model that writes summaries; default: the agent's own"`
	Flows  []string `mapstructure:"flows" doc:"names or ids of flows; * matches any characters; default: all"`
	Agents []string `mapstructure:"agents" doc:"node ids of the agents in these flows; the first matching rule in the order of NAME applies, and a flow's own rules take precedence; default: all"`
}
