package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// These tests cover cases K1 to K13 of the framework that the blueprint dialect comes from, with its numbers: when and how a
// session receives the results of the sessions that it started. Where the framework loses a callback (K8, K9, K12), Weft
// delivers it. Cases Z and U are in starter/rows_e2e_test.go.

// family is a session of the agent boss, which may start the agents helper, whose model answers; gate,
// which asks a user; and mid, which may itself start all three.
type family struct {
	*testing.T
	*harness.Worker
	run client.WorkflowRun
}

// familyFlow returns the flow of boss, with the agents that it may start.
func familyFlow() *plan.Flow {
	all := []plan.Startable{{Agent: "gate", Type: "autonomous"}, {Agent: "helper", Type: "autonomous"}, {Agent: "mid", Type: "autonomous"}}
	f, gate := harness.AgentFlow("boss", all...), harness.AgentFlow("gate")
	gate.Nodes[0].Kind, gate.Nodes[0].Agent, gate.Nodes[0].Ask = plan.KindAsk, nil, &plan.Ask{Text: "May it go on?"}
	f.Agents = []plan.Flow{*gate, *harness.AgentFlow("helper"), *harness.AgentFlow("mid", all...)}
	return f
}

// startFamily starts a family on a new worker.
func startFamily(t *testing.T, rules ...string) *family {
	t.Helper()
	return startFamilyOn(t, harness.NewWorker(t, 0), familyFlow(), rules...)
}

func startFamilyOn(t *testing.T, h *harness.Worker, flow *plan.Flow, rules ...string) *family {
	t.Helper()
	return &family{t, h, h.StartSession(t, flow, "rules:\n- "+strings.Join(rules, "\n- ")+"\n", 0)}
}

// startCall returns a tool call that starts a session of an agent in a mode.
func startCall(agent, mode string) string {
	return fmt.Sprintf(`{tool: start_agent_session, arguments: {agent_name: %s, mode: %s, parameters: {prompt: go}}}`, agent, mode)
}

// modelRule returns the script rule for an agent's n-th model call, which responds with tool calls or a text.
func modelRule(agent string, n int, calls ...string) string {
	if len(calls) == 1 && !strings.HasPrefix(calls[0], "{") {
		return fmt.Sprintf("{node: %s, turn: %d, say: %s}", agent, n, calls[0])
	}
	return fmt.Sprintf("{node: %s, turn: %d, call: [%s]}", agent, n, strings.Join(calls, ", "))
}

// waitStatus waits until the session's status satisfies ok, and returns it. what describes the condition.
func (f *family) waitStatus(what string, ok func(s *contract.SessionStatus) bool) *contract.SessionStatus {
	f.Helper()
	var st contract.Status
	harness.WaitFor(f, what, func() bool {
		v, err := f.Client.QueryWorkflow(context.Background(), f.run.GetID(), "", contract.QueryStatus)
		st = contract.Status{}
		return err == nil && v.Get(&st) == nil && st.Session != nil && ok(st.Session)
	})
	return st.Session
}

// waitTurns waits until the session has ended n turns and is idle, and returns them.
func (f *family) waitTurns(n int) []contract.Turn {
	f.Helper()
	f.waitStatus(fmt.Sprintf("%d turns", n), func(s *contract.SessionStatus) bool { return s.Turns >= n && s.Turn.Done() })
	out := f.WaitForTurns(f.T, f.run.GetID(), n)
	if len(out) != n {
		f.Errorf("session has %d turns, want %d: %+v", len(out), n, out)
	}
	return out
}

// childIDs waits until the session has started n children and returns their ids, in the order of their start.
func (f *family) childIDs(n int) []string {
	f.Helper()
	var out []string
	for _, c := range f.waitStatus(fmt.Sprintf("%d children", n), func(s *contract.SessionStatus) bool { return len(s.Children) >= n }).Children {
		out = append(out, c.ID)
	}
	return out
}

