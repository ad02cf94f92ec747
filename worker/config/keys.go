package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/worker/codec"
)

// NoKey is the value of codec.key with which a worker only decrypts.
const NoKey = "none"

// isSecret reports whether a variable is one of those that hold secrets by default, itself or
// as a file.
func isSecret(name string) bool {
	return slices.Contains([]string{"WEFT_SERVE_TOKENS", "WEFT_CODEC_KEYS", "WEFT_CODEC_TOKENS", "WEFT_SEAL_KEYS"}, strings.TrimSuffix(name, "_FILE"))
}

// keyID is the syntax of a key's id, which is stored in plain text with each payload.
var keyID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// OpenCodec returns the codec of the settings; without settings, it changes nothing. The error is [Problems]
// and contains no key.
func (c *Config) OpenCodec() (*codec.Codec, error) {
	keys, problems := c.keys("codec.keys_env", c.Codec.KeysEnv)
	s := codec.Settings{Compress: c.Codec.Compress, Encrypt: c.Codec.Key, Keys: keys, MaxBytes: c.Store.MaxPayload * 4}
	switch {
	case len(problems) > 0:
		return nil, problems
	case len(keys) > 0 && c.Codec.Key == "":
		return nil, Problems{fmt.Sprintf("%s contains keys but codec.key is not set; set codec.key (WEFT_CODEC_KEY) to the id of the key that encrypts, or to %s to only decrypt", c.Codec.KeysEnv, NoKey)}
	case c.Codec.Key == NoKey:
		s.Encrypt = ""
	}
	out, err := codec.Open(s)
	if err != nil {
		return nil, Problems{fmt.Sprintf("codec.key and %s: %v; use ID:KEY, with a KEY from openssl rand -base64 32", c.Codec.KeysEnv, err)}
	}
	return out, nil
}

// keys reads the keys of a variable, which the setting key names.
func (c *Config) keys(key, variable string) ([]codec.Key, Problems) {
	const form = "ID:KEY, with a KEY from openssl rand -base64 32"
	return readEntries(c, key, variable, "key", form, func(id, text string) (codec.Key, string) {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		switch {
		case !keyID.MatchString(id):
			return codec.Key{}, "has no id of at most 64 letters, digits and ._- before a colon"
		case id == NoKey:
			return codec.Key{}, "has the id " + NoKey + ", which is reserved"
		case err != nil:
			return codec.Key{}, "has a key that is not base64"
		case len(secret) != codec.KeyBytes:
			return codec.Key{}, fmt.Sprintf("has a key of %d bytes, expected %d", len(secret), codec.KeyBytes)
		}
		return codec.Key{ID: id, Secret: secret}, ""
	})
}

// CodecTokens returns the tokens of the codec server; none if the variable is not set. The error
// is [Problems] and contains no token.
func (c *Config) CodecTokens() ([]Token, error) {
	return c.tokens("codec.tokens_env", c.Codec.TokensEnv)
}

// codecShown lists the configured keys by their ids.
func (c *Config) codecShown() []Shown {
	keys, problems := c.keys("codec.keys_env", c.Codec.KeysEnv)
	if len(keys) == 0 || len(problems) > 0 {
		return nil // errors of secrets are reported where they are used
	}
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return []Shown{{"codec keys", set + ": " + strings.Join(ids, ","), c.secretOrigin(c.Codec.KeysEnv)}}
}

// Authority holds the settings of the keys that seal what runs may reach.
type Authority struct {
	KeysEnv string `mapstructure:"keys_env" default:"WEFT_SEAL_KEYS" doc:"variable, or NAME_FILE, with the keys that seal the grants of runs, the same on all workers: ID:KEY, separated by commas or line breaks; the first seals, the others verify older runs; a KEY is 32 bytes in base64"`
}

// PolicyList lists the policies, sorted by name.
func (c *Config) PolicyList() []contract.Policy {
	var out []contract.Policy
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		p := c.Policies[name]
		p.Name = name
		out = append(out, p)
	}
	return out
}

// Scripts reports whether clients may script models where there are no policies.
func (c *Config) Scripts() bool { return c.Flows.Scripts || contract.Scripted(c.Model) }

func (l *loader) checkPolicies() {
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Policies)) {
		p := l.cfg.Policies[name]
		for key, ids := range map[string][]string{"connections": p.Connections, "agent_connections": p.Agents.Connections} {
			for _, id := range ids {
				id, _, _ = strings.Cut(id, "/")
				if _, ok := l.cfg.Connections[id]; !ok && !strings.Contains(id, "*") && !strings.HasPrefix(id, "tool:") {
					l.check("policies.%s.%s: unknown connection %q; add it to connections, or use one of: %s", name, key, id, strings.Join(slices.Sorted(maps.Keys(l.cfg.Connections)), ", "))
				}
			}
		}
	}
}

// SealKeys returns the keys that seal what runs may reach. The error is [Problems] and contains no key.
func (c *Config) SealKeys() ([]contract.SealKey, error) {
	keys, problems := c.keys("authority.keys_env", c.Authority.KeysEnv)
	if len(keys) == 0 && len(problems) == 0 && c.sealKey != nil {
		keys = []codec.Key{*c.sealKey}
	}
	var out []contract.SealKey
	for _, k := range keys {
		if slices.ContainsFunc(out, func(o contract.SealKey) bool { return o.ID == k.ID }) {
			problems = append(problems, fmt.Sprintf("authority.keys_env: %s has a duplicate key id %s; remove one", c.Authority.KeysEnv, k.ID))
		}
		out = append(out, contract.SealKey(k))
	}
	if len(out) == 0 && len(problems) == 0 {
		problems = Problems{fmt.Sprintf("authority.keys_env: %s is not set, so the grants of runs cannot be sealed; set it, the same on all workers, to k1:KEY, with a KEY from openssl rand -base64 32", c.Authority.KeysEnv)}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
