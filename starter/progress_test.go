package main

import (
	"weft/starter/runs"

	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/history/historytest"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// rateLimited is the failure that Temporal records for an attempt that was rate limited.
var rateLimited = &failurepb.Failure{Message: "slow down", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
	ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: contract.ClassRateLimited}}}

// fakeRun is a closed run.
type fakeRun struct {
	client.WorkflowRun
	result contract.RunResult
	err    error
}

func (r fakeRun) Get(_ context.Context, v any) error {
	if r.err == nil {
		*v.(*contract.RunResult) = r.result
	}
	return r.err
}

// TestFollow checks that follow includes child workflows, continues in the next run of a chain, and reconnects.
func TestFollow(t *testing.T) {
	first, second, branch, sub := historytest.New(t), historytest.New(t), historytest.New(t), historytest.New(t)
	init := first.Child("root/left#1", contract.WorkflowBranch)
	first.ChildDone(init)
	first.ContinuedAsNew("r2")
	second.Call("last#3/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "bye"))
	branch.Call("left#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "", "expert"))
	init = branch.Child("root/left#1:call7", contract.WorkflowFlow)
	branch.ChildDone(init)
	sub.Call("think#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "hm"))
	text := "all done"
	c := &mocks.Client{}
	all := enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT
	cut := &historytest.History{T: t, Events: branch.Events[:4]}
	c.On("GetWorkflowHistory", mock.Anything, "root", "r1", true, all).Return(historytest.NewIterator(first, nil))
	c.On("GetWorkflowHistory", mock.Anything, "root", "r2", true, all).Return(historytest.NewIterator(second, nil))
	c.On("GetWorkflowHistory", mock.Anything, "root/left#1", "run of root/left#1", true, all).Return(historytest.NewIterator(cut, serviceerror.NewUnavailable("gone"))).Once()
	c.On("GetWorkflowHistory", mock.Anything, "root/left#1", "run of root/left#1", true, all).Return(historytest.NewIterator(branch, nil))
	c.On("GetWorkflowHistory", mock.Anything, "root/left#1:call7", "run of root/left#1:call7", true, all).Return(historytest.NewIterator(sub, nil))
	c.On("QueryWorkflow", mock.Anything, "root", "", contract.QueryStatus).Return(nil, serviceerror.NewUnavailable("gone")).Maybe()
	c.On("GetWorkflow", mock.Anything, "root", "r2").Return(fakeRun{result: contract.RunResult{ResultText: &text, Model: "script"}})
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr}
	f := a.newFollower(&runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c, Address: "here:1"}, Starter: "starter "}, ID: "root", RunID: "r1"})
	if err := f.toTheEnd(context.Background()); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "all done\n" {
		t.Errorf("stdout = %q, want only the result", stdout.String())
	}
	want := `    0.0s  left#1                    started
    0.2s  left#1                    model call 1: calls expert (12+3 tokens, 0.2 s)
no connection to Temporal at here:1; retrying
    0.0s  left#1 › think#1          started
    0.2s  left#1 › think#1          model call 1: "hm" (12+3 tokens, 0.2 s)
    0.2s  left#1 › think#1          finished
    0.0s  last#3                    started
    0.2s  last#3                    model call 1: "bye" (12+3 tokens, 0.2 s)
    0.2s  last#3                    finished
the result below comes from scripted answers, not from a model
`
	if diff := cmp.Diff(want, stderr.String()); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
}

func TestInterruptDetaches(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := &mocks.Client{}
	c.On("GetWorkflowHistory", mock.Anything, "root", "r1", true, mock.Anything).Return(historytest.NewIterator(historytest.New(t), context.Canceled))
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	if code := a.exit(a.newFollower(&runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}, Starter: "starter "}, ID: "root", RunID: "r1"}).toTheEnd(ctx)); code != exitDetached {
		t.Errorf("exit code %d, want %d", code, exitDetached)
	}
	if want := "detached; the run continues; follow it with: starter follow root\n"; stderr.String() != want {
		t.Errorf("stderr = %q, want %q", stderr.String(), want)
	}
}

