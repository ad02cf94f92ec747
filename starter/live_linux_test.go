package main

import (
	"weft/starter/runs"

	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/history/historytest"
	"weft/worker/config"
	"weft/workflows/plan"
)

// mapEnv is an environment with these variables only.
type mapEnv map[string]string

func (e mapEnv) LookupEnv(name string) (string, bool) { v, ok := e[name]; return v, ok }

func (e mapEnv) Environ() []string {
	var out []string
	for name, value := range e {
		out = append(out, name+"="+value)
	}
	return out
}

// pseudoTerminal opens a pseudo-terminal: what a program writes to slave can be read from master.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("pseudo-terminals are not available: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	var unlock, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skipf("pseudo-terminals are not available: %v", errno)
		}
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("pseudo-terminals are not available: %v", err)
	}
	return master, slave
}

// followOnTerminal follows a run on a terminal and returns everything that was written to it.
func followOnTerminal(t *testing.T, env mapEnv, flow *plan.Flow) string {
	t.Helper()
	master, slave := pseudoTerminal(t)
	h := &historytest.History{T: t, Start: time.Now().Add(-3 * time.Second)}
	if flow != nil {
		h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, &historypb.WorkflowExecutionStartedEventAttributes{
			WorkflowType: &commonpb.WorkflowType{Name: contract.WorkflowFlow}, Input: h.Payload(contract.RunInput{V: 1, Flow: contract.FlowRef{Plan: flow}})})
	}
	h.Call("find#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "", "search"))
	s := h.Scheduled("find#1/tool/1.1", contract.ActivityCallTool, contract.ToolInput{As: "search"})
	h.Started(s, 2, rateLimited)
	h.Completed(s, historytest.ToolMessage(t, "12345", false))
	h.Call("find#1/model/2", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "Found it."))
	h.Call("tell#2/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "", "search"))
	text := "done"
	c := &mocks.Client{}
	c.On("GetWorkflowHistory", mock.Anything, "root", "r", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(historytest.NewIterator(h, nil))
	c.On("GetWorkflow", mock.Anything, "root", "r").Return(fakeRun{result: contract.RunResult{ResultText: &text}})
	var stdout strings.Builder
	a := &app{stdout: &stdout, stderr: slave, env: env, flags: flags{output: outputText}}
	f := a.newFollower(&runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}, Starter: "starter "}, ID: "root", RunID: "r"})
	f.Model("acme/m")
	if err := f.toTheEnd(context.Background()); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "done\n" {
		t.Errorf("stdout = %q, want only the result", stdout.String())
	}
	slave.WriteString("END\n")
	var out strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(out.String(), "END") {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("read the terminal: %v after %q", err, out.String())
		}
		out.Write(buf[:n])
	}
	slave.Close()
	return out.String()
}

func TestLiveTable(t *testing.T) {
	got := followOnTerminal(t, mapEnv{"TERM": "xterm"}, nil)
	frames := strings.Split(got, "\x1b[J")
	last := frames[len(frames)-1]
	for _, want := range []string{
		"\x1b[32m✓\x1b[0m find#1                       0.8s          24+6  retries: 1  model call 2: \"Found it.\"",
		"\x1b[33m●\x1b[0m tell#2", "12+3  model call 1: calls search",
		"  2 executions, 3 model calls, 36+9 tokens, ",
	} {
		if !strings.Contains(last, want) {
			t.Errorf("the last table does not contain %q:\n%q", want, last)
		}
	}
	if !strings.Contains(got, "model: acme/m\x1b[?7l\r\n") || strings.Contains(got, "0.0s  find#1") {
		t.Errorf("terminal = %q", got)
	}
	if strings.Count(got, "\x1b[?7l") == 0 || !strings.HasSuffix(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(got), "END")), "\x1b[?7h") {
		t.Errorf("line wrapping is not restored at the end: %q", got)
	}
}

// chain returns a flow with the nodes in sequence, and more edges after those of the sequence.
func chain(nodes string, more ...plan.Edge) *plan.Flow {
	f, last := &plan.Flow{}, plan.Start
	for _, id := range strings.Fields(nodes) {
		f.Nodes = append(f.Nodes, plan.Node{ID: id, Name: id})
		f.Edges = append(f.Edges, plan.Edge{From: last, To: id})
		last = id
	}
	f.Edges = append(append(f.Edges, plan.Edge{From: last, To: plan.End}), more...)
	return f
}

// TestProgressBar checks that a bar shows how many nodes have run, unless a loop makes their number unknown.
func TestProgressBar(t *testing.T) {
	tests := map[string]struct {
		flow *plan.Flow
		want string
	}{
		"chain":            {flow: chain("find tell"), want: "  ██████████░░░░░░░░░░ 1 of 2 nodes, 2 executions, "},
		"condition":        {flow: chain("find tell more", plan.Edge{From: "find", To: "more", Question: "Is it late?"}), want: "  ██████░░░░░░░░░░░░░░ 1 of at most 3 nodes, 2 executions, "},
		"loop":             {flow: chain("find tell", plan.Edge{From: "tell", To: "find", Question: "Again?"}), want: "  2 executions, "},
		"unreachable node": {flow: &plan.Flow{Nodes: append(chain("find").Nodes, plan.Node{ID: "lone"}), Edges: chain("find").Edges}, want: "  ████████████████████ 1 of 1 nodes, 2 executions, "},
		"empty flow":       {flow: &plan.Flow{}, want: "  2 executions, "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := followOnTerminal(t, mapEnv{"TERM": "xterm", "NO_COLOR": "1"}, tc.flow)
			frames := strings.Split(got, "\x1b[J")
			if !strings.Contains(frames[len(frames)-1], tc.want) {
				t.Errorf("the last table does not contain %q:\n%q", tc.want, frames[len(frames)-1])
			}
		})
	}
}

func TestTerminalWithoutColorOrTable(t *testing.T) {
	if got := followOnTerminal(t, mapEnv{"TERM": "xterm", "NO_COLOR": "1"}, nil); strings.Contains(got, "m✓") || !strings.Contains(got, "✓ find#1") {
		t.Errorf("with NO_COLOR, terminal = %q", got)
	}
	for name, env := range map[string]mapEnv{"dumb": {"TERM": "dumb"}, "CI": {"TERM": "xterm", "CI": "true"}, "none": {}} {
		if got := followOnTerminal(t, env, nil); strings.Contains(got, "\x1b[") || !strings.Contains(got, "0.0s  find#1                    started") {
			t.Errorf("%s: terminal = %q, want lines without control sequences", name, got)
		}
	}
}

func TestNullDeviceIsNotATerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if terminal(null) {
		t.Error("terminal(/dev/null) = true")
	}
	_, slave := pseudoTerminal(t)
	defer slave.Close()
	if !terminal(slave) {
		t.Error("terminal of a pseudo-terminal = false")
	}
	code := (&app{stdin: null, stdout: null, stderr: slave, env: mapEnv{}}).run(t.Context(), []string{"resume", "guide-1"})
	if code != exitBadInput {
		t.Errorf("resume without a prompt or a terminal: exit code %d, want %d", code, exitBadInput)
	}
}
