package tool

import (
	"path"
	"strings"

	"weft/workflows/plan"
)

// Confirm reports whether calls of a tool need a person's approval, and for how many seconds to wait; 0 means
// no limit. A rule with never wins, then the shortest limit.
func (t *Tools) Confirm(c plan.Connection, name string) (limit plan.Seconds, need bool) {
	for _, r := range t.settings.Confirm {
		if !r.covers(c.ID, name) {
			continue
		}
		if r.Never {
			return 0, false
		}
		if need = true; r.Timeout > 0 && (limit == 0 || r.Timeout < limit) {
			limit = r.Timeout
		}
	}
	return limit, need
}

// covers reports whether a rule speaks of a tool.
func (r ConfirmRule) covers(connection, name string) bool {
	return matches(r.Tools, name) && (len(r.Connections) == 0 || matches(r.Connections, connection))
}

func matches(patterns []string, s string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(withoutSlashes(p), withoutSlashes(s)); ok && err == nil {
			return true
		}
	}
	return false
}

// withoutSlashes replaces slashes, at which a * would stop: a rule for all tools must match files/delete.
func withoutSlashes(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

func (r ConfirmRule) check(p *problems, at string) {
	if len(r.Tools) == 0 {
		p.add("%s.tools: is empty; name tools, or \"*\" for all", at)
	}
	for field, patterns := range map[string][]string{"tools": r.Tools, "connections": r.Connections} {
		for _, pattern := range patterns {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				p.add("%s.%s: %q is not a pattern; write names, with * for any letters", at, field, pattern)
			}
		}
	}
	if r.Never && r.Timeout > 0 {
		p.add("%s: never and timeout exclude each other", at)
	}
}
