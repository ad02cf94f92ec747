package config

import "time"

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

// Price is what a million tokens of a model cost; see llm.Price.
type Price struct {
	Input      float64  `mapstructure:"input" doc:"price of a million input tokens, in any currency; NAME is provider/model, or a prefix of it followed by *"`
	Output     float64  `mapstructure:"output" doc:"price of a million output tokens"`
	Cached     *float64 `mapstructure:"cached" doc:"price of a million input tokens read from the provider's cache; default: as input"`
	CacheWrite *float64 `mapstructure:"cache_write" doc:"price of a million input tokens written to that cache; default: as input"`
	Reasoning  *float64 `mapstructure:"reasoning" doc:"price of a million output tokens that are reasoning; default: as output"`
	Image      float64  `mapstructure:"image" doc:"price of each image in a request, beside its tokens"`
}

// Connection configures one MCP server.
type Connection struct {
	Transport      string            `mapstructure:"transport" doc:"http, sse, stdio, local: Go functions of the worker, or postgres: a database"`
	URL            string            `mapstructure:"url" kind:"url" doc:"URL of an MCP server, or postgres://USER@HOST:PORT/DATABASE; a database's certificate is verified unless the URL sets another sslmode"`
	Password       string            `mapstructure:"password" kind:"secret" doc:"password of a database's user; ${NAME} is a variable"`
	Headers        map[string]string `mapstructure:"headers" doc:"headers of every call; ${NAME} is a variable"`
	Command        string            `mapstructure:"command" doc:"program of a stdio server"`
	Args           []string          `mapstructure:"args" doc:"its arguments"`
	Env            map[string]string `mapstructure:"env" doc:"its environment; ${NAME} is a variable"`
	Dir            string            `mapstructure:"dir" doc:"its working directory"`
	Timeout        time.Duration     `mapstructure:"timeout" unit:"1s" doc:"timeout of one call"`
	ConnectTimeout time.Duration     `mapstructure:"connect_timeout" unit:"1s" doc:"timeout for connecting and listing tools"`
	Elicitation    time.Duration     `mapstructure:"elicitation_timeout" unit:"1s" max:"24h" doc:"total time that a server (of a protocol up to 2025-11-25) waits for people's answers during one call; default: 10m"`
	Sampling       int               `mapstructure:"sampling_tokens" max:"1000000" doc:"maximum tokens of an answer of the run's model that the server asks for (sampling), within the run's budget; default: it may not ask"`
	Roots          []string          `mapstructure:"roots" doc:"roots that a server gets if it asks for them: file URIs, as file:///folder or NAME=file:///folder; default: it may not ask"`
	Retry          string            `mapstructure:"retry" oneof:"never,ask,always" doc:"whether to repeat a call whose outcome is unknown; default: only if the tool is declared read-only or idempotent, otherwise the model is notified; always: for tools that are safe to repeat and servers that honour the idempotency key; never; ask: a person decides about calls that the default would not repeat"`
	Session        string            `mapstructure:"session" oneof:"run" doc:"run: each root run has its own session with the server; default: all runs of a tenant share one"`
	Stream         bool              `mapstructure:"session_stream" default:"false" doc:"true: open the session's stream (GET) during calls, for servers of protocols up to 2025-11-25 that send their requests there; servers that expect it to stay open, such as Playwright's, end the session when it closes"`
	Resources      bool              `mapstructure:"resources" default:"false" doc:"true: models may read the resources that results of its tools link to, with the tool read_resource"`
	CAFile         string            `mapstructure:"ca_file" doc:"certificates to trust"`
	CertFile       string            `mapstructure:"cert_file" doc:"certificate of this client"`
	KeyFile        string            `mapstructure:"key_file" doc:"its key"`
	Proxy          string            `mapstructure:"proxy" kind:"url" doc:"URL of a proxy"`
	OAuth          string            `mapstructure:"oauth" oneof:"login,client" doc:"source of tokens; login: a person runs worker login NAME once; client: the worker's own credentials at the authorization server"`
	ClientID       string            `mapstructure:"oauth_client_id" doc:"id of a client registered at the authorization server; default for a login: a client is registered automatically"`
	ClientSecret   string            `mapstructure:"oauth_client_secret" kind:"secret" doc:"its secret; ${NAME} is a variable"`
	ClientKeyFile  string            `mapstructure:"oauth_key_file" doc:"its private key, EC or RSA, instead of a secret"`
	ClientURL      string            `mapstructure:"oauth_client_url" kind:"url" doc:"URL of the client's metadata, used if the authorization server supports it"`
	Scopes         []string          `mapstructure:"oauth_scopes" doc:"scopes to request; default: those that the server advertises"`
}

// Activity configures a tool that is an activity of another worker.
type Activity struct {
	TaskQueue        string        `mapstructure:"task_queue" doc:"task queue of the other worker, which implements the tool NAME as an activity"`
	Activity         string        `mapstructure:"activity" doc:"activity type on that worker; default: NAME"`
	Description      string        `mapstructure:"description" doc:"description of the tool for models"`
	Schema           string        `mapstructure:"schema" doc:"JSON Schema of its arguments object, as JSON; default: any object"`
	StartTimeout     time.Duration `mapstructure:"start_timeout" unit:"1s" max:"277h" doc:"how long a call waits for that worker to start it; default: 1m"`
	Timeout          time.Duration `mapstructure:"timeout" unit:"1s" max:"277h" doc:"timeout of one attempt"`
	HeartbeatTimeout time.Duration `mapstructure:"heartbeat_timeout" unit:"1s" max:"277h" doc:"heartbeat timeout; default: none"`
	Attempts         int           `mapstructure:"attempts" max:"1000000" doc:"maximum attempts of one call; default: 3"`
	Retry            string        `mapstructure:"retry" oneof:"never" doc:"never: a call whose outcome is unknown is not repeated"`
	IdempotencyKey   bool          `mapstructure:"idempotency_key" default:"false" doc:"true: the call's idempotency key is the second argument, {\"idempotency_key\": ...}"`
}

// Secret is a value that flows name.
type Secret struct {
	Value string   `mapstructure:"value" kind:"secret" doc:"value that flows refer to as NAME and never contain; ${VARIABLE} is a variable, or the file given by VARIABLE_FILE. Certificates and keys are PEM, or the path of a PEM file"`
	Hosts []string `mapstructure:"hosts" doc:"hosts to which it may be sent: HOST or HOST:PORT over https, or http://HOST:PORT"`
}

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

// ConfirmRule defines which tools need a person's confirmation.
type ConfirmRule struct {
	Tools       []string      `mapstructure:"tools" doc:"names of tools whose calls need a person's confirmation; * matches any characters"`
	Connections []string      `mapstructure:"connections" doc:"ids of the connections of these tools; default: all"`
	Timeout     time.Duration `mapstructure:"timeout" unit:"1s" max:"87600h" doc:"how long a call waits for an answer before it is refused; default: unlimited"`
	Never       bool          `mapstructure:"never" default:"false" doc:"true: these tools need no confirmation, whatever other rules say"`
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
