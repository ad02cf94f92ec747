package contract

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MaxIDBytes limits the length of ids, for readability; Temporal's own limit is 1,000 bytes.
const MaxIDBytes = 200

// ExecutionID returns the id of an execution: node#step, with a suffix ~n for the n-th execution of that node at that
// step, from the second on.
func ExecutionID(node string, step, occurrence int) string {
	id := EscapeID(node) + "#" + strconv.Itoa(step)
	if occurrence > 1 {
		id += "~" + strconv.Itoa(occurrence)
	}
	return id
}

// SplitPlace splits the id of a call made by an element of a map within the map's run into node#step:element/ and the id
// that the call would have in a run of the element's own. For any other id the place is empty.
func SplitPlace(id string) (place, call string) {
	first, _, ok := strings.Cut(id, "/")
	exec, element, nested := strings.Cut(first, ":")
	if _, err := strconv.ParseUint(element, 10, 32); !ok || !nested || err != nil || !strings.Contains(exec, "#") {
		return "", id
	}
	return id[:len(first)+1], id[len(first)+1:]
}

var retrySuffix = regexp.MustCompile(`~\d+$`)

// CallID returns a call's id without the suffix of an operator's retry.
func CallID(id string) string { return retrySuffix.ReplaceAllString(id, "") }

// FlowID returns the workflow id of the run that a branch belongs to, which is the branch's id without its last segment.
// For any other workflow it returns the id unchanged.
func FlowID(workflow string) string {
	i := strings.LastIndexByte(workflow, '/')
	if last := workflow[i+1:]; strings.Contains(last, "#") && !strings.Contains(last, ":") {
		return workflow[:max(i, 0)]
	}
	return workflow
}

// CheckRunID rejects workflow ids that a client must not use for a run: ids with the separators used in ids of child
// runs, and with prefixes reserved by the server.
func CheckRunID(id string) error {
	if i := strings.IndexAny(id, "/#~"); i >= 0 {
		return fmt.Errorf("the id %.100q contains %q; use an id without / # ~, which separate the parts of ids of child runs", id, id[i])
	}
	for _, prefix := range []string{"temporal-sys-", "temporal-internal"} {
		if strings.HasPrefix(id, prefix) {
			return fmt.Errorf("the id %.100q begins with %s, which is reserved by Temporal; choose another", id, prefix)
		}
	}
	return nil
}

// EscapeID escapes a node id for use in a workflow or activity id, whose separators are / # ~ : [ ]. The result is ASCII,
// because ids are also sent in headers, and Temporal would never answer a run whose id has other characters.
func EscapeID(id string) string {
	if !strings.ContainsFunc(id, isEscaped) {
		return ShortenID(id)
	}
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if c := id[i]; isEscaped(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return ShortenID(b.String())
}

func isEscaped(c rune) bool { return c < ' ' || c >= 0x7f || strings.ContainsRune("/#~:[]%", c) }

// ShortenID limits an id to MaxIDBytes: a longer one becomes a prefix and a hash of the complete id.
func ShortenID(id string) string {
	if len(id) <= MaxIDBytes {
		return id
	}
	return strings.ToValidUTF8(id[:MaxIDBytes-17], "") + "-" + SHA([]byte(id))[:16]
}
