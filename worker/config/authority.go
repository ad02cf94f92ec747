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

// Policy is what the operator lets some runs reach; see [contract.Policy].
type Policy struct {
	Principals       []string `mapstructure:"principals" doc:"names of the principals that start the runs; * matches any characters, here and below; the first matching policy in the order of NAME applies, and if there are policies, a run that matches none is refused; default: all"`
	Tenants          []string `mapstructure:"tenants" doc:"tenants of those principals; default: all"`
	Flows            []string `mapstructure:"flows" doc:"names of flows in flows.dir, not of those that clients send; default: all"`
	Connections      []string `mapstructure:"connections" doc:"ids of connections, or ID/TOOL, that the runs may use; tool:NAME is a tool without a connection; default: all"`
	Hosts            []string `mapstructure:"hosts" doc:"hosts of URLs that flows may supply; default: all"`
	Models           []string `mapstructure:"models" doc:"provider/model that the runs may use; default: all"`
	AgentConnections []string `mapstructure:"agent_connections" doc:"ids of connections that agents defined by models may bind, in addition to those of the node that defines them; default: none"`
	AgentHosts       []string `mapstructure:"agent_hosts" doc:"hosts of URLs that such agents may supply; default: none"`
	Clients          []string `mapstructure:"clients" oneof:"model,script,limits,state,connections" doc:"with flows.accept named: what clients may send in addition to the name of a flow and its input; default: nothing"`
	Scripts          bool     `mapstructure:"scripts" default:"false" doc:"true: clients may supply scripts for the model script"`
	Programs         bool     `mapstructure:"programs" default:"false" doc:"true: the runs may start programs of agents.trusted"`
}

// PolicyList lists the policies, sorted by name.
func (c *Config) PolicyList() []contract.Policy {
	var out []contract.Policy
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		p := c.Policies[name]
		out = append(out, contract.Policy{Name: name, Principals: p.Principals, Tenants: p.Tenants, Flows: p.Flows, Connections: p.Connections,
			Hosts: p.Hosts, Models: p.Models, Agents: contract.AgentReach{Connections: p.AgentConnections, Hosts: p.AgentHosts}, Clients: p.Clients, Scripts: p.Scripts, Programs: p.Programs})
	}
	return out
}

// Scripts reports whether clients may script models where there are no policies.
func (c *Config) Scripts() bool { return c.Flows.Scripts || contract.Scripted(c.Model) }

// checkPolicies rejects policies for connections that there are not.
func (l *loader) checkPolicies() {
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Policies)) {
		p := l.cfg.Policies[name]
		for key, ids := range map[string][]string{"connections": p.Connections, "agent_connections": p.AgentConnections} {
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
