package config

import (
	"time"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/worker/store"
	"weft/workflows/plan"
)

// setting is a single value: where it goes and what it may be.
type setting struct {
	key string
	// does is for the reference.
	does string
	value
}

// value is a kind of single values: what it may be, what it is without a setting, how it is
// read and how it is shown.
type value struct {
	want, def string
	take      func(l *loader, key string)
	show      func(c *Config) string
}

// settings is the table of all single values. Sections keyed by an author's names are in
// records.go.
var settings = []setting{
	{"task_queue", "where workers poll and runs are started", text(func(c *Config) *string { return &c.TaskQueue }, contract.TaskQueue)},
	{"model", "provider/model of flows that name none; without it OpenAI's small one if its key is there, else one of the Ollama named by OLLAMA_HOST or OLLAMA_BASE_URL", text(func(c *Config) *string { return &c.Model }, "")},
	{"allow_private", "lets URLs that a flow supplies lead to private and link-local addresses", boolean(func(c *Config) *bool { return &c.AllowPrivate })},
	{"allow_loopback", "lets them lead to this machine's own addresses alone; true for weft-devserver, which serves its author", boolean(func(c *Config) *bool { return &c.AllowLoopback })},
	{"allow_hosts", "hosts that URLs of flows may lead to, whatever their addresses", list(func(c *Config) *[]string { return &c.AllowHosts })},
	{"allow_commands", "commands that flows may start as MCP servers, as they write them; * is any", list(func(c *Config) *[]string { return &c.AllowCommands })},
	{"allow_env", "names of variables that flows may set for such commands; * is any", list(func(c *Config) *[]string { return &c.AllowEnv })},
	{"allow_dirs", "folders, by absolute paths, in and below which flows may start such commands", list(func(c *Config) *[]string { return &c.AllowDirs })},

	{"agents.trusted", "folders, by absolute paths, with the scripts/ and agents/ whose programs runs may start; without it there are none", list(func(c *Config) *[]string { return &c.Trusted })},

	{"flows.dir", "folder of the flows that clients start by name", text(func(c *Config) *string { return &c.Flows.Dir }, "")},
	{"flows.accept", "any takes every flow; named refuses documents and plans that runs bring along", choice(func(c *Config) *string { return &c.Flows.Accept }, AcceptAny, AcceptNamed)},

	{"serve.listen", "host:port of starter serve; an address that is not this machine's own wants tokens", text(func(c *Config) *string { return &c.Serve.Listen }, "127.0.0.1:8765")},
	{"serve.tokens_env", "variable, or NAME_FILE, with the tokens of starter serve: NAME:TOKEN, separated by commas or line breaks", text(func(c *Config) *string { return &c.Serve.TokensEnv }, tokensVariable)},
	{"serve.origins", "origins whose pages may use starter serve; * is any", list(func(c *Config) *[]string { return &c.Serve.Origins })},
	{"serve.edit_agents", "lets clients of starter serve create, replace and delete agents", boolean(func(c *Config) *bool { return &c.Serve.EditAgents })},
	{"serve.profile", "how starter serve reads agents: see specadapter/blueprint/README.md", choice(func(c *Config) *string { return &c.Serve.Profile }, "default", "authoritative", "documented")},
	{"serve.max_body", "most bytes of a request's body", number(func(c *Config) *int { return &c.Serve.MaxBody }, 2<<20, 1<<10, 16<<20)},

	{"store.dir", "folder, shared by workers and starters, of payloads that are too large for Temporal; without it there are none", text(func(c *Config) *string { return &c.Store.Dir }, "")},
	{"store.bucket", "bucket of an S3-compatible service that is used instead of a folder", text(func(c *Config) *string { return &c.Store.Bucket.Name }, "")},
	{"store.endpoint", "URL of the service; without it Amazon's", text(func(c *Config) *string { return &c.Store.Bucket.Endpoint }, "")},
	{"store.region", "region of the bucket; without it us-east-1", text(func(c *Config) *string { return &c.Store.Bucket.Region }, "")},
	{"store.prefix", "begins the names of all objects; the namespace follows", text(func(c *Config) *string { return &c.Store.Bucket.Prefix }, "")},
	{"store.virtual_host", "true: the bucket's name is part of the host, not of the path", boolean(func(c *Config) *bool { return &c.Store.Bucket.VirtualHost })},
	{"store.key_env", "variable, or NAME_FILE, with the access key; where it is not set, the machine's own role signs", text(func(c *Config) *string { return &c.StoreKeyEnv }, "AWS_ACCESS_KEY_ID")},
	{"store.secret_env", "variable, or NAME_FILE, with the secret key", text(func(c *Config) *string { return &c.StoreSecretEnv }, "AWS_SECRET_ACCESS_KEY")},
	{"store.threshold", "bytes from which it also takes what only workers read", number(func(c *Config) *int { return &c.Store.Threshold }, store.DefaultThreshold, 1<<10, store.Inline)},
	{"store.max_payload", "bound of one payload in it, in bytes", number(func(c *Config) *int { return &c.Store.MaxPayload }, store.DefaultMaxPayload, 2<<20, 1<<30)},

	{"codec.compress", "makes payloads smaller with zlib before they go to Temporal, where that helps", boolean(func(c *Config) *bool { return &c.Codec.Compress })},
	{"codec.key", "id of the key that encrypts payloads; none: the keys only decrypt", text(func(c *Config) *string { return &c.Codec.Key }, "")},
	{"codec.keys_env", "variable, or NAME_FILE, with the keys: ID:KEY, separated by commas or line breaks; a KEY is 32 bytes in base64", text(func(c *Config) *string { return &c.Codec.KeysEnv }, keysVariable)},
	{"codec.listen", "host:port of worker codec; an address that is not this machine's own wants tokens", text(func(c *Config) *string { return &c.Codec.Listen }, "127.0.0.1:8766")},
	{"codec.tokens_env", "variable, or NAME_FILE, with the tokens of worker codec: NAME:TOKEN, separated by commas or line breaks", text(func(c *Config) *string { return &c.Codec.TokensEnv }, codecTokensVariable)},
	{"codec.origins", "origins whose pages may use worker codec, such as the Web UI's", list(func(c *Config) *[]string { return &c.Codec.Origins })},

	{"limits.max_steps", "highest step at which a node runs; 0: the flow's own, 25 where its dialect counts none", number(func(c *Config) *int { return &c.Limits.MaxSteps }, 0, 0, 1_000_000)},
	{"limits.max_state_bytes", "bound of all keys and values of a run's state together", number(func(c *Config) *int { return &c.Limits.MaxStateBytes }, plan.DefaultLimits.MaxStateBytes, 1, 1<<30)},
	{"limits.max_depth", "how deep sub-agents nest", number(func(c *Config) *int { return &c.Limits.MaxDepth }, plan.DefaultLimits.MaxDepth, 1, 100)},
	{"limits.filter_bytes", "size from which set_state_filtered condenses a value", number(func(c *Config) *int { return &c.Limits.FilterBytes }, plan.DefaultLimits.FilterBytes, 1, 1<<30)},

	{"budget.calls", "most model calls of a run with all that it starts; 0: no bound", number(func(c *Config) *int { return &c.Budget.Calls }, 0, 0, 1_000_000_000)},
	{"budget.tokens", "most tokens, input and output together", number(func(c *Config) *int { return &c.Budget.Tokens }, 0, 0, 1_000_000_000)},
	{"budget.cost_micros", "most that it costs by the table of prices, in millionths", number(func(c *Config) *int { return &c.Budget.CostMicros }, 0, 0, 1_000_000_000_000)},

	{"timeouts.model", "bound of one attempt of a model call", seconds(func(c *Config) *int { return &c.Policy.ModelSeconds }, plan.DefaultPolicy.ModelSeconds)},
	{"timeouts.tool", "bound of one attempt of a tool call", seconds(func(c *Config) *int { return &c.Policy.ToolSeconds }, plan.DefaultPolicy.ToolSeconds)},
	{"timeouts.heartbeat", "how long a silent call counts as alive", seconds(func(c *Config) *int { return &c.Policy.HeartbeatSeconds }, plan.DefaultPolicy.HeartbeatSeconds)},
	{"timeouts.retry", "bound of all attempts of one call together", seconds(func(c *Config) *int { return &c.Policy.RetrySeconds }, plan.DefaultPolicy.RetrySeconds)},
	{"timeouts.first_retry", "pause before the second attempt; it doubles from there", units(func(c *Config) *int { return &c.Policy.FirstRetryMillis }, plan.DefaultPolicy.FirstRetryMillis, time.Millisecond)},

	{"worker.slots", "fixed: as many tasks run at the same time as the next two say; resources: that is the most, while processor and memory have room", choice(func(c *Config) *string { return &c.Worker.Slots }, SlotsFixed, SlotsResources)},
	{"worker.activities", "how many calls run at the same time", number(func(c *Config) *int { return &c.Worker.Activities }, 200, 1, 100_000)},
	{"worker.workflow_tasks", "how many workflow tasks run at the same time", number(func(c *Config) *int { return &c.Worker.WorkflowTasks }, 100, 2, 100_000)},
	{"worker.target_cpu", "with slots resources: percent of the processor time of this process from which it takes no more tasks", number(func(c *Config) *int { return &c.Worker.TargetCPU }, 90, 1, 100)},
	{"worker.target_memory", "with slots resources: percent of the memory from which it takes no more", number(func(c *Config) *int { return &c.Worker.TargetMemory }, 80, 1, 100)},
	{"worker.memory", "bytes of memory that this process may use; 0: the limit of its container, else the machine's", measured(func(c *Config) *int { return &c.Worker.Memory }, 64<<20, 1<<50, (*Config).Memory)},
	{"worker.pollers_min", "how many requests for tasks of each kind wait at Temporal at least", number(func(c *Config) *int { return &c.Worker.PollersMin }, 4, 2, 1_000)},
	{"worker.pollers_max", "how many at most; between the two their number follows the load", number(func(c *Config) *int { return &c.Worker.PollersMax }, 32, 2, 1_000)},
	{"worker.sticky_cache", "how many runs stay in memory between their tasks; 0: as many as a quarter of the memory holds, 512 KiB each, 100 to 10000", measured(func(c *Config) *int { return &c.Worker.StickyCache }, 1, 1_000_000, (*Config).StickyCache)},
	{"worker.versioning", "what open runs do when a new build is deployed: auto_upgrade moves them to it, pinned keeps them; auto is auto_upgrade where TEMPORAL_DEPLOYMENT_NAME or TEMPORAL_WORKER_BUILD_ID is set, else off", choice(func(c *Config) *string { return &c.Worker.Versioning }, VersioningAuto, VersioningOff, VersioningUpgrade, VersioningPinned)},
	{"worker.heartbeats", "least time between two heartbeats of a call that somebody watches, which carry what a model has answered so far; where nobody does it is a quarter of timeouts.heartbeat, at most 10s", span(func(c *Config) *time.Duration { return &c.Worker.Heartbeats }, heartbeats, 100*time.Millisecond)},
	{"worker.stop_timeout", "how long running calls may go on after a signal to stop", span(func(c *Config) *time.Duration { return &c.Worker.StopTimeout }, 30*time.Second, 0)},
	{"worker.health_listen", "where HTTP tells of this worker's health, /livez and /readyz; such as :8086", address(func(c *Config) *string { return &c.Worker.HealthListen })},
	{"worker.metrics_listen", "where HTTP gives Prometheus its metrics, /metrics; may be the same", address(func(c *Config) *string { return &c.Worker.MetricsListen })},
	{"worker.log", "form of the log", choice(func(c *Config) *string { return &c.Worker.Log }, LogText, LogJSON)},
	{"worker.log_level", "the least that is logged", choice(func(c *Config) *string { return &c.Worker.LogLevel }, "warn", "error", "info", "debug")},
}

