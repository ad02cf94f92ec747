package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/sdk/contrib/envconfig"

	"weft/activities/mask"
)

// secret reads a variable NAME, or the file that NAME_FILE names. It returns "" if neither is set. Errors
// never contain the value.
func (c *Config) secret(name string) (string, error) {
	value, file := c.variable(name), c.variable(name+"_FILE")
	switch {
	case value != "" && file != "":
		return "", fmt.Errorf("both %s and %s_FILE are set; unset one of them", name, name)
	case file == "":
		return strings.TrimSpace(value), nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s_FILE: %w", name, err)
	}
	if value = strings.TrimSpace(string(raw)); value == "" {
		return "", fmt.Errorf("%s_FILE refers to %s, which is empty; write the value to it, or unset the variable", name, file)
	}
	return value, nil
}

// has reports whether a secret is set, as a variable or as a file.
func (c *Config) has(name string) bool {
	return c.variable(name) != "" || c.variable(name+"_FILE") != ""
}

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

// expand replaces ${NAME} by the variable's value in all values of a map. at is the setting, for
// messages. A value with a missing variable is reduced to its other variables: only they are secret.
func (c *Config) expand(at string, in map[string]string, problems *Problems) map[string]string {
	out := make(map[string]string, len(in))
	for _, key := range slices.Sorted(maps.Keys(in)) {
		given, before := "", len(*problems)
		out[key] = reference.ReplaceAllStringFunc(in[key], func(ref string) string {
			name := ref[2 : len(ref)-1]
			value, err := c.secret(name)
			switch {
			case err != nil:
				*problems = append(*problems, fmt.Sprintf("%s.%s: %v", at, key, err))
			case value == "":
				*problems = append(*problems, fmt.Sprintf("%s.%s: the environment variable %s is not set, nor is %s_FILE", at, key, name, name))
			}
			if mask.IsSecretName(key) || mask.IsSecretName(name) {
				c.mask.Add(value)
			}
			given += value
			return value
		})
		if len(*problems) > before {
			out[key] = given
		}
	}
	return out
}

// expandText is expand for one setting below at.
func (c *Config) expandText(at, key, text string, problems *Problems) string {
	return c.expand(at, map[string]string{key: text}, problems)[key]
}

func (c *Config) secretOrigin(name string) string {
	if c.variable(name+"_FILE") != "" {
		name += "_FILE"
	}
	return "variable " + name
}

func entries(raw string) []string {
	return strings.FieldsFunc(raw, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' })
}

// readEntries reads the secrets of a variable, each NAME:VALUE; key is the setting that names the variable,
// form how an entry is written. parse says what is wrong with one, without its value; an entry without a
// colon has no name.
func readEntries[T any](c *Config, key, variable, noun, form string, parse func(name, value string) (T, string)) (out []T, problems Problems) {
	raw, err := c.secret(variable)
	if err != nil {
		return nil, Problems{fmt.Sprintf("%s: %v", key, err)}
	}
	fields := entries(raw)
	if raw != "" && len(fields) == 0 {
		return nil, Problems{fmt.Sprintf("%s: %s contains no %s; write %s", key, variable, noun, form)}
	}
	for i, field := range fields {
		name, value, ok := strings.Cut(strings.TrimSpace(field), ":")
		if !ok {
			name = ""
		}
		entry, wrong := parse(strings.TrimSpace(name), value)
		if wrong != "" {
			problems = append(problems, fmt.Sprintf("%s: entry %d of %s %s; write %s", key, i+1, variable, wrong, form))
		}
		out = append(out, entry)
	}
	return out, problems
}

// Mask returns a mask of every secret of this process: those of the settings, of Temporal's own
// settings, and those that it receives while it runs.
func (c *Config) Mask() *mask.Mask {
	c.masked.Do(func() {
		// Errors of settings are reported where they are used.
		models, _ := c.LLM()
		tools, _ := c.Tool()
		c.mask.Add(append(models.Secrets(), tools.SecretValues()...)...)
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