// gateRequest waits for the request of the n-th child, a gate, and returns its id.
func (f *family) gateRequest(n int) string {
	f.Helper()
	child, id := f.childIDs(n)[n-1], ""
	harness.WaitFor(f, "the request of "+child, func() bool {
		var st contract.Status
		v, err := f.Client.QueryWorkflow(context.Background(), f.run.GetID(), "", contract.QueryStatus)
		if err != nil || v.Get(&st) != nil {
			return false
		}
		i := slices.IndexFunc(st.Requests, func(q contract.Request) bool {
			return strings.HasPrefix(f.run.GetID()+"/"+q.ID, child+"/") || strings.HasPrefix(q.ID, child+"/")
		})
		if i >= 0 {
			id = st.Requests[i].ID
		}
		return i >= 0
	})
	return id
}

// answerGate answers the request of the n-th child, a gate.
func (f *family) answerGate(n int, text string) {
	f.Helper()
	f.Signal(f.T, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: f.gateRequest(n), Text: text})
}

// waitCallbacks waits until n callbacks are queued for the session's next turn.
func (f *family) waitCallbacks(n int) {
	f.Helper()
	f.waitStatus(fmt.Sprintf("%d queued callbacks", n), func(s *contract.SessionStatus) bool { return s.Callbacks == n })
}

// prompts returns the user messages of the session's conversation, without the first.
func (f *family) prompts() []string {
	f.Helper()
	var page contract.TranscriptPage
	v, err := f.Client.QueryWorkflow(context.Background(), f.run.GetID(), "", contract.QueryTranscript, contract.TranscriptQuery{Thread: "conversation"})
	if err == nil {
		err = v.Get(&page)
	}
	if err != nil {
		f.Fatal(err)
	}
	var out []string
	for _, raw := range page.Messages {
		m, err := contract.DecodeMessage(raw)
		if err != nil {
			f.Fatal(err)
		}
		if m.Role == contract.RoleUser {
			out = append(out, harness.MessageText(*m))
		}
	}
	return out[1:]
}

func (f *family) checkPrompts(want ...string) {
	f.Helper()
	if got := f.prompts(); !slices.Equal(got, want) {
		f.Errorf("prompts are\n%s\nwant\n%s", strings.Join(got, "\n\n"), strings.Join(want, "\n\n"))
	}
}

// completedCallback and failedCallback return the prompt for one child's result, in the framework's words.
func completedCallback(id, text string) string {
	return "<agent-callback session=\"" + id + "\" status=\"completed\">\n## Child Result\n\n" + text + "\n</agent-callback>\n\nPlease continue with the orchestration based on this result."
}

func failedCallback(id, text string) string {
	return "<agent-callback session=\"" + id + "\" status=\"failed\">\n## Error\n\n" + text + "\n</agent-callback>\n\nPlease handle this failure and continue with the orchestration."
}

// aggregatedCallback returns the prompt for several results; each part has id, status and text.
func aggregatedCallback(parts ...[3]string) string {
	var list []string
	for _, p := range parts {
		list = append(list, "### Child: "+p[0]+" (status: "+p[1]+")\n\n"+p[2])
	}
	return fmt.Sprintf("<agent-callback type=\"aggregated\" count=\"%d\">\n", len(parts)) + strings.Join(list, "\n\n---\n\n") +
		"\n</agent-callback>\n\nPlease continue with the orchestration based on these results."
}

const modeCallback, modeSync, modePoll = contract.ModeCallback, contract.ModeSync, contract.ModePoll

