package dialects

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/tests/harness"
)

// specCase is a test case for a document in testdata/agentspec: a run's params, the model's script and the expected outputs.
type specCase struct {
	params, script, want string
	// results are the results of client-side tools, by tool. Confirmation requests are approved.
	results map[string]string
}

var specCases = map[string]specCase{
	"loop":  {params: `{"n": 0, "unit": "laps"}`, script: `rules: [{match: "After 0 laps", say: "1"}, {match: "After 1 laps", say: "2"}, {match: "After 2 laps", say: "3"}]`, want: `{"reached":3}`},
	"names": {params: `{"amount": 7.9, "list": [1, 2.5], "ok": true}`, script: `rules: [{match: "Tell 7.9 \\[1, 2.5\\] true", say: seven}, {match: Shout seven, say: SEVEN}]`, want: `{"amount":7,"list":["1","2.5"],"ok":1,"word":"SEVEN"}`},
	"maps":  {params: `{"table": [[1, 2], [], [10, 1]]}`, want: `{"largest":11,"means":[1.5,0,5.5]}`},
	"outer": {params: `{"go": "yes", "words": ["one", "two"], "who": "Ann", "tongue": "French"}`, script: `rules: [{contains: Greet Ann, say: Hello}, {contains: Say one in French, say: un}, {contains: Say two in French, say: deux}]`,
		want: `{"line":"Hello","lines":["un","deux"]}`},
	"asked": {params: `{"size": 3}`, want: `{"text":"done"}`, script: `rules:
- {node: desk, turn: 1, call: [{tool: send_message, arguments: {recipient: count, message: once}}, {tool: send_message, arguments: {recipient: count, message: twice}}, {tool: send_message, arguments: {recipient: greet, message: hello}}, {tool: send_message, arguments: {recipient: help, message: count}}]}
- {node: desk, turn: 2, contains: "the count is 7", call: [{tool: submit_result, arguments: {text: done}}]}
- {node: desk/help/asked, turn: 1, call: [{tool: send_message, arguments: {recipient: count, message: for help}}]}
- {node: desk/help/asked, contains: '{"n":7}', say: the count is 7}
- {node: c2, contains: once, call: [{tool: submit_result, arguments: {n: 1}}]}
- {node: c2, contains: twice, call: [{tool: submit_result, arguments: {n: 2}}]}
- {node: c2, contains: for help, call: [{tool: submit_result, arguments: {n: 7}}]}`},
	"caught": {params: `{"text": "a"}`, script: `rules: [{say: many}]`, want: `{"n":-1}`},
	"apart": {params: `{"who": "Ann"}`, want: `{"thought":"own","heard":"all"}`, script: `rules:
- {node: think, contains: "Hello, Ann", fail: {class: refused, text: it heard the other conversation}}
- {node: think, contains: "I think of Ann", call: [{tool: submit_result, arguments: {thought: own}}]}
- {node: last, contains: "I think of Ann", fail: {class: refused, text: it heard the other conversation}}
- {node: last, contains: "Hello, Ann", call: [{tool: submit_result, arguments: {heard: all}}]}`},
	"clients": {params: `{"city": "Oslo"}`, results: map[string]string{"sky": `"clear"`, "heat": `21`}, want: `{"sky":"clear","degrees":21}`},
}

func (c specCase) input(t *testing.T, name string) contract.RunInput {
	t.Helper()
	res, diags := specadapter.Load(name+".yaml", []byte(harness.ReadFile(t, "../testdata/agentspec/"+name+".yaml")), specadapter.Options{Profile: "strict"})
	if res == nil {
		t.Fatal(diags)
	}
	in := contract.RunInput{V: contract.Version, Model: "script", Flow: contract.FlowRef{Plan: res.Flow, Source: &res.Source}, Params: json.RawMessage(c.params)}
	if c.script != "" {
		in.Script = harness.Script(t, c.script)
	}
	return in
}

// answer returns the name and the argument of the signal that answers a request.
func (c specCase) answer(r contract.Request) (string, any) {
	if yes := true; r.Kind == contract.RequestConfirm {
		return r.Kind, contract.ConfirmAnswer{ID: r.ID, Approve: &yes}
	}
	return contract.RequestToolResult, contract.ToolResultAnswer{ID: r.ID, Result: json.RawMessage(c.results[r.Tool])}
}

// TestAgentSpecCases checks loops, data flow by names, casts, nested maps, caught exceptions and client-side tools in branches
// against the specification.
func TestAgentSpecCases(t *testing.T) {
	t.Parallel()
	for name, c := range specCases {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{SetInput: func(in *contract.RunInput) { *in = c.input(t, name) }, Prepare: func(env *testsuite.TestWorkflowEnvironment) {
				for i := range 12 {
					harness.AtTime(env, time.Duration(i+1)*time.Hour, func() {
						var now contract.Status
						harness.Query(t, env, contract.QueryStatus, &now)
						for _, r := range now.Requests {
							env.SignalWorkflow(c.answer(r))
						}
					})
				}
			}}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if got := string(p.Result.ResultData); got != c.want {
				t.Errorf("outputs = %s, want %s", got, c.want)
			}
		})
	}
}

// TestEndToEndRecordCases runs the cases on a real server, and records and replays their histories.
func TestEndToEndRecordCases(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	for name, c := range specCases {
		t.Run(name, func(t *testing.T) {
			run := h.Start(t, c.input(t, name))
			var answered []string
			for range len(c.results) * 2 {
				harness.WaitFor(t, "the run to end or to open a request", func() bool {
					s := h.Status(t, run.GetID())
					for _, r := range s.Requests {
						if !slices.Contains(answered, r.ID) {
							answered = append(answered, r.ID)
							name, answer := c.answer(r)
							if _, err := h.Update(t, run.GetID(), name, answer); err != nil {
								t.Fatal(err)
							}
							return true
						}
					}
					return s.Status != "running" && s.Status != "waiting"
				})
			}
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out.ResultData); got != c.want {
				t.Errorf("outputs = %s, want %s", got, c.want)
			}
			harness.Record(t, h.Client, "agentspec-"+name, run.GetID(), run.GetRunID())
		})
	}
}
