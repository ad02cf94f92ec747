package plan

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Source says where the parts of a flow were written. It travels beside the plan and
// is not part of its hash.
type Source struct {
	// File is the name under which the document was given, for messages only.
	File      string     `json:"file,omitempty"`
	Positions []Position `json:"positions,omitempty"`
}

// Position is the place of one part of a document.
type Position struct {
	// Path names the part, see [NodePath], [EdgePath], [ToolPath] and [AgentPath].
	Path string `json:"path"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// NodePath is the path of a node's declaration.
func NodePath(id string) string { return "nodes/" + id }

// EdgePath is the path of an edge's declaration. Edges are told apart by their index.
func EdgePath(index int) string { return fmt.Sprintf("edges/%d", index) }

// ToolPath is the path of a node's i-th tool binding.
func ToolPath(node string, i int) string { return fmt.Sprintf("nodes/%s/tools/%d", node, i) }

// AgentPath prefixes the paths of a sub-agent's flow.
func AgentPath(id string) string { return agentsPath + id + "/" }

const agentsPath = "agents/"

// At renders the place of a part as file:line, or that of the part which holds it, or the file
// alone, or "".
func (s Source) At(path string) string {
	var best Position
	for _, p := range s.Positions {
		if len(p.Path) > len(best.Path) && holds(p.Path, path) {
			best = p
		}
	}
	if best.Path == "" {
		return s.File
	}
	return fmt.Sprintf("%s:%d", s.name(), best.Line)
}

// holds reports whether a path is that of a part, or of one that holds it.
func holds(outer, path string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '/')
}

// Sub is the source of the sub-agent with an id. The other agents stay, since it may call
// them.
func (s Source) Sub(id string) Source {
	out := Source{File: s.File}
	prefix := AgentPath(id)
	for _, p := range s.Positions {
		if rest, ok := strings.CutPrefix(p.Path, prefix); ok {
			out.Positions = append(out.Positions, Position{Path: rest, Line: p.Line, Col: p.Col})
		}
	}
	out.Positions = append(out.Positions, s.Agents()...)
	return out
}

// Agents are the positions of what belongs to sub-agents.
func (s Source) Agents() (out []Position) {
	for _, p := range s.Positions {
		if strings.HasPrefix(p.Path, agentsPath) {
			out = append(out, p)
		}
	}
	return out
}

// ByPath are the positions by the paths of their parts.
func (s Source) ByPath() map[string]Position {
	out := make(map[string]Position, len(s.Positions))
	for _, p := range slices.Backward(s.Positions) { // the first counts, as in [Source.At]
		out[p.Path] = p
	}
	return out
}

func (s Source) name() string {
	if s.File == "" {
		return "line"
	}
	return s.File
}

// schemePorts are the ports that URLs without one have.
var schemePorts = map[string]string{"http": "80", "https": "443"}

// Origin is scheme, host and port of a URL, or of a host or host:port, which stands for https; empty if it has none.
// Secrets are bound to it: two addresses with the same origin, and no others, are the same server.
func Origin(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		address = net.JoinHostPort(ip.String(), schemePorts["https"])
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host, usual := CanonicalHost(u.Hostname()), schemePorts[u.Scheme]
	port, err := strconv.ParseUint(cmp.Or(u.Port(), usual), 10, 16)
	if host == "" || usual == "" || err != nil {
		return ""
	}
	return u.Scheme + "://" + net.JoinHostPort(host, strconv.FormatUint(port, 10))
}

// CanonicalHost is the one spelling of a host.
func CanonicalHost(h string) string {
	if ip, err := netip.ParseAddr(h); err == nil {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(h, "."))
}

// ShortOrigin is the origin of an address as settings write it: without https and a scheme's own port.
func ShortOrigin(address string) string {
	scheme, _, _ := strings.Cut(Origin(address), ":")
	return strings.TrimPrefix(strings.TrimSuffix(Origin(address), ":"+schemePorts[scheme]), "https://")
}
