package contract

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"weft/workflows/plan"
)

// Grant is what a root run and everything below it may reach. A worker makes it when the run starts: what the flow
// declares, as far as the policy allows it. It seals it with a key that only workers have. Nothing below has more.
type Grant struct {
	// Root is the workflow id and the first run id of the run for which the grant was made.
	Root Run `json:"root"`
	// Principal is who started the run; Flow is the name of a flow of the worker's folder, empty of one that the client brought.
	// They decide on the policy.
	Principal *Principal `json:"principal,omitempty"`
	Flow      string     `json:"flow,omitempty"`
	// Connections are what the flow declares of connections.
	Connections []plan.Reach `json:"connections,omitempty"`
	// Agents is what the policy gives to agents that a model defines.
	Agents AgentReach `json:"agents,omitzero"`
	// Models are provider/model of all that the flow asks.
	Models []string `json:"models,omitempty"`
	// Scripts allows models that a client scripts; Programs allows programs of trusted folders.
	Scripts  bool `json:"scripts,omitempty"`
	Programs bool `json:"programs,omitempty"`
	// Key is the id of the key that sealed the grant; Seal is the HMAC-SHA256 of all above, in base64.
	Key  string `json:"key"`
	Seal string `json:"seal"`
	// Within, if set, is what an agent that a model defined may use of the connections. It is not sealed: what is above a
	// run gives it.
	Within *[]plan.Reach `json:"within,omitempty"`
}

// SealKey is a key that seals grants.
type SealKey struct {
	ID     string
	Secret []byte
}

// SealWith seals the grant by the first of the keys.
func (g *Grant) SealWith(keys []SealKey) {
	if len(keys) > 0 {
		g.Key = keys[0].ID
		g.Seal = g.sum(keys[0].Secret)
	}
}

// Sealed reports whether one of the keys sealed the grant as it is.
func (g *Grant) Sealed(keys []SealKey) bool {
	i := slices.IndexFunc(keys, func(k SealKey) bool { return k.ID == g.Key })
	return i >= 0 && hmac.Equal([]byte(g.Seal), []byte(g.sum(keys[i].Secret)))
}

