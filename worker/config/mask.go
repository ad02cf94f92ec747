package config

import (
	"os"
	"strings"

	"go.temporal.io/sdk/contrib/envconfig"

	"weft/activities/mask"
)

// Mask returns a mask of every secret of this process: those of the settings, of Temporal's own
// settings, and those that it receives while it runs.
func (c *Config) Mask() *mask.Mask {
	c.masked.Do(func() {
		// Errors of settings are reported where they are used.
		models, _ := c.LLM()
		tools, _ := c.Tool()
		c.mask.Add(append(models.Known(), tools.Known()...)...)
		variables := []string{c.Store.SecretEnv, sessionVariable, c.Codec.KeysEnv, c.Codec.TokensEnv, c.Serve.TokensEnv}
		for _, w := range c.Webhooks {
			variables = append(variables, w.SecretEnv)
		}
		for _, name := range variables {
			value, err := c.secret(name)
			if err != nil || name == "" {
				continue
			}
			for _, entry := range entries(value) {
				_, behind, _ := strings.Cut(entry, ":") // NAME:TOKEN
				c.mask.Add(append(strings.Fields(entry), strings.TrimSpace(behind))...)
			}
		}
		c.mask.Add(c.temporalSecrets()...)
		c.runtime.follow(c.mask)
	})
	return c.mask
}

func (c *Config) temporalSecrets() []string {
	p, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{EnvLookup: c.env})
	if err != nil {
		return nil
	}
	out := []string{p.APIKey}
	for name, value := range p.GRPCMeta {
		out = append(out, mask.Named(name, value))
	}
	if p.Codec != nil {
		out = append(out, p.Codec.Auth)
	}
	if p.TLS != nil {
		key := string(p.TLS.ClientKeyData)
		if raw, err := os.ReadFile(p.TLS.ClientKeyPath); err == nil && key == "" {
			key = string(raw)
		}
		out = append(out, key)
	}
	return out
}
