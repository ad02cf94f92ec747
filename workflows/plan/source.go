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

// Source holds the positions of a flow's parts in its document. It accompanies the plan and is not part of its hash.
type Source struct {
	// File is the document's file name, for messages only.
	File      string     `json:"file,omitempty"`
	Positions []Position `json:"positions,omitempty"`
}

// Position is the position of one part of a document.
type Position struct {
	// Path identifies the part; see [NodePath], [EdgePath], [ToolPath] and [AgentPath].
	Path string `json:"path"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// NodePath returns the path of a node's declaration.
func NodePath(id string) string { return "nodes/" + id }

// EdgePath returns the path of an edge's declaration. Edges are identified by index.
func EdgePath(index int) string { return fmt.Sprintf("edges/%d", index) }

// ToolPath returns the path of a node's i-th tool binding.
func ToolPath(node string, i int) string { return fmt.Sprintf("nodes/%s/tools/%d", node, i) }

// AgentPath returns the prefix of the paths in a sub-agent's flow.
func AgentPath(id string) string { return agentsPath + id + "/" }

const agentsPath = "agents/"

// At formats the position of a part as file:line. If it is unknown, At falls back to the enclosing part, then to the
// file, which may be "".
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

// holds reports whether outer is path or one of its parents.
func holds(outer, path string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '/')
}

// Sub returns the source of the sub-agent with an id. It includes the other sub-agents, which that one may call.
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

// Agents returns the positions that belong to sub-agents.
func (s Source) Agents() (out []Position) {
	for _, p := range s.Positions {
		if strings.HasPrefix(p.Path, agentsPath) {
			out = append(out, p)
		}
	}
	return out
}

// ByPath returns the positions by path.
func (s Source) ByPath() map[string]Position {
	out := make(map[string]Position, len(s.Positions))
	for _, p := range slices.Backward(s.Positions) { // the first one wins, as in [Source.At]
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

// schemePorts maps URL schemes to their default ports.
var schemePorts = map[string]string{"http": "80", "https": "443"}

// Origin returns the scheme, host and port of a URL, or of a host or host:port with an implied https; "" if there is
// none. Secrets are bound to origins: two addresses belong to the same server if and only if their origins are equal.
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

// CanonicalHost returns the canonical spelling of a host.
func CanonicalHost(h string) string {
	if ip, err := netip.ParseAddr(h); err == nil {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(h, "."))
}

// ShortOrigin returns the origin of an address as written in settings: without https and the scheme's default port.
func ShortOrigin(address string) string {
	scheme, _, _ := strings.Cut(Origin(address), ":")
	return strings.TrimPrefix(strings.TrimSuffix(Origin(address), ":"+schemePorts[scheme]), "https://")
}
