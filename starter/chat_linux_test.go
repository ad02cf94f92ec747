package main

import (
	"weft/starter/runs"
	"weft/starter/runs/runstest"

	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/worker/config"
)

// blockingHistory is the history iterator of a run that ends when a channel is closed.
type blockingHistory struct{ end chan struct{} }

func (h blockingHistory) HasNext() bool {
	<-h.end
	return false
}

func (blockingHistory) Next() (*historypb.HistoryEvent, error) { return nil, nil }

// acceptedUpdate is the handle of an Update that the run has accepted.
type acceptedUpdate struct{ client.WorkflowUpdateHandle }

func (acceptedUpdate) Get(_ context.Context, v any) error {
	*v.(*contract.Receipt) = contract.Receipt{Status: "accepted"}
	return nil
}

// TestAnswerOnTerminal checks that a user can answer a request on the terminal while following the run.
func TestAnswerOnTerminal(t *testing.T) {
	for name, env := range map[string]mapEnv{"live table": {"TERM": "xterm"}, "lines": {"TERM": "dumb"}} {
		t.Run(name, func(t *testing.T) {
			master, slave := pseudoTerminal(t)
			t.Cleanup(func() { slave.Close() })
			question := contract.Request{ID: "ask#1/ask-1", Kind: contract.RequestMessage, Execution: "ask#1", Text: "Which month?", OpenedAt: time.Now()}
			end, text := make(chan struct{}), "done"
			c := &mocks.Client{}
			c.On("GetWorkflowHistory", mock.Anything, "root", "r", true, mock.Anything).Return(blockingHistory{end})
			c.On("QueryWorkflow", mock.Anything, "root", "", contract.QueryStatus).Return(runstest.Answer(t, contract.Status{Requests: []contract.Request{question}}), nil).Once()
			c.On("QueryWorkflow", mock.Anything, "root", "", contract.QueryStatus).Return(runstest.Answer(t, contract.Status{Answered: []contract.Answered{
				{ID: question.ID, Kind: question.Kind, Hash: "h", Author: contract.Author{By: "kim"}, At: time.Now()}}}), nil)
			c.On("UpdateWorkflow", mock.Anything, client.UpdateWorkflowOptions{WorkflowID: "root", UpdateName: contract.RequestMessage,
				Args:         []any{contract.MessageAnswer{ID: question.ID, Text: "May, or June", Author: contract.Author{By: "kim"}}},
				WaitForStage: client.WorkflowUpdateStageCompleted}).Run(func(mock.Arguments) { close(end) }).Return(acceptedUpdate{}, nil).Once()
			c.On("GetWorkflow", mock.Anything, "root", "r").Return(fakeRun{result: contract.RunResult{ResultText: &text}})
			var stdout strings.Builder
			a := &app{stdin: slave, stdout: &stdout, stderr: slave, env: env, flags: flags{output: outputText, answerFlags: answerFlags{by: "kim"}}}
			done := make(chan error, 1)
			go func() {
				done <- a.newFollower(&runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}, Starter: "starter "}, ID: "root", RunID: "r"}).toTheEnd(context.Background())
				slave.WriteString("END\n")
			}()
			var out strings.Builder
			readTo := func(want string) {
				buf := make([]byte, 4096)
				for !strings.Contains(out.String(), want) {
					n, err := master.Read(buf)
					if err != nil {
						t.Fatalf("read the terminal: %v after %q", err, out.String())
					}
					out.Write(buf[:n])
				}
			}
			readTo("type the answer here, on one line, or use the command")
			if !strings.Contains(out.String(), "waits for message: Which month?; answer with: starter message root -request 'ask#1/ask-1' TEXT") {
				t.Errorf("terminal = %q", out.String())
			}
			if _, err := master.WriteString("  May, or June\n"); err != nil {
				t.Fatal(err)
			}
			readTo("END")
			if err := <-done; err != nil || stdout.String() != "done\n" {
				t.Errorf("stdout = %q, error %v", stdout.String(), err)
			}
			if !strings.Contains(out.String(), "answered by kim") {
				t.Errorf("terminal = %q", out.String())
			}
		})
	}
}
