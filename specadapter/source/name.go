package source

import "strings"

// SafeName replaces by _ all but the letters, digits, _ and - that every provider accepts in the
// name of a tool.
func SafeName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}
