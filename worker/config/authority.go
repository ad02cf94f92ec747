package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/worker/codec"
)

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