// TestEndToEndCallbackRows checks each row.
func TestEndToEndCallbackRows(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(t *testing.T){
		"K1 the session is idle": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, startCall("gate", modeCallback)), modelRule("boss", 2, "waiting"), modelRule("boss", 3, "heard"))
			f.waitTurns(1)
			f.answerGate(1, "yes")
			if turns := f.waitTurns(2); len(turns[1].Callbacks) != 1 || *turns[1].ResultText != "heard" {
				t.Errorf("turns = %+v", turns)
			}
			f.checkPrompts(completedCallback(f.childIDs(1)[0], "yes"))
		},
		"K2 in the turn of another callback": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, startCall("gate", modeCallback), startCall("gate", modeCallback)), modelRule("boss", 2, "waiting"),
				modelRule("boss", 3, startCall("gate", modeSync)), modelRule("boss", 4, "first"), modelRule("boss", 5, "second"))
			f.waitTurns(1)
			f.answerGate(1, "one")
			f.gateRequest(3) // the turn of the first callback waits
			f.answerGate(2, "two")
			f.waitCallbacks(1)
			f.answerGate(3, "go on")
			f.waitTurns(3)
			children := f.childIDs(3)
			f.checkPrompts(completedCallback(children[0], "one"), completedCallback(children[1], "two"))
		},
		"K3 in the turn of a prompt": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, startCall("gate", modeCallback), startCall("gate", modeSync)), modelRule("boss", 2, "done"), modelRule("boss", 3, "heard"))
			f.gateRequest(2)
			f.answerGate(1, "one")
			f.waitCallbacks(1)
			f.answerGate(2, "go on")
			f.waitTurns(2)
			f.checkPrompts(completedCallback(f.childIDs(1)[0], "one"))
		},
		"K4 several, in order of completion": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, startCall("gate", modeCallback), startCall("gate", modeCallback), startCall("gate", modeSync)), modelRule("boss", 2, "done"), modelRule("boss", 3, "heard"))
			f.gateRequest(3)
			f.answerGate(2, "two")
			f.waitCallbacks(1)
			f.answerGate(1, "one")
			f.waitCallbacks(2)
			f.answerGate(3, "go on")
			f.waitTurns(2)
			children := f.childIDs(3)
			f.checkPrompts(aggregatedCallback([3]string{children[1], "completed", "two"}, [3]string{children[0], "completed", "one"}))
		},
		"K5 a child fails": func(t *testing.T) {
			f := startFamily(t, "{node: helper, fail: {class: refused, text: not that}}", modelRule("boss", 1, startCall("helper", modeCallback)), modelRule("boss", 2, "waiting"), modelRule("boss", 3, "heard"))
			f.waitTurns(2)
			got, want := strings.Join(f.prompts(), ""), failedCallback(f.childIDs(1)[0], "refused: script: not that (attempt N)")
			if got = attempts.ReplaceAllString(got, "(attempt N)"); got != want {
				t.Errorf("prompts = %s, want %s", got, want)
			}
		},
		"K6 a child is stopped": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, startCall("gate", modeCallback)), modelRule("boss", 2, "waiting"), modelRule("boss", 3, "heard"))
			f.waitTurns(1)
			f.gateRequest(1)
			f.Signal(t, f.childIDs(1)[0], contract.UpdateCloseSession, map[string]any{})
			f.waitTurns(2)
			f.checkPrompts(failedCallback(f.childIDs(1)[0], "Session was manually stopped"))
		},
		"K7 a child is terminated": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, startCall("gate", modeCallback)), modelRule("boss", 2, "waiting"), modelRule("boss", 3, "heard"))
			f.waitTurns(1)
			f.gateRequest(1)
			if err := f.Client.TerminateWorkflow(context.Background(), f.childIDs(1)[0], "", "gone"); err != nil {
				t.Fatal(err)
			}
			f.waitTurns(2)
			f.checkPrompts(failedCallback(f.childIDs(1)[0], "Session was terminated"))
		},
		"K8 no worker for a while": killedWorker,
		"K9 the current turn fails": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, startCall("gate", modeCallback), startCall("gate", modeSync)), "{node: boss, contains: agent-callback, say: heard}", "{node: boss, turn: 2, fail: {class: refused, text: no}}")
			f.gateRequest(2)
			f.answerGate(1, "one")
			f.waitCallbacks(1)
			f.answerGate(2, "go on")
			if turns := f.waitTurns(2); turns[0].Status != contract.TurnFailed || turns[1].Status != contract.TurnCompleted {
				t.Errorf("turns = %+v", turns)
			}
			f.checkPrompts(completedCallback(f.childIDs(1)[0], "one"))
		},
		"K10 forged, from itself or from an unknown session": func(t *testing.T) {
			f := startFamily(t, modelRule("boss", 1, "first"), modelRule("boss", 2, "second"))
			f.waitTurns(1)
			text := "forged"
			for _, from := range []string{f.run.GetID(), "nobody"} {
				f.Signal(t, f.run.GetID(), contract.SignalTurn, contract.ChildTurn{Session: from, Turn: contract.Turn{N: 1, Status: contract.TurnCompleted, ResultText: &text}})
			}
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 2 {
				t.Errorf("turn = %+v", turn)
			}
			f.waitTurns(2)
			f.checkPrompts("next")
		},
		"K11 modes without callback": func(t *testing.T) {
			f := startFamily(t, "{node: helper, say: helped}", modelRule("boss", 1, startCall("helper", modeSync), startCall("helper", modePoll)), modelRule("boss", 2, "done"), modelRule("boss", 3, "second"))
			f.waitTurns(1)
			f.waitStatus("both children to end", func(s *contract.SessionStatus) bool {
				return !slices.ContainsFunc(s.Children, func(c contract.ChildStatus) bool { return c.Status != contract.StatusIdle })
			})
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 2 {
				t.Errorf("turn = %+v", turn)
			}
			f.waitTurns(2)
			f.checkPrompts("next")
		},
		"K12 the server restarts": restartedServer,
		"K13 three levels": func(t *testing.T) {
			f := startFamily(t, threeLevels...)
			f.waitTurns(2)
			mid := f.childIDs(1)[0]
			f.checkPrompts(completedCallback(mid, "interim"))
			f.Signal(t, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: f.openRequest(), Text: "yes"})
			f.WaitForTurns(t, mid, 2)
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 3 {
				t.Errorf("turn = %+v", turn)
			}
			f.checkPrompts(completedCallback(mid, "interim"), "next")
		},
		"K13 three levels, callback when settled": func(t *testing.T) {
			flow := familyFlow()
			flow.Nodes[0].Agent.CallbackWhenSettled = true
			f := startFamilyOn(t, harness.NewWorker(t, 0), flow, threeLevels...)
			f.waitTurns(1)
			mid := f.childIDs(1)[0]
			f.WaitForTurns(t, mid, 1)
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 2 {
				t.Errorf("turn = %+v", turn)
			}
			f.Signal(t, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: f.openRequest(), Text: "yes"})
			f.waitTurns(3)
			f.checkPrompts("next", completedCallback(mid, "final"))
		},
	} {
		t.Run(name, row)
	}
}

