package serverrequest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/serverrequest"
)

// operator answers questions once answers is set.
type operator struct{ answers bool }

func (p *operator) Answer(ctx workflow.Context, in *contract.ServerRequest) (*contract.ServerAnswer, error) {
	if err := workflow.Await(ctx, func() bool { return p.answers }); err != nil {
		return nil, err
	}
	return &contract.ServerAnswer{Result: json.RawMessage(fmt.Sprintf(`"%s %d"`, in.Question.Text, in.N))}, nil
}

func serverRequest(call string, attempt int32, n int, withdrawn bool) json.RawMessage {
	raw, _ := json.Marshal(contract.ServerRequest{Call: call, Attempt: attempt, N: n, Question: contract.ToolQuestion{Text: "?"}, Withdrawn: withdrawn}) // always encodable
	return raw
}

// TestCalls checks how questions from the servers of calls end: answered, withdrawn, superseded or cancelled.
func TestCalls(t *testing.T) {
	const notPending = "the request is no longer pending"
	type question struct {
		attempt int32
		n       int
	}
	for name, tc := range map[string]struct {
		asked []question
		// then runs while the questions are pending, before they are answered.
		then func(ctx workflow.Context, c *serverrequest.Calls, end func(), cancel workflow.CancelFunc)
		want []string
	}{
		"answered":        {asked: []question{{1, 1}, {1, 2}}, want: []string{`"? 1"`, `"? 2"`}},
		"another attempt": {asked: []question{{1, 1}, {2, 1}}, want: []string{notPending, `"? 1"`}},
		"withdrawn": {asked: []question{{1, 1}, {1, 2}}, want: []string{notPending, `"? 2"`}, then: func(ctx workflow.Context, c *serverrequest.Calls, _ func(), _ workflow.CancelFunc) {
			if out, err := c.Take(ctx, serverRequest("c", 1, 1, true)); err != nil || out.(*contract.ServerAnswer).Result != nil {
				t.Errorf("Take() of a withdrawal = %v, %v", out, err)
			}
		}},
		"the call ends":        {asked: []question{{1, 1}}, want: []string{notPending}, then: func(_ workflow.Context, _ *serverrequest.Calls, end func(), _ workflow.CancelFunc) { end() }},
		"the run is cancelled": {asked: []question{{1, 1}}, want: []string{notPending}, then: func(_ workflow.Context, _ *serverrequest.Calls, _ func(), cancel workflow.CancelFunc) { cancel() }},
		"question to a cancelled run": {then: func(ctx workflow.Context, c *serverrequest.Calls, _ func(), cancel workflow.CancelFunc) {
			cancel()
			_ = workflow.Sleep(ctx, time.Second)
			ctx, leave := workflow.WithCancel(ctx)
			workflow.Go(ctx, func(ctx workflow.Context) { _ = workflow.Sleep(ctx, time.Minute); leave() })
			var got any
			workflow.Go(ctx, func(ctx workflow.Context) { got, _ = c.Take(ctx, serverRequest("c", 1, 1, false)) })
			_ = workflow.Await(ctx, func() bool { return got != nil })
			if a, _ := got.(*contract.ServerAnswer); a == nil || a.Problem != notPending {
				t.Errorf("Take() = %v", got)
			}
		}},
		"too many questions": {asked: []question{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}}, want: []string{`"? 1"`, `"? 2"`, `"? 3"`, `"? 4"`, `"? 5"`, `"? 6"`},
			then: func(_ workflow.Context, c *serverrequest.Calls, _ func(), _ workflow.CancelFunc) {
				if f := contract.FailureOf(c.Admit(serverRequest("c", 1, 7, false))); f.Class != contract.ClassUnavailable {
					t.Errorf("Admit() of one question too many = %v", f)
				}
				if err := c.Admit(serverRequest("c", 1, 6, true)); err != nil {
					t.Errorf("Admit() of a withdrawal = %v", err)
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				c, p := &serverrequest.Calls{}, &operator{}
				ctx, cancel := workflow.WithCancel(ctx)
				defer cancel()
				asked := &serverrequest.Queue{}
				asked.Serve(ctx, p.Answer)
				end := c.Begin(ctx, "c", asked)
				got, left := make([]string, len(tc.asked)), len(tc.asked)
				quiet, _ := workflow.NewDisconnectedContext(ctx)
				for i, q := range tc.asked {
					workflow.Go(quiet, func(ctx workflow.Context) {
						raw := serverRequest("c", q.attempt, q.n, false)
						out, err := any(nil), c.Admit(raw)
						if err == nil {
							out, err = c.Take(ctx, raw)
						}
						if a, _ := out.(*contract.ServerAnswer); err != nil {
							got[i] = err.Error()
						} else {
							got[i] = string(a.Result) + a.Problem
						}
						left--
					})
				}
				_ = workflow.Sleep(quiet, 1)
				if tc.then != nil {
					tc.then(quiet, c, end, cancel)
				}
				_ = workflow.Sleep(quiet, 1)
				p.answers = true
				if err := workflow.Await(quiet, func() bool { return left == 0 }); err != nil {
					return err
				}
				if strings.Join(got, "|") != strings.Join(tc.want, "|") {
					t.Errorf("answers = %q, want %q", got, tc.want)
				}
				if end(); contract.FailureOf(c.Admit(serverRequest("c", 1, 9, false))).Class != contract.ClassUnknownRequest {
					t.Error("a question of a call that has ended was accepted")
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestInvalidMessages checks that malformed requests and signals are rejected.
func TestInvalidMessages(t *testing.T) {
	c := &serverrequest.Calls{}
	for raw, class := range map[string]string{
		`{"call":"c","attempt":1,"n":1,"ask":{}}`: contract.ClassUnknownRequest,
		`{"call":1}`:         contract.ClassBadRequest,
		`{"call":"c","x":1}`: contract.ClassBadRequest,
		`null`:               contract.ClassBadRequest,
	} {
		if f := contract.FailureOf(c.Admit(json.RawMessage(raw))); f.Class != class {
			t.Errorf("Admit(%s) = %v", raw, f)
		}
	}
	if f := contract.FailureOf(c.Signalled(nil, nil)); f.Class != contract.ClassBadRequest {
		t.Errorf("Signalled() = %v", f)
	}
}
