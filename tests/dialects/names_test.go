package dialects

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// removedNames are identifiers that the code had and must not have again, with what is said instead.
// A word is added when its last use is gone.
var removedNames = map[string]string{
	"AgentCarry":       "SuspendedExecution",
	"Armed":            "PendingJoins",
	"Beat":             "Heartbeat",
	"BoundID":          "ShortenID",
	"Boxes":            "Toolboxes",
	"Brings":           "Supplies",
	"BringsFlow":       "SuppliesFlow",
	"CarriedArrival":   "ArrivalState",
	"CarriedCall":      "SuspendedExecution",
	"CarriedEntry":     "EntryState",
	"CarriedExecution": "ExecutionState",
	"CarriedLine":      "SuspendedExecution",
	"CarriedMessage":   "ThreadMessage",
	"Carry":            "RunSnapshot, Snapshot",
	"Desk":             "Inbox",
	"DeskCarry":        "InboxState",
	"FailedBelow":      "ChildFailure",
	"Hear":             "ReceiveSignals",
	"HeardBack":        "AwaitYieldRequests",
	"KeepOutside":      "Offload",
	"LimitSeconds":     "Timeout",
	"LoneAgent":        "SingleAgent",
	"Longs":            "LongMessagePolicies",
	"MendThread":       "RepairThread",
	"Nth":              "Occurrence",
	"OnErrorPark":      "OnErrorWait",
	"Parked":           "WaitingForOperator",
	"Parks":            "NeedsOperator",
	"PutOff":           "Defer",
	"QueryPast":        "QueryExecutions",
	"ReadPrepared":     "ReadCompiledFlow",
	"Rejects":          "RejectionReasons",
	"RetryTakenID":     "RetryStart",
	"RoutingCarry":     "SuspendedExecution",
	"SessionCarry":     "SessionState",
	"Speaker":          "TeamAgent",
	"SpentIn":          "ChildUsage",
	"Switched":         "Fallbacks",
	"Talk":             "Conversation",
	"UnfitArguments":   "InvalidArguments",
	"UpdateResume":     "UpdatePrompt",
	"UpdateStop":       "UpdateCloseSession",
	"WhileTaken":       "RetryWhileIDInUse",
	"Wire":             "ToApplicationError, ApplicationError",
	"attend":           "listen",
	"boxes":            "toolboxes",
	"brings":           "reservation",
	"desk":             "inbox",
	"ear":              "listener",
	"grants":           "reservation",
	"guest":            "reservation",
	"guests":           "reservations",
	"halfway":          "journal",
	"handOut":          "relayAnswers",
	"means":            "limits",
	"mend":             "repair, fix",
	"mended":           "repaired, fixed",
	"misheard":         "rejected",
	"misled":           "rejectMisaddressed",
	"parked":           "waitingForOperator",
	"parting":          "unacknowledgedSignals",
	"pulse":            "heartbeat",
	"speaker":          "activeAgent",
	"ticket":           "pendingRequest",
	"told":             "notified",
	"wishes":           "reservation",
}

// removedFields are names of JSON fields in activities/contract, in the same way.
var removedFields = map[string]string{
	"again":          "reopened",
	"armed":          "pending_joins",
	"begun":          "started_at",
	"carry":          "snapshot",
	"clock":          "version_vector",
	"desk":           "inbox",
	"elsewhere":      "external_activity",
	"heard":          "inherited",
	"left_out":       "omitted_messages",
	"left_out_bytes": "omitted_bytes",
	"limit_seconds":  "timeout",
	"nth":            "occurrence",
	"past":           "executions",
	"rejects":        "rejection_reasons",
	"rest":           "snapshot",
	"room":           "max_result_bytes",
	"sha":            "sha256",
	"stays":          "is_session",
	"switched":       "fallbacks",
	"talk":           "conversation",
	"told":           "sent",
	"unread":         "unread_messages",
	"wf":             "workflow_id",
}

// TestRemovedNames keeps removed identifiers and JSON names out of the code that is not a test's.
func TestRemovedNames(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name == "node_modules" || name == "bin" || strings.HasPrefix(name, ".") && len(name) > 2) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		found, err := removedIn(path, nil, strings.Contains(filepath.ToSlash(path), "activities/contract/"))
		for _, problem := range found {
			t.Error(problem)
		}
		return err
	})
	if err != nil || files < 300 {
		t.Errorf("%d files: %v", files, err)
	}
}

// removedIn lists the removed names in a file, or in src, with their places. The names of JSON
// fields are looked at where fields is set.
func removedIn(path string, src any, fields bool) (problems []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if instead, ok := removedNames[n.Name]; ok {
				problems = append(problems, fmt.Sprintf("%s: %s is a removed name; say %s", set.Position(n.Pos()), n.Name, instead))
			}
		case *ast.Field:
			if n.Tag == nil || !fields {
				return true
			}
			tag, _ := strconv.Unquote(n.Tag.Value) // the parser has read it
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			if instead, ok := removedFields[name]; ok {
				problems = append(problems, fmt.Sprintf("%s: %s is a removed JSON name; say %s", set.Position(n.Pos()), name, instead))
			}
		}
		return true
	})
	return problems, nil
}

// TestRemovedNamesAreFound gives the check code that must not pass.
func TestRemovedNamesAreFound(t *testing.T) {
	t.Parallel()
	got, err := removedIn("a.go", "package a\n\nfunc mend() { fix(\"mend\") } // mend\n", true)
	want := []string{"a.go:3:6: mend is a removed name; say repair, fix"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v; want %q", got, err, want)
	}
}
