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

// Grant is what a root run and its descendants may access. A worker creates it when the run starts: what the flow
// declares, as far as the policy allows. It is sealed with a key that only workers have. No descendant has a wider grant.
type Grant struct {
	// Root is the workflow id and the first run id of the run that the grant was created for.
	Root Run `json:"root"`
	// Principal is who started the run; Flow is the name of a flow in the worker's folder, empty if the client supplied
	// the flow. They determine the policy.
	Principal *Principal `json:"principal,omitempty"`
	Flow      string     `json:"flow,omitempty"`
	// Connections are what the flow declares that it uses of connections.
	Connections []plan.Reach `json:"connections,omitempty"`
	// Agents is what the policy grants to agents that a model defines.
	Agents AgentReach `json:"agents,omitzero"`
	// Models are all models that the flow uses, as provider/model.
	Models []string `json:"models,omitempty"`
	// Scripts allows models scripted by a client; Programs allows programs of trusted folders.
	Scripts  bool `json:"scripts,omitempty"`
	Programs bool `json:"programs,omitempty"`
	// Key is the id of the key that sealed the grant; Seal is the HMAC-SHA256 of the fields above, in base64.
	Key  string `json:"key"`
	Seal string `json:"seal"`
	// Within, if set, is what an agent defined by a model may use of the connections. It is not sealed: the parent run
	// sets it.
	Within *[]plan.Reach `json:"within,omitempty"`
}

// SealKey is a key for sealing grants.
type SealKey struct {
	ID     string
	Secret []byte
}

// SealWith seals the grant with the first of the keys.
func (g *Grant) SealWith(keys []SealKey) {
	if len(keys) > 0 {
		g.Key = keys[0].ID
		g.Seal = g.sum(keys[0].Secret)
	}
}

// Sealed reports whether the grant has a valid seal by one of the keys.
func (g *Grant) Sealed(keys []SealKey) bool {
	i := slices.IndexFunc(keys, func(k SealKey) bool { return k.ID == g.Key })
	return i >= 0 && hmac.Equal([]byte(g.Seal), []byte(g.sum(keys[i].Secret)))
}

func (g *Grant) sum(secret []byte) string {
	own := *g
	own.Seal, own.Within = "", nil
	raw, _ := json.Marshal(own) // cannot fail: strings and booleans only
	mac := hmac.New(sha256.New, secret)
	mac.Write(raw)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

// Narrow returns the grant for an agent defined by a model, which is limited to what the defining node may use. It
// returns nil if g is nil.
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

// Covers reports whether the grant includes a tool of a connection; an empty tool means any tool.
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

// MissingModel returns the first model of a comma-separated list that the grant does not include, or "".
func (g *Grant) MissingModel(models string) string {
	for _, m := range plan.SplitModels(models) {
		if !slices.Contains(g.Models, m) {
			return m
		}
	}
	return ""
}

// Policy is what an operator allows runs to access. An empty list allows everything that the worker is configured for.
// The tags are those of worker/config; Clients are elements of [RunInput.Supplies].
type Policy struct {
	// Name is the policy's name in the configuration.
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

// PolicyFor returns the first policy that applies to a run, or nil if there are no policies. If there are some but none
// applies, it fails with class denied.
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
		return nil, &Failure{Class: ClassDenied, Text: fmt.Sprintf("no policy of the worker applies to a flow supplied by %s", p),
			Remedy: fmt.Sprintf("start a flow in the worker's folder by name, or set in the worker's weft.yaml: policies: {NAME: {principals: [%q]}}", who.Name)}
	}
	return nil, &Failure{Class: ClassDenied, Text: fmt.Sprintf("no policy of the worker applies to the flow %q, started by %s", flow, p),
		Remedy: fmt.Sprintf("to allow it, set in the worker's weft.yaml: policies: {NAME: {flows: [%q]}}", flow)}
}

// AgentReach is what agents defined by a model may use: patterns of ids of the worker's connections, and of hosts.
type AgentReach struct {
	Connections []string `json:"connections,omitempty" mapstructure:"agent_connections" doc:"ids of connections that agents defined by models may bind, in addition to those of the node that defines them; default: none"`
	Hosts       []string `json:"hosts,omitempty" mapstructure:"agent_hosts" doc:"hosts of URLs that such agents may supply; default: none"`
}

// MissingSetting returns the setting that would allow a run to use a tool of a connection, or "" if the policy already does.
// Commands are allowed by a separate setting.
func (p *Policy) MissingSetting(id, address, tool string) string {
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

// Allowed returns the part of list that the policy allows.
func (p *Policy) Allowed(list []plan.Reach) []plan.Reach {
	out := slices.Clone(list)
	for i := range out {
		r := &out[i]
		r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t string) bool { return p.MissingSetting(r.ID, r.Address, t) != "" })
	}
	return slices.DeleteFunc(out, func(r plan.Reach) bool { return len(r.Tools) == 0 && p.MissingSetting(r.ID, r.Address, "*") != "" })
}

// HasModel reports whether the policy allows a model, given as provider/model.
func (p *Policy) HasModel(model string) bool { return plan.MatchesAny(p.Models, model) }

// host returns the host of a URL, or "" for a command.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
