package config

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"weft/activities/address"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/activities/webhook"
)

// smallModel is the default if OpenAI's key is set.
const smallModel = "openai/gpt-5-mini"

// ollama is the provider of a local Ollama; ollamaHost is the variable that names it, and
// ollamaBaseURL the one of flows that come from Koog.
const (
	ollama        = "ollama"
	ollamaHost    = "OLLAMA_HOST"
	ollamaBaseURL = "OLLAMA_BASE_URL"
)

// ollamaAddress returns Ollama's address in the environment, and the variable; both are "" if none is
// set.
func (c *Config) ollamaAddress() (address, variable string) {
	for _, name := range []string{ollamaHost, ollamaBaseURL} {
		if v := c.variable(name); v != "" {
			return v, name
		}
	}
	return "", ""
}

// LLM returns the settings of models, with keys. Default is only the configured model, see
// [Config.DefaultModel]. A missing key is not an error: it affects only the flows that need it. The error
// is of type [Problems]; the settings returned with it are incomplete.
func (c *Config) LLM() (llm.Settings, error) {
	var problems Problems
	out := llm.Settings{Default: c.Model, Prices: c.Prices, Providers: map[string]llm.ProviderSettings{}, Credentials: c.runtime.Model, Mask: c.mask}
	for _, row := range llm.Providers {
		if row.KeyName == "" {
			continue
		}
		if _, ok := c.Providers[row.Name]; !ok {
			out.Providers[row.Name] = c.provider(row.Name, unconfigured, &problems)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		out.Providers[name] = c.provider(name, c.Providers[name], &problems)
	}
	return out, problems.err()
}

// largestAnswer is how many bytes an answer of a model has by default: with a store twice as many as its text may have, 0
// for the default of package llm.
func (c *Config) largestAnswer() int {
	if most := 2 * c.Store.PayloadLimit(); most > llm.DefaultMaxBody {
		return most
	}
	return 0
}

func (c *Config) provider(name string, p Provider, problems *Problems) llm.ProviderSettings {
	kind, keyName, other := cmp.Or(p.Kind, name), p.KeyEnv, ""
	for _, row := range llm.Providers {
		if row.Name == kind && keyName == "" {
			keyName, other = row.KeyName, row.OtherKeyName
		}
	}
	if other != "" && !c.has(keyName) && c.has(other) {
		keyName = other
	}
	out := llm.ProviderSettings{
		Kind: p.Kind, BaseURL: p.BaseURL, API: p.API, KeyName: keyName, Proxy: p.Proxy, Unary: !p.Stream, NoCache: !p.PromptCache, NoImages: !p.Images, TextCalls: p.TextCalls,
		RequestsPerMinute: p.RequestsPerMinute, TokensPerMinute: p.TokensPerMinute, Concurrent: p.Concurrent,
		Region: p.Region, Compartment: p.Compartment, Auth: p.Auth, AuthFile: p.AuthFile, AuthProfile: p.AuthProfile,
		FirstTokenTimeout: p.FirstTokenTimeout, IdleTimeout: p.IdleTimeout, MaxBodyBytes: int64(cmp.Or(p.MaxBodyBytes, c.largestAnswer())), CutRetries: &p.CutRetries,
		Headers: c.expand("providers."+name+".headers", p.Headers, problems),
	}
	if keyName != "" {
		key, err := c.secret(keyName)
		if err != nil {
			*problems = append(*problems, fmt.Sprintf("providers.%s: %v", name, err))
		}
		out.Key = key
	}
	c.awsSettings(name, kind, p, &out, problems)
	if home := c.variable("HOME"); kind == "oci" && out.AuthFile == "" && home != "" {
		out.AuthFile = filepath.Join(home, ".oci", "config")
	}
	if kind == ollama && out.BaseURL == "" {
		out.BaseURL, _ = c.ollamaAddress()
	}
	return out
}

// awsSettings sets the region and keys of Bedrock as AWS' own variables say. The settings take precedence.
func (c *Config) awsSettings(name, kind string, p Provider, out *llm.ProviderSettings, problems *Problems) {
	if kind != "bedrock" {
		return
	}
	value := func(variable string) string {
		v, err := c.secret(variable)
		if err != nil {
			*problems = append(*problems, fmt.Sprintf("providers.%s: %v", name, err))
		}
		return v
	}
	if out.Region == "" {
		out.Region = cmp.Or(value("AWS_REGION"), value("AWS_DEFAULT_REGION"))
	}
	if p.KeyEnv != "" || out.Key != "" {
		return
	}
	out.AWS = llm.AWSKeys{ID: value("AWS_ACCESS_KEY_ID"), Secret: value("AWS_SECRET_ACCESS_KEY"), Token: value("AWS_SESSION_TOKEN")}
	if out.AWS.ID != "" && out.AWS.Secret != "" {
		out.KeyName = "AWS_ACCESS_KEY_ID"
	}
}

// DefaultModel returns the model of flows and runs that name none: the configured one, else a small one
// of OpenAI if its key is set, else one of the Ollama that OLLAMA_HOST or OLLAMA_BASE_URL names. It is ""
// without any of these. The error is that of Ollama.
func (c *Config) DefaultModel(ctx context.Context) (string, error) {
	if c.Model != "" {
		return c.Model, nil
	}
	settings, err := c.LLM()
	if err != nil {
		return "", err
	}
	if settings.Providers["openai"].Key != "" {
		return smallModel, nil
	}
	host, variable := c.ollamaAddress()
	if host == "" {
		return "", nil
	}
	names, err := llm.OllamaModels(ctx, settings.Providers[ollama].BaseURL)
	if err != nil {
		return "", fmt.Errorf("%s is set, but its models cannot be listed: %w", variable, err)
	}
	if len(names) == 0 {
		return "", fmt.Errorf("the Ollama of %s has no models; pull one with: ollama pull MODEL", variable)
	}
	return ollama + "/" + names[0], nil
}

// Keys returns the names of the providers whose key is set, sorted.
func (c *Config) Keys() []string {
	settings, err := c.LLM()
	if err != nil {
		return nil
	}
	var out []string
	for name, p := range settings.Providers {
		if p.Key != "" || p.AWS.Secret != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// OpenTools opens the tools of the settings. The error is of type [Problems] where the settings are wrong.
func (c *Config) OpenTools() (*tool.Tools, error) {
	settings, err := c.Tool()
	if err != nil {
		return nil, err
	}
	return tool.Open(settings)
}

// Tool returns the settings of tools, with secrets. The error is of type [Problems]; the settings
// returned with it are incomplete.
func (c *Config) Tool() (tool.Settings, error) {
	var problems Problems
	out := tool.Settings{
		Connections: map[string]tool.Connection{}, Tools: c.Tools, Activities: c.Activities, Confirm: c.Confirm,
		Secrets: map[string]tool.Secret{}, SecretFor: c.runtime.Secret, Variables: map[string]tool.Secret{}, Mask: c.mask,
		AllowPrivate: c.AllowPrivate, AllowLoopback: c.AllowLoopback, AllowHosts: c.AllowHosts, AllowCommands: c.AllowCommands, AllowEnv: c.AllowEnv, AllowDirs: c.AllowDirs, Trusted: c.Agents.Trusted, BaseEnv: map[string]string{"PATH": c.variable("PATH"), "HOME": c.variable("HOME")},
	}
	if most := c.Store.PayloadLimit(); most > 0 {
		out.MaxResultBytes = most - contract.Envelope
	}
	if own, err := OwnCommands(c.env); c.author && err == nil {
		out.AllowCommand = func(c tool.Connection) bool { return own.Allowed(Command{c.Command, c.Args, c.Env, c.Dir}) }
	}
	for _, ref := range slices.Sorted(maps.Keys(c.Secrets)) {
		s := c.Secrets[ref]
		s.Value = c.expandText("secrets."+ref, "value", s.Value, &problems)
		out.Secrets[ref] = s
	}
	oauth := false
	for _, id := range slices.Sorted(maps.Keys(c.Connections)) {
		at, s := "connections."+id, c.Connections[id]
		oauth = oauth || s.OAuth != ""
		s.Headers, s.Env = c.expand(at+".headers", s.Headers, &problems), c.expand(at+".env", s.Env, &problems)
		s.Password = c.expandText(at, "password", s.Password, &problems)
		s.OAuthClientSecret = c.expandText(at, "oauth_client_secret", s.OAuthClientSecret, &problems)
		out.Connections[id] = s
	}
	if oauth {
		var err error
		if out.Logins, err = c.logins(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
		value, err := c.secret(name)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s.%s: %v", tool.SettingVariables, name, err))
		}
		out.Variables[name] = tool.Secret{Value: value, Hosts: c.Variables[name].Hosts}
	}
	return out, problems.err()
}

// Hooks opens the receivers of events, with their secrets. The error is of type [Problems] and
// contains no secret.
func (c *Config) Hooks() (*webhook.Hooks, error) {
	var problems Problems
	hooks := map[string]webhook.Hook{}
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks)) {
		w := c.Webhooks[name]
		secrets := ""
		if w.SecretEnv != "" {
			var err error
			if secrets, err = c.secret(w.SecretEnv); err != nil {
				problems = append(problems, fmt.Sprintf("webhooks.%s.secret_env: %v", name, err))
				continue
			}
		}
		hooks[name] = webhook.Hook{URL: w.URL, Secrets: strings.Fields(secrets), Events: w.Events,
			Control: address.New(address.Allowed{Private: w.AllowPrivate}, w.URL).Control}
	}
	out, wrong := webhook.Open(hooks)
	if problems = append(problems, wrong...); len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
