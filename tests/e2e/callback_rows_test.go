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

// The rows K1 to K13 of the blueprint dialect's conformance table: when a session is told of those
// that it started, and how. Where the framework loses a callback (K8, K9, K12) it is delivered here.
// The rows Z and U are in starter/rows_e2e_test.go.

// family is a session of the agent boss, which may start these: helper, whose model answers; gate,
// which asks a person; mid, which may start others itself.
type family struct {
	*testing.T
	*harness.Worker
	run client.WorkflowRun
}

// familyFlow is boss with those it may start.
func familyFlow() *plan.Flow {
	all := []plan.Startable{{Agent: "gate", Type: "autonomous"}, {Agent: "helper", Type: "autonomous"}, {Agent: "mid", Type: "autonomous"}}
	f, gate := harness.AgentFlow("boss", all...), harness.AgentFlow("gate")
	gate.Nodes[0].Kind, gate.Nodes[0].Agent, gate.Nodes[0].Ask = plan.KindAsk, nil, &plan.Ask{Text: "May it go on?"}
	f.Agents = []plan.Flow{*gate, *harness.AgentFlow("helper"), *harness.AgentFlow("mid", all...)}
	return f
}

// begets starts a family on a worker of its own.
func begets(t *testing.T, rules ...string) *family {
	t.Helper()
	return familyOn(t, harness.NewWorker(t, 0), familyFlow(), rules...)
}

func familyOn(t *testing.T, h *harness.Worker, flow *plan.Flow, rules ...string) *family {
	t.Helper()
	return &family{t, h, h.StartSession(t, flow, "rules:\n- "+strings.Join(rules, "\n- ")+"\n", 0)}
}

// launches is a call that starts a session in a mode.
func launches(agent, mode string) string {
	return fmt.Sprintf(`{tool: start_agent_session, arguments: {agent_name: %s, mode: %s, parameters: {prompt: go}}}`, agent, mode)
}

// does is the rule of an agent's n-th call of its model: calls, or a text.
func does(agent string, n int, calls ...string) string {
	if len(calls) == 1 && !strings.HasPrefix(calls[0], "{") {
		return fmt.Sprintf("{node: %s, turn: %d, say: %s}", agent, n, calls[0])
	}
	return fmt.Sprintf("{node: %s, turn: %d, call: [%s]}", agent, n, strings.Join(calls, ", "))
}

// look asks a session how it stands until that is what is wanted.
func (f *family) look(what string, ok func(s *contract.SessionStatus) bool) *contract.SessionStatus {
	f.Helper()
	var st contract.Status
	harness.WaitFor(f, what, func() bool {
		v, err := f.Client.QueryWorkflow(context.Background(), f.run.GetID(), "", contract.QueryStatus)
		st = contract.Status{}
		return err == nil && v.Get(&st) == nil && st.Session != nil && ok(st.Session)
	})
	return st.Session
}

// idle waits until the session has ended so many turns, and gives them.
func (f *family) idle(n int) []contract.Turn {
	f.Helper()
	f.look(fmt.Sprintf("%d turns", n), func(s *contract.SessionStatus) bool { return s.Turns >= n && s.Turn.Done() })
	out := f.Turns(f.T, f.run.GetID(), n)
	if len(out) != n {
		f.Errorf("the session has %d turns, want %d: %+v", len(out), n, out)
	}
	return out
}

// children waits until the session has started so many, and gives their ids in that order.
func (f *family) children(n int) []string {
	f.Helper()
	var out []string
	for _, c := range f.look(fmt.Sprintf("%d children", n), func(s *contract.SessionStatus) bool { return len(s.Children) >= n }).Children {
		out = append(out, c.ID)
	}
	return out
}

// asked waits for the request of a gate, the n-th session that was started.
func (f *family) asked(n int) string {
	f.Helper()
	child, id := f.children(n)[n-1], ""
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

// opens answers the gate that was started as the n-th.
func (f *family) opens(n int, text string) {
	f.Helper()
	f.Signal(f.T, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: f.asked(n), Text: text})
}

// queued waits until so many callbacks wait for the session's next turn.
func (f *family) queued(n int) {
	f.Helper()
	f.look(fmt.Sprintf("%d callbacks that wait", n), func(s *contract.SessionStatus) bool { return s.Callbacks == n })
}

// prompts are what the session was given, without the first.
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

func (f *family) told(want ...string) {
	f.Helper()
	if got := f.prompts(); !slices.Equal(got, want) {
		f.Errorf("the session was told\n%s\nwant\n%s", strings.Join(got, "\n\n"), strings.Join(want, "\n\n"))
	}
}

// completed and failed are callbacks of one session, as the framework writes them.
func completed(id, text string) string {
	return "<agent-callback session=\"" + id + "\" status=\"completed\">\n## Child Result\n\n" + text + "\n</agent-callback>\n\nPlease continue with the orchestration based on this result."
}

