package history

import (
	"net/url"
	"strconv"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

// ExecutionOf parses node#step, with ~n behind it from the node's second execution in a step on.
func ExecutionOf(exec string) contract.Execution {
	x := ParseLabel(exec)
	x.Node = Unescape(x.Node)
	return x
}

// ParseLabel parses what [Label] returns, in which the node is not escaped.
func ParseLabel(label string) contract.Execution {
	node, rest, _ := CutLast(label, "#")
	step, occurrence, _ := strings.Cut(rest, "~")
	x := contract.Execution{Node: node}
	x.Step, _ = strconv.Atoi(step)
	x.Occurrence, _ = strconv.Atoi(occurrence)
	return x
}

// Label names an execution, as [ExecutionOf] parses it.
func Label(x contract.Execution) string {
	return x.Node + "#" + strconv.Itoa(x.Step) + plaintext.If(x.Occurrence > 1, "~%d", x.Occurrence)
}

// SplitCallID splits node#step/kind/turn, where a model call with less input has that behind its turn.
func SplitCallID(id string) (node, turn string) {
	rest, turn, ok := CutLast(id, "/")
	if !ok {
		return plaintext.Line(Unescape(id), 200), ""
	}
	if kind, occurrence, found := CutLast(rest, "/"); found && strings.HasSuffix(kind, "/model") {
		rest, turn = kind, occurrence+"/"+turn
	}
	if node, _, ok := CutLast(rest, "/"); ok {
		return plaintext.Line(Unescape(node), 200), Unescape(turn)
	}
	return plaintext.Line(Unescape(rest), 200), Unescape(turn)
}

// Unescape returns the id of a node that is escaped in the id of a call or workflow.
func Unescape(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}

// CutLast cuts s around the last sep. It returns s, "", false if there is none.
func CutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// StatusName returns the name of a status as the commands print it.
func StatusName(s enumspb.WorkflowExecutionStatus) string {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return contract.StatusCancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return "timed_out"
	}
	return strings.ToLower(s.String())
}

// FailureText returns the class and message of a failure in one line.
func FailureText(p *failurepb.Failure) string {
	if p == nil {
		return "an unknown failure"
	}
	text := plaintext.Line(p.GetMessage(), 300)
	if class := p.GetApplicationFailureInfo().GetType(); class != "" {
		return plaintext.Line(class, 60) + ": " + text
	}
	return text
}

// FailureOf returns a run's or a call's failure with its details, nil for nil.
func FailureOf(p *failurepb.Failure) *contract.Failure {
	if p == nil {
		return nil
	}
	var f contract.Failure
	if d := p.GetApplicationFailureInfo().GetDetails(); d != nil && Decode(d, &f) && f.Class != "" {
		return &f
	}
	return &contract.Failure{Class: p.GetApplicationFailureInfo().GetType(), Text: plaintext.Line(p.GetMessage(), 2000)}
}

// Error returns a failure as the SDK's error.
func Error(p *failurepb.Failure) error {
	return temporal.GetDefaultFailureConverter().FailureToError(p)
}