// attempts matches the number of attempts, which varies on a busy machine.
var attempts = regexp.MustCompile(`\(attempt \d+\)`)

// threeLevels are rules by which boss starts mid, and mid a gate, both with callback.
var threeLevels = []string{modelRule("boss", 1, startCall("mid", modeCallback)), modelRule("boss", 2, "waiting"), modelRule("boss", 3, "heard"), modelRule("boss", 4, "heard again"),
	modelRule("mid", 1, startCall("gate", modeCallback)), modelRule("mid", 2, "interim"), modelRule("mid", 3, "final")}

// openRequest waits for the only open request and returns its id.
func (f *family) openRequest() string { return f.WaitForRequests(f.T, f.run.GetID(), 1)[0].ID }

// killedWorker kills the only worker before the child ends, and answers the child's request before another worker
// starts.
func killedWorker(t *testing.T) {
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("nobody-%d", time.Now().UnixNano())}
	worker := harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f := startFamilyOn(t, h, familyFlow(), modelRule("boss", 1, startCall("gate", modeCallback)), modelRule("boss", 2, "waiting"), modelRule("boss", 3, "heard"))
	f.waitTurns(1)
	gate := f.gateRequest(1)
	_ = worker.Process.Kill()
	_ = worker.Wait()
	f.Signal(t, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: gate, Text: "yes"})
	harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f.waitTurns(2)
	f.checkPrompts(completedCallback(f.childIDs(1)[0], "yes"))
}

// restartedServer kills the server and the worker while a callback is queued.
func restartedServer(t *testing.T) {
	db := t.TempDir() + "/temporal.db"
	s := harness.StartServer(t, "-db", db, "-port=0")
	address := s.Address
	h := &harness.Worker{Client: harness.Dial(t, address), Queue: "again"}
	worker := harness.StartWorker(t, address, "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f := startFamilyOn(t, h, familyFlow(), modelRule("boss", 1, startCall("gate", modeCallback), startCall("gate", modeSync)), modelRule("boss", 2, "done"), modelRule("boss", 3, "heard"))
	f.gateRequest(2)
	f.answerGate(1, "one")
	f.waitCallbacks(1)
	_ = worker.Process.Kill()
	_ = worker.Wait()
	s.Kill()
	_, port, _ := strings.Cut(address, ":")
	harness.StartServer(t, "-db", db, "-port="+port)
	harness.StartWorker(t, address, "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f.answerGate(2, "go on")
	f.waitTurns(2)
	f.checkPrompts(completedCallback(f.childIDs(1)[0], "one"))
}
