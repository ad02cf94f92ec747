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
