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

// removedNames maps renamed identifiers, which must not be used again, to their replacements.
// An identifier is added when its last use is removed.
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

// removedFields is the counterpart of removedNames for JSON fields in activities/contract.
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

// TestRemovedNames checks that code other than tests does not use removed identifiers and JSON names.
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
		t.Errorf("%d files, want at least 300: %v", files, err)
	}
}

// removedIn lists the uses of removed names in a file, or in src, with their positions. It checks
// the names of JSON fields if fields is set.
func removedIn(path string, src any, fields bool) (problems []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if replacement, ok := removedNames[n.Name]; ok {
				problems = append(problems, fmt.Sprintf("%s: %s is a removed name; use %s", set.Position(n.Pos()), n.Name, replacement))
			}
		case *ast.Field:
			if n.Tag == nil || !fields {
				return true
			}
			tag, _ := strconv.Unquote(n.Tag.Value) // the parser has validated it
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			if replacement, ok := removedFields[name]; ok {
				problems = append(problems, fmt.Sprintf("%s: %s is a removed JSON name; use %s", set.Position(n.Pos()), name, replacement))
			}
		}
		return true
	})
	return problems, nil
}

// TestRemovedNamesAreFound checks that uses of removed names are reported.
func TestRemovedNamesAreFound(t *testing.T) {
	t.Parallel()
	got, err := removedIn("a.go", "package a\n\nfunc mend() { fix(\"mend\") } // mend\n", true)
	want := []string{"a.go:3:6: mend is a removed name; use repair, fix"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v; want %q", got, err, want)
	}
}