func failed(id, text string) string {
	return "<agent-callback session=\"" + id + "\" status=\"failed\">\n## Error\n\n" + text + "\n</agent-callback>\n\nPlease handle this failure and continue with the orchestration."
}

// aggregated is a callback of several; parts are id, status and text.
func aggregated(parts ...[3]string) string {
	var list []string
	for _, p := range parts {
		list = append(list, "### Child: "+p[0]+" (status: "+p[1]+")\n\n"+p[2])
	}
	return fmt.Sprintf("<agent-callback type=\"aggregated\" count=\"%d\">\n", len(parts)) + strings.Join(list, "\n\n---\n\n") +
		"\n</agent-callback>\n\nPlease continue with the orchestration based on these results."
}

const calledBack, waitedFor, polled = contract.ModeCallback, contract.ModeSync, contract.ModePoll

// TestEndToEndCallbackRows has a test for each row.
func TestEndToEndCallbackRows(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(t *testing.T){
		"K1 the session is idle": func(t *testing.T) {
			f := begets(t, does("boss", 1, launches("gate", calledBack)), does("boss", 2, "waiting"), does("boss", 3, "heard"))
			f.idle(1)
			f.opens(1, "yes")
			if turns := f.idle(2); len(turns[1].Callbacks) != 1 || *turns[1].ResultText != "heard" {
				t.Errorf("the turns are %+v", turns)
			}
			f.told(completed(f.children(1)[0], "yes"))
		},
		"K2 the session is in the turn of another callback": func(t *testing.T) {
			f := begets(t, does("boss", 1, launches("gate", calledBack), launches("gate", calledBack)), does("boss", 2, "waiting"),
				does("boss", 3, launches("gate", waitedFor)), does("boss", 4, "first"), does("boss", 5, "second"))
			f.idle(1)
			f.opens(1, "one")
			f.asked(3) // the turn of the first callback waits
			f.opens(2, "two")
			f.queued(1)
			f.opens(3, "go on")
			f.idle(3)
			kids := f.children(3)
			f.told(completed(kids[0], "one"), completed(kids[1], "two"))
		},
		"K3 the session is in a turn of its own": func(t *testing.T) {
			f := begets(t, does("boss", 1, launches("gate", calledBack), launches("gate", waitedFor)), does("boss", 2, "done"), does("boss", 3, "heard"))
			f.asked(2)
			f.opens(1, "one")
			f.queued(1)
			f.opens(2, "go on")
			f.idle(2)
			f.told(completed(f.children(1)[0], "one"))
		},
		"K4 several come together, in the order in which they ended": func(t *testing.T) {
			f := begets(t, does("boss", 1, launches("gate", calledBack), launches("gate", calledBack), launches("gate", waitedFor)), does("boss", 2, "done"), does("boss", 3, "heard"))
			f.asked(3)
			f.opens(2, "two")
			f.queued(1)
			f.opens(1, "one")
			f.queued(2)
			f.opens(3, "go on")
			f.idle(2)
			kids := f.children(3)
			f.told(aggregated([3]string{kids[1], "completed", "two"}, [3]string{kids[0], "completed", "one"}))
		},
		"K5 a session that fails": func(t *testing.T) {
			f := begets(t, "{node: helper, fail: {class: refused, text: not that}}", does("boss", 1, launches("helper", calledBack)), does("boss", 2, "waiting"), does("boss", 3, "heard"))
			f.idle(2)
			got, want := strings.Join(f.prompts(), ""), failed(f.children(1)[0], "refused: script: not that (attempt N)")
			if got = attempts.ReplaceAllString(got, "(attempt N)"); got != want {
				t.Errorf("the session was told %s, want %s", got, want)
			}
		},
		"K6 a session that is stopped": func(t *testing.T) {
			f := begets(t, does("boss", 1, launches("gate", calledBack)), does("boss", 2, "waiting"), does("boss", 3, "heard"))
			f.idle(1)
			f.asked(1)
			f.Signal(t, f.children(1)[0], contract.UpdateCloseSession, map[string]any{})
			f.idle(2)
			f.told(failed(f.children(1)[0], "Session was manually stopped"))
		},
		"K7 a session that is lost": func(t *testing.T) {
			f := begets(t, does("boss", 1, launches("gate", calledBack)), does("boss", 2, "waiting"), does("boss", 3, "heard"))
			f.idle(1)
			f.asked(1)
			if err := f.Client.TerminateWorkflow(context.Background(), f.children(1)[0], "", "gone"); err != nil {
				t.Fatal(err)
			}
			f.idle(2)
			f.told(failed(f.children(1)[0], "Session was terminated"))
		},
		"K8 nobody works for a while": nobodyWorks,
		"K9 the session's own turn fails": func(t *testing.T) {
			f := begets(t, does("boss", 1, launches("gate", calledBack), launches("gate", waitedFor)), "{node: boss, contains: agent-callback, say: heard}", "{node: boss, turn: 2, fail: {class: refused, text: no}}")
			f.asked(2)
			f.opens(1, "one")
			f.queued(1)
			f.opens(2, "go on")
			if turns := f.idle(2); turns[0].Status != contract.TurnFailed || turns[1].Status != contract.TurnCompleted {
				t.Errorf("the turns are %+v", turns)
			}
			f.told(completed(f.children(1)[0], "one"))
		},
		"K10 from itself, and from a session that it did not start": func(t *testing.T) {
			f := begets(t, does("boss", 1, "first"), does("boss", 2, "second"))
			f.idle(1)
			text := "forged"
			for _, from := range []string{f.run.GetID(), "nobody"} {
				f.Signal(t, f.run.GetID(), contract.SignalTurn, contract.ChildTurn{Session: from, Turn: contract.Turn{N: 1, Status: contract.TurnCompleted, ResultText: &text}})
			}
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 2 {
				t.Errorf("the turn is %+v", turn)
			}
			f.idle(2)
			f.told("next")
		},
		"K11 modes that do not call back": func(t *testing.T) {
			f := begets(t, "{node: helper, say: helped}", does("boss", 1, launches("helper", waitedFor), launches("helper", polled)), does("boss", 2, "done"), does("boss", 3, "second"))
			f.idle(1)
			f.look("both to have ended", func(s *contract.SessionStatus) bool {
				return !slices.ContainsFunc(s.Children, func(c contract.ChildStatus) bool { return c.Status != contract.StatusIdle })
			})
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 2 {
				t.Errorf("the turn is %+v", turn)
			}
			f.idle(2)
			f.told("next")
		},
		"K12 the server is started again": serverAgain,
		"K13 three levels": func(t *testing.T) {
			f := begets(t, threeLevels...)
			f.idle(2)
			mid := f.children(1)[0]
			f.told(completed(mid, "interim"))
			f.Signal(t, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: f.any(), Text: "yes"})
			f.Turns(t, mid, 2)
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 3 {
				t.Errorf("the turn is %+v", turn)
			}
			f.told(completed(mid, "interim"), "next")
		},
		"K13 three levels, told when all is settled": func(t *testing.T) {
			flow := familyFlow()
			flow.Nodes[0].Agent.CallbackWhenSettled = true
			f := familyOn(t, harness.NewWorker(t, 0), flow, threeLevels...)
			f.idle(1)
			mid := f.children(1)[0]
			f.Turns(t, mid, 1)
			if turn := f.Prompt(t, f.run.GetID(), "a", "next"); turn.N != 2 {
				t.Errorf("the turn is %+v", turn)
			}
			f.Signal(t, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: f.any(), Text: "yes"})
			f.idle(3)
			f.told("next", completed(mid, "final"))
		},
	} {
		t.Run(name, row)
	}
}

