package workflows

import (
	"fmt"
	"strings"

	"weft/activities/contract"
)

// maxIDBytes keeps ids readable; Temporal's own limit is 1,000 bytes.
const maxIDBytes = 200

// escapeID makes a node id safe inside a workflow or activity id, whose own signs are
// / # ~ : [ ].
func escapeID(id string) string {
	var b strings.Builder
	for _, r := range id {
		if r < ' ' || r == 0x7f || strings.ContainsRune("/#~:[]%", r) {
			fmt.Fprintf(&b, "%%%02X", r)
		} else {
			b.WriteRune(r)
		}
	}
	return boundID(b.String())
}

// boundID keeps an id under its length: a prefix and a hash of the whole.
func boundID(id string) string {
	if len(id) <= maxIDBytes {
		return id
	}
	return strings.ToValidUTF8(id[:maxIDBytes-17], "") + "-" + contract.SHA([]byte(id))[:16]
}