func (g *Grant) sum(secret []byte) string {
	own := *g
	own.Seal, own.Within = "", nil
	raw, _ := json.Marshal(own) // strings and booleans alone
	mac := hmac.New(sha256.New, secret)
	mac.Write(raw)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

// Narrow is the grant for an agent that a model defines, which has of it what the defining node binds. It is nil of nil.
func (g *Grant) Narrow(bound []plan.Reach) *Grant {
	if g == nil {
		return nil
	}
	own := *g
	within := plan.Intersect(bound, g.Connections)
	if g.Within != nil {
		within = plan.Intersect(within, *g.Within)
	}
	own.Within = &within
	return &own
}

// Covers reports whether the grant has a tool of a connection; the empty tool is any.
func (g *Grant) Covers(id, address, tool string) bool {
	if g.Within == nil {
		return plan.Covers(g.Connections, id, address, tool)
	}
	list, n := g.Agents.Connections, id
	if address != "" {
		list, n = g.Agents.Hosts, host(address)
	}
	return plan.Covers(*g.Within, id, address, tool) || n != "" && slices.ContainsFunc(list, func(p string) bool { return plan.Matches(p, n) })
}

// MissingModel is the first of a list of models, separated by commas, that the grant does not have; empty if it has all.
func (g *Grant) MissingModel(models string) string {
	for _, m := range plan.SplitModels(models) {
		if !slices.Contains(g.Models, m) {
			return m
		}
	}
	return ""
}

// Policy is what an operator lets runs reach. An empty list allows everything that the worker is configured for. The tags are those
// of worker/config; Clients are names of [RunInput.Brings].
type Policy struct {
	// Name is the operator's.
	Name        string     `mapstructure:"-"`
	Principals  []string   `mapstructure:"principals" doc:"names of the principals that start the runs; * matches any characters, here and below; the first matching policy in the order of NAME applies, and if there are policies, a run that matches none is refused; default: all"`
	Tenants     []string   `mapstructure:"tenants" doc:"tenants of those principals; default: all"`
	Flows       []string   `mapstructure:"flows" doc:"names of flows in flows.dir, not of those that clients send; default: all"`
	Connections []string   `mapstructure:"connections" doc:"ids of connections, or ID/TOOL, that the runs may use; tool:NAME is a tool without a connection; default: all"`
	Hosts       []string   `mapstructure:"hosts" doc:"hosts of URLs that flows may supply; default: all"`
	Models      []string   `mapstructure:"models" doc:"provider/model that the runs may use; default: all"`
	Agents      AgentReach `mapstructure:",squash"`
	Clients     []string   `mapstructure:"clients" oneof:"model,script,limits,state,connections" doc:"with flows.accept named: what clients may send in addition to the name of a flow and its input; default: nothing"`
	Scripts     bool       `mapstructure:"scripts" default:"false" doc:"true: clients may supply scripts for the model script"`
	Programs    bool       `mapstructure:"programs" default:"false" doc:"true: the runs may start programs of agents.trusted"`
}

// PolicyFor is the first policy that is for a run, nil where there are none. Where none of them is for it, that is a
// failure of class denied.
func PolicyFor(policies []Policy, p *Principal, flow string) (*Policy, error) {
	if len(policies) == 0 {
		return nil, nil
	}
	who := p.Value()
	for i := range policies {
		if k := &policies[i]; plan.MatchesAny(k.Principals, who.Name) && plan.MatchesAny(k.Tenants, who.Tenant) && plan.MatchesAny(k.Flows, flow) {
			return k, nil
		}
	}
	if flow == "" {
		return nil, &Failure{Class: ClassDenied, Text: fmt.Sprintf("no policy of the worker covers a flow that %s supplies", p),
			Remedy: fmt.Sprintf("start a flow of the worker's folder by its name; or set in the worker's weft.yaml: policies: {NAME: {principals: [%q]}}", who.Name)}
	}
	return nil, &Failure{Class: ClassDenied, Text: fmt.Sprintf("no policy of the worker is for the flow %q, started by %s", flow, p),
		Remedy: fmt.Sprintf("to allow it set in the worker's weft.yaml: policies: {NAME: {flows: [%q]}}", flow)}
}

// AgentReach is what agents may bind that a model defines: patterns of ids of the worker's connections, and of hosts.
type AgentReach struct {
	Connections []string `json:"connections,omitempty" mapstructure:"agent_connections" doc:"ids of connections that agents defined by models may bind, in addition to those of the node that defines them; default: none"`
	Hosts       []string `json:"hosts,omitempty" mapstructure:"agent_hosts" doc:"hosts of URLs that such agents may supply; default: none"`
}

// Refuses is the setting that would let a run use a tool of a connection; empty if the policy does. Commands are
// allowed by a setting of their own.
func (p *Policy) Refuses(id, address, tool string) string {
	list, what, n := p.Connections, "connections", id
	if address != "" {
		if list, what, n = p.Hosts, "hosts", host(address); n == "" {
			return ""
		}
	}
	if plan.MatchesAny(list, n) || address == "" && tool != "" && plan.MatchesAny(list, n+"/"+tool) {
		return ""
	}
	return fmt.Sprintf("policies: {%s: {%s: [%q]}}", p.Name, what, n)
}

// Allowed is what the policy allows of some connections.
func (p *Policy) Allowed(list []plan.Reach) []plan.Reach {
	out := slices.Clone(list)
	for i := range out {
		r := &out[i]
		r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t string) bool { return p.Refuses(r.ID, r.Address, t) != "" })
	}
	return slices.DeleteFunc(out, func(r plan.Reach) bool { return len(r.Tools) == 0 && p.Refuses(r.ID, r.Address, "*") != "" })
}

// HasModel reports whether the policy allows a model, provider/model.
func (p *Policy) HasModel(model string) bool { return plan.MatchesAny(p.Models, model) }

// host is the host of a URL; empty for a command.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
