package workflows

import (
	"fmt"
	"strings"

	"weft/activities/contract"
)

// maxIDBytes keeps ids readable; Temporal's own limit is 1,000 bytes.
const maxIDBytes = 200

// escapeID makes a node id safe inside a workflow or activity id, whose own signs are
// / # ~ : [ ]. Only ASCII is left: the ids travel in headers too, and a run whose id has
// other characters would never be answered.
func escapeID(id string) string {
	if !strings.ContainsFunc(id, escaped) {
		return boundID(id)
	}
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if c := id[i]; escaped(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return boundID(b.String())
}

// escaped says whether a byte, or a rune that has several, does not stand in an id as it is.
func escaped(c rune) bool { return c < ' ' || c >= 0x7f || strings.ContainsRune("/#~:[]%", c) }

// boundID keeps an id under its length: a prefix and a hash of the whole.
func boundID(id string) string {
	if len(id) <= maxIDBytes {
		return id
	}
	return strings.ToValidUTF8(id[:maxIDBytes-17], "") + "-" + contract.SHA([]byte(id))[:16]
}
