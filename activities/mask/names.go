package mask

import (
	"regexp"
	"strings"
)

// telling are names that bring a credential and not an option. Of short words that others hold, such
// as COMPASS and BYPASS, only whole ones count; PWD alone is the folder in which a program runs.
var telling = regexp.MustCompile(`(?i)auth|key|token|secret|passw|passphrase|passcode|cookie|credential|session|signature|dsn|bearer|jwt` +
	`|(^|[^a-z])(pg|db)?pass([^a-z]|file|$)|[a-z0-9](?-i:Pass)(?-i:[^a-z]|$)|[_-]pwd([^a-z]|$)`)

// plainWord bounds values that are an option whatever their name says, such as "standard".
const plainWord = 16

// Telling reports whether a header, a variable or a parameter of a query of this name holds a secret.
func Telling(name string) bool { return telling.MatchString(name) }

// Named is the value of a header, a variable or a parameter of a query if it is a secret by its
// name, and nothing that a text may well say besides; else "".
func Named(name, value string) string {
	plain := len(value) < plainWord && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz-_/. ") == ""
	if !Telling(name) || plain {
		return ""
	}
	return value
}