// heartbeats lets a watcher that looks twice a second see a streamed answer within a second.
const heartbeats = 300 * time.Millisecond

// records is the table of sections keyed by an author's names.
var records = []record{
	section[Provider]{"providers", func(c *Config) map[string]Provider { return c.Providers }, []field[Provider]{
		{"kind", "which provider of the table it is like; default: its name", one(func(p *Provider) *string { return &p.Kind })},
		{"base_url", "URL of its API", link(func(p *Provider) *string { return &p.BaseURL })},
		{"key_env", "variable, or NAME_FILE, with its key; default: the kind's own", one(func(p *Provider) *string { return &p.KeyEnv })},
		{"headers", "headers of every call; ${NAME} is a variable", named(func(p *Provider) *map[string]string { return &p.Headers })},
		{"proxy", "URL of a proxy", link(func(p *Provider) *string { return &p.Proxy })},
		{"unary", "true: whole answers instead of streams", yes(func(p *Provider) *bool { return &p.Unary })},
		{"region", "OCI: region of the service, such as us-chicago-1", one(func(p *Provider) *string { return &p.Region })},
		{"compartment", "OCI: OCID of the compartment that is charged", one(func(p *Provider) *string { return &p.Compartment })},
		{"auth", "OCI: api_key (default), security_token, instance_principal or resource_principal", one(func(p *Provider) *string { return &p.Auth })},
		{"auth_file", "OCI: file with keys and tokens; default: ~/.oci/config", one(func(p *Provider) *string { return &p.AuthFile })},
		{"auth_profile", "OCI: profile in that file; default: DEFAULT", one(func(p *Provider) *string { return &p.AuthProfile })},
		{"requests_per_minute", "bound of calls with one key, per worker; they wait for their turn", count(func(p *Provider) *int { return &p.RequestsPerMinute })},
		{"tokens_per_minute", "bound of their tokens", count(func(p *Provider) *int { return &p.TokensPerMinute })},
		{"concurrent", "bound of calls at the same time", count(func(p *Provider) *int { return &p.Concurrent })},
		{"no_cache", "true: no marks for the provider's cache of prompts", yes(func(p *Provider) *bool { return &p.NoCache })},
		{"no_images", "true: its models know text alone, and are told of images in words", yes(func(p *Provider) *bool { return &p.NoImages })},
		{"first_seconds", "how long the first part of an answer may take", count(func(p *Provider) *int { return &p.FirstSeconds })},
		{"idle_seconds", "how long each later part may take", count(func(p *Provider) *int { return &p.IdleSeconds })},
		{"max_body_bytes", "bound of one answer", count(func(p *Provider) *int { return &p.MaxBodyBytes })},
	}},
	section[llm.Price]{"prices", func(c *Config) map[string]llm.Price { return c.Prices }, []field[llm.Price]{
		{"input", "a million tokens of input, in any currency; NAME is provider/model, or its beginning and *", decimal(func(p *llm.Price) *float64 { return &p.Input })},
		{"output", "a million tokens of output", decimal(func(p *llm.Price) *float64 { return &p.Output })},
		{"cached", "a million tokens of input from the provider's cache; default: as input", decimal(func(p *llm.Price) *float64 {
			return orNew(&p.Cached)
		})},
		{"cache_write", "a million tokens of input stored there; default: as input", decimal(func(p *llm.Price) *float64 {
			return orNew(&p.CacheWrite)
		})},
	}},
	section[Connection]{"connections", func(c *Config) map[string]Connection { return c.Connections }, []field[Connection]{
		{"transport", "http, sse, stdio, or local: Go functions of the worker", one(func(c *Connection) *string { return &c.Transport })},
		{"url", "URL of an MCP server", link(func(c *Connection) *string { return &c.URL })},
		{"headers", "headers of every call; ${NAME} is a variable", named(func(c *Connection) *map[string]string { return &c.Headers })},
		{"command", "program of a stdio server", one(func(c *Connection) *string { return &c.Command })},
		{"args", "its arguments", many(func(c *Connection) *[]string { return &c.Args })},
		{"env", "its environment; ${NAME} is a variable", named(func(c *Connection) *map[string]string { return &c.Env })},
		{"dir", "its folder", one(func(c *Connection) *string { return &c.Dir })},
		{"timeout_seconds", "bound of one call", count(func(c *Connection) *int { return &c.TimeoutSeconds })},
		{"connect_seconds", "bound of connecting and listing tools", count(func(c *Connection) *int { return &c.ConnectSeconds })},
		{"retry", "never: a call whose outcome is unknown is not repeated", one(func(c *Connection) *string { return &c.Retry })},
		{"ca_file", "certificates to trust", one(func(c *Connection) *string { return &c.CAFile })},
		{"cert_file", "certificate of this client", one(func(c *Connection) *string { return &c.CertFile })},
		{"key_file", "its key", one(func(c *Connection) *string { return &c.KeyFile })},
		{"proxy", "URL of a proxy", link(func(c *Connection) *string { return &c.Proxy })},
	}},
	section[Activity]{"activities", func(c *Config) map[string]Activity { return c.Activities }, []field[Activity]{
		{"task_queue", "where another worker polls that has the tool NAME as an activity", one(func(a *Activity) *string { return &a.TaskQueue })},
		{"activity", "the activity's type there; default: NAME", one(func(a *Activity) *string { return &a.Activity })},
		{"description", "what models are told of it", one(func(a *Activity) *string { return &a.Description })},
		{"schema", "JSON Schema of its arguments object, as JSON; default: any object", one(func(a *Activity) *string { return &a.Schema })},
		{"start_seconds", "how long a call waits for a worker that takes it; default: 60", count(func(a *Activity) *int { return &a.StartSeconds })},
		{"timeout_seconds", "bound of one attempt", count(func(a *Activity) *int { return &a.TimeoutSeconds })},
		{"heartbeat_seconds", "how long it may be silent; default: it sends no heartbeats", count(func(a *Activity) *int { return &a.HeartbeatSeconds })},
		{"attempts", "how often a call that fails is made; default: 3", count(func(a *Activity) *int { return &a.Attempts })},
		{"retry", "never: a call whose outcome is unknown is not repeated", one(func(a *Activity) *string { return &a.Retry })},
		{"key", "true: the call's idempotency key is the second argument, {\"idempotency_key\": ...}", yes(func(a *Activity) *bool { return &a.Key })},
	}},
	section[Secret]{"secrets", func(c *Config) map[string]Secret { return c.Secrets }, []field[Secret]{
		{"value", "a value that flows name as NAME and never hold; ${VARIABLE} is a variable, or the file that VARIABLE_FILE names. For certificates and keys it is PEM, or the path of a file of it", hidden(func(s *Secret) *string { return &s.Value })},
		{"hosts", "hosts, or host:port, that it may be used at", many(func(s *Secret) *[]string { return &s.Hosts })},
	}},
	section[Variable]{"variables", func(c *Config) map[string]Variable { return c.Variables }, []field[Variable]{
		{"hosts", "hosts, or host:port, to which agents may send the variable NAME, or NAME_FILE, in the headers of their MCP servers: ${env.NAME}", many(func(v *Variable) *[]string { return &v.Hosts })},
	}},
	section[Webhook]{"webhooks", func(c *Config) map[string]Webhook { return c.Webhooks }, []field[Webhook]{
		{"url", "where events of runs are sent", link(func(w *Webhook) *string { return &w.URL })},
		{"secret_env", "variable, or NAME_FILE, with the secret that signs them: whsec_ and base64; several, separated by blanks, while one replaces another", one(func(w *Webhook) *string { return &w.SecretEnv })},
		{"events", "request.opened, request.answered, turn.finished, run.finished; default: all", many(func(w *Webhook) *[]string { return &w.Events })},
		{"allow_private", "true: the url may lead to private and loopback addresses", yes(func(w *Webhook) *bool { return &w.AllowPrivate })},
	}},
	section[ConfirmRule]{"confirm", func(c *Config) map[string]ConfirmRule { return c.Confirm }, []field[ConfirmRule]{
		{"tools", "names of tools whose calls need a person's yes; * stands for any letters", many(func(r *ConfirmRule) *[]string { return &r.Tools })},
		{"connections", "ids of the connections that have them; default: all", many(func(r *ConfirmRule) *[]string { return &r.Connections })},
		{"limit_seconds", "how long a call waits; no answer means no; default: without limit", count(func(r *ConfirmRule) *int { return &r.LimitSeconds })},
		{"never", "true: these tools need no yes, whatever other rules say", yes(func(r *ConfirmRule) *bool { return &r.Never })},
	}},
	section[ContextRule]{"contexts", func(c *Config) map[string]ContextRule { return c.Contexts }, []field[ContextRule]{
		{"how", "of a conversation beyond the threshold, or that a model finds too long: fail, truncate, or summarise", one(func(r *ContextRule) *string { return &r.How })},
		{"tokens", "the threshold; default: only what a model finds too long", count(func(r *ContextRule) *int { return &r.Tokens })},
		{"keep", "how many of the last messages are sent in any case", count(func(r *ContextRule) *int { return &r.Keep })},
		{"model", "provider/model of summaries; default: the agent's own", one(func(r *ContextRule) *string { return &r.Model })},
		{"flows", "names or ids of flows, * stands for any letters; default: all", many(func(r *ContextRule) *[]string { return &r.Flows })},
		{"agents", "ids of their agents' nodes; of rules for one agent the first by NAME counts, and what a flow says itself comes before all; default: all", many(func(r *ContextRule) *[]string { return &r.Agents })},
	}},
	tools{},
}
