package contract

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MaxIDBytes keeps ids readable; Temporal's own limit is 1,000 bytes.
const MaxIDBytes = 200

// ExecutionID names an execution: node#step, with ~n from the second with that node and step on.
func ExecutionID(node string, step, occurrence int) string {
	id := EscapeID(node) + "#" + strconv.Itoa(step)
	if occurrence > 1 {
		id += "~" + strconv.Itoa(occurrence)
	}
	return id
}

// SplitPlace splits the id of a call that an element of a map makes in the map's run: node#step:element/, and the id that the
// call would have in a run of the element's own. Of any other call's id the place is empty.
func SplitPlace(id string) (place, call string) {
	first, _, ok := strings.Cut(id, "/")
	exec, element, nested := strings.Cut(first, ":")
	if _, err := strconv.ParseUint(element, 10, 32); !ok || !nested || err != nil || !strings.Contains(exec, "#") {
		return "", id
	}
	return id[:len(first)+1], id[len(first)+1:]
}

var retried = regexp.MustCompile(`~\d+$`)

// CallID is a call's id without what an operator's retry adds to it.
func CallID(id string) string { return retried.ReplaceAllString(id, "") }

// FlowID returns the workflow id of the run whose flow a workflow is of: that of a branch without its last part, of any other
// its own.
func FlowID(workflow string) string {
	i := strings.LastIndexByte(workflow, '/')
	if last := workflow[i+1:]; strings.Contains(last, "#") && !strings.Contains(last, ":") {
		return workflow[:max(i, 0)]
	}
	return workflow
}

// CheckRunID refuses what cannot be the workflow id of a run that a client starts: the signs of ids of runs below others,
// and the prefixes of the server's own.
func CheckRunID(id string) error {
	if i := strings.IndexAny(id, "/#~"); i >= 0 {
		return fmt.Errorf("the id %.100q contains %q; want an id without / # ~, which are in the ids of runs below others", id, id[i])
	}
	for _, prefix := range []string{"temporal-sys-", "temporal-internal"} {
		if strings.HasPrefix(id, prefix) {
			return fmt.Errorf("the id %.100q begins with %s, which Temporal reserves; choose another", id, prefix)
		}
	}
	return nil
}

// EscapeID makes a node id safe inside a workflow or activity id, whose own signs are
// / # ~ : [ ]. Only ASCII is left: the ids travel in headers too, and a run whose id has
// other characters would never be answered.
func EscapeID(id string) string {
	if !strings.ContainsFunc(id, isEscaped) {
		return BoundID(id)
	}
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if c := id[i]; isEscaped(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return BoundID(b.String())
}

func isEscaped(c rune) bool { return c < ' ' || c >= 0x7f || strings.ContainsRune("/#~:[]%", c) }

// BoundID keeps an id within MaxIDBytes: a longer one becomes a prefix and a hash of the whole.
func BoundID(id string) string {
	if len(id) <= MaxIDBytes {
		return id
	}
	return strings.ToValidUTF8(id[:MaxIDBytes-17], "") + "-" + SHA([]byte(id))[:16]
}