// attempts are more than one on a machine that was busy.
var attempts = regexp.MustCompile(`\(attempt \d+\)`)

// threeLevels has boss start mid, and mid a gate, each to be called back.
var threeLevels = []string{does("boss", 1, launches("mid", calledBack)), does("boss", 2, "waiting"), does("boss", 3, "heard"), does("boss", 4, "heard again"),
	does("mid", 1, launches("gate", calledBack)), does("mid", 2, "interim"), does("mid", 3, "final")}

// any is the request that is open.
func (f *family) any() string { return f.OpenRequests(f.T, f.run.GetID(), 1)[0].ID }

// nobodyWorks kills the only worker before the session below ends, and sends what ends it while
// there is none.
func nobodyWorks(t *testing.T) {
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("nobody-%d", time.Now().UnixNano())}
	worker := harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f := familyOn(t, h, familyFlow(), does("boss", 1, launches("gate", calledBack)), does("boss", 2, "waiting"), does("boss", 3, "heard"))
	f.idle(1)
	gate := f.asked(1)
	_ = worker.Process.Kill()
	_ = worker.Wait()
	f.Signal(t, f.run.GetID(), contract.RequestMessage, contract.MessageAnswer{ID: gate, Text: "yes"})
	harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f.idle(2)
	f.told(completed(f.children(1)[0], "yes"))
}

// serverAgain kills the server and the worker while a callback waits for its turn.
func serverAgain(t *testing.T) {
	db := t.TempDir() + "/temporal.db"
	s := harness.StartServer(t, "-db", db, "-port=0")
	address := s.Address
	h := &harness.Worker{Client: harness.Dial(t, address), Queue: "again"}
	worker := harness.StartWorker(t, address, "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f := familyOn(t, h, familyFlow(), does("boss", 1, launches("gate", calledBack), launches("gate", waitedFor)), does("boss", 2, "done"), does("boss", 3, "heard"))
	f.asked(2)
	f.opens(1, "one")
	f.queued(1)
	_ = worker.Process.Kill()
	_ = worker.Wait()
	s.Kill()
	_, port, _ := strings.Cut(address, ":")
	harness.StartServer(t, "-db", db, "-port="+port)
	harness.StartWorker(t, address, "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	f.opens(2, "go on")
	f.idle(2)
	f.told(completed(f.children(1)[0], "one"))
}