func TestOutcomes(t *testing.T) {
	text := "# Title"
	failure := &contract.Failure{Class: contract.ClassNoExit, Text: "no exit node ran", Node: "pick", Step: 2, At: "x.json:7",
		Remedy: "add an edge", Answers: []contract.Answer{{Execution: "pick#2", Question: "Is it good?", Reason: "no"}}}
	tests := map[string]struct {
		run        fakeRun
		output     string
		code       int
		wantStdout string
		wantStderr string
	}{
		"text":            {run: fakeRun{result: contract.RunResult{ResultText: &text}}, wantStdout: "# Title\n"},
		"data":            {run: fakeRun{result: contract.RunResult{ResultData: json.RawMessage(`{"a":1}`)}}, wantStdout: "{\"a\":1}\n"},
		"as JSON":         {run: fakeRun{result: contract.RunResult{Status: "completed", ResultText: &text, FlowHash: "h"}}, output: "json", wantStdout: "{\n  \"status\": \"completed\",\n  \"result_text\": \"# Title\",\n  \"exit_outputs\": null,\n  \"usage\": {\n    \"calls\": 0,\n    \"input_tokens\": 0,\n    \"output_tokens\": 0\n  },\n  \"flow_hash\": \"h\"\n}\n"},
		"scripted answer": {run: fakeRun{result: contract.RunResult{ResultText: &text, Model: "script"}}, wantStdout: "# Title\n", wantStderr: "the result below comes from scripted answers, not from a model\n"},
		"unread messages": {run: fakeRun{result: contract.RunResult{ResultText: &text, UnreadMessages: []contract.Inbound{{Seq: 1, Text: "Leave May\nout.", Node: "n", Author: contract.Author{By: "kim"}}}}},
			wantStdout: "# Title\n", wantStderr: "unread: no model call has included the message \"Leave May out.\" to n by kim\n"},
		"failure": {run: fakeRun{err: failure}, code: exitFailed, wantStderr: `starter: run root failed: no_exit_node_reached
  where:  node "pick", step 2, x.json:7
  what:   no exit node ran
          pick#2 asked "Is it good?": no (no)
  remedy: add an edge
`},
		"failure as JSON": {run: fakeRun{err: &contract.Failure{Class: contract.ClassDenied, Text: "no", Remedy: "pay", Node: "n", At: "x.json:1"}}, output: "jsonl", code: exitFailed,
			wantStdout: `{"status":"failed","run":"root","class":"denied","text":"no","remedy":"pay","node":"n","at":"x.json:1"}` + "\n",
			wantStderr: "starter: run root failed: denied\n  where:  node \"n\", x.json:1\n  what:   no\n  remedy: pay\n"},
		"cancelled": {run: fakeRun{err: temporal.NewCanceledError()}, output: "jsonl", code: exitCancelled,
			wantStdout: `{"status":"cancelled","run":"root","class":"cancelled","text":"cancelled"}` + "\n", wantStderr: "starter: run root was cancelled\n"},
		"timeout of a tool": {run: fakeRun{err: temporal.NewApplicationError("slow", contract.ClassTimeout)}, output: "jsonl", code: exitFailed,
			wantStdout: `{"status":"failed","run":"root","class":"timeout","text":"slow"}` + "\n", wantStderr: "starter: run root failed: timeout\n  what:   slow\n"},
		"timeout of the run": {run: fakeRun{err: temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)}, output: "jsonl", code: exitFailed,
			wantStdout: `{"status":"timed_out","run":"root","class":"timeout","text":"Test timeout (type: StartToClose)"}` + "\n", wantStderr: "starter: run root failed: timeout\n  what:   Test timeout (type: StartToClose)\n"},
		"other error": {run: fakeRun{err: errors.New("strange")}, code: exitFailed, wantStderr: "starter: run root failed: unavailable\n  what:   strange\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("GetWorkflow", mock.Anything, "root", "r").Return(tc.run)
			var stdout, stderr bytes.Buffer
			a := &app{stdout: &stdout, stderr: &stderr, flags: flags{output: tc.output}}
			code := a.exit(a.conclude(context.Background(), &runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}, Starter: "starter "}, ID: "root", RunID: "r"}))
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.wantStdout, stdout.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantStderr, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIDs(t *testing.T) {
	for name, want := range map[string]string{
		"Data Analyzer": "data-analyzer-", "  Ünïcode & more!  ": "n-code-more-", "": "flow-", "日本": "flow-",
		string(bytes.Repeat([]byte("long "), 100)): "long-long-long-long-long-long-long-long-long-long-long-long-",
	} {
		got := runs.NewID(name)
		if len(got) != len(want)+8 || got[:len(want)] != want {
			t.Errorf("runs.NewID(%q) = %q, want %q and 8 characters", name, got, want)
		}
	}
	for id, want := range map[string]string{"a-b/c#1": "'a-b/c#1'", "plain-1": "plain-1", "it's": `'it'\''s'`, "": "''"} {
		if got := plaintext.ShellQuote(id); got != want {
			t.Errorf("plaintext.ShellQuote(%q) = %s, want %s", id, got, want)
		}
	}
}

func TestSplitCallID(t *testing.T) {
	for id, want := range map[string][2]string{
		"a#1/model/7":              {"a#1", "7"},
		"a#1/model/7~2":            {"a#1", "7~2"},
		"a#1/model/7/less":         {"a#1", "7/less"},
		"a#1/model/7/less~2":       {"a#1", "7/less~2"},
		"a#1/summary/7.1":          {"a#1", "7.1"},
		"a%2Fmodel#1/tool/call_1":  {"a/model#1", "call_1"},
		"a#1/tool/model":           {"a#1", "model"},
		"prepare":                  {"prepare", ""},
		"model/3":                  {"model", "3"},
		"team#2/member#1/model/12": {"team#2/member#1", "12"},
	} {
		if node, turn := history.SplitCallID(id); node != want[0] || turn != want[1] {
			t.Errorf("history.SplitCallID(%q) = %q, %q, want %q, %q", id, node, turn, want[0], want[1])
		}
	}
}
