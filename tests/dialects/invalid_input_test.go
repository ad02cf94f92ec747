package dialects

import (
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/tests/harness"
)

// payload returns an argument with this encoding and raw data.
func payload(encoding, data string) converter.RawValue {
	p := &commonpb.Payload{Data: []byte(data)}
	if encoding != "" {
		p.Metadata = map[string][]byte{converter.MetadataEncoding: []byte(encoding)}
	}
	return converter.NewRawValue(p)
}

// TestUpdatesWithInvalidJSON checks that Updates whose argument the SDK cannot decode are rejected with a class
// and a remedy, like arguments of an invalid shape, and that the request remains open.
func TestUpdatesWithInvalidJSON(t *testing.T) {
	invalid := map[string]converter.RawValue{
		"text":        payload("json/plain", "approve"),
		"truncated":   payload("json/plain", `{"id": "`),
		"empty":       payload("json/plain", ""),
		"bytes":       payload("binary/plain", "\x01\x02"),
		"null":        payload("binary/null", ""),
		"protobuf":    payload("binary/protobuf", "\x0a\x01a"),
		"unknown":     payload("yaml/plain", "id: a"),
		"no encoding": payload("", `{"id": "a"}`),
	}
	got := map[string]*error{}
	steps := map[time.Duration]func(env *testsuite.TestWorkflowEnvironment){}
	steps[10*time.Second] = func(env *testsuite.TestWorkflowEnvironment) {
		for _, name := range append([]string{contract.UpdatePrompt, contract.UpdateCloseSession}, contract.Requests...) {
			for what, raw := range invalid {
				got[name+" of "+what] = new(error)
				sendUpdate(env, name, raw, got[name+" of "+what])
			}
		}
	}
	steps[300*time.Second] = func(env *testsuite.TestWorkflowEnvironment) {
		env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openRequest(t, env).ID, "result": 1})
	}
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 0) }, Wrap: atTimes(steps)}.Execute(t)
	if p.Err != nil || p.Status.Rejected != 0 {
		t.Errorf("run ended with %v; %d rejected messages, want 0", p.Err, p.Status.Rejected)
	}
	if len(got) == 0 {
		t.Error("no Update was sent")
	}
	for what, e := range got {
		err := *e
		if class := harness.ErrorType(err); class != contract.ClassBadRequest {
			t.Errorf("%s: class %q: %v", what, class, err)
			continue
		}
		if f := contract.FailureOf(err); !strings.Contains(f.Remedy, "send ") {
			t.Errorf("%s: remedy %q", what, f.Remedy)
		}
	}
}

// TestAmbiguousAnswers checks that an answer with a duplicate key is rejected, by Update and by signal,
// and that the request remains open until a client sends an unambiguous answer.
func TestAmbiguousAnswers(t *testing.T) {
	both := func(env *testsuite.TestWorkflowEnvironment) converter.RawValue {
		return payload("json/plain", `{"id": "`+openRequest(t, env).ID+`", "result": {"paid": false}, "result": {"paid": true}}`)
	}
	var rejection error
	var open []string
	steps := map[time.Duration]func(env *testsuite.TestWorkflowEnvironment){
		10 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
			sendUpdate(env, contract.RequestToolResult, both(env), &rejection)
		},
		20 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
			env.SignalWorkflow(contract.RequestToolResult, both(env))
		},
		30 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
			open = append(open, openRequest(t, env).ID)
			env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openRequest(t, env).ID, "result": 1})
		},
	}
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 0) }, Wrap: atTimes(steps)}.Execute(t)
	const want = `"result" appears twice, again at byte `
	if harness.ErrorType(rejection) != contract.ClassBadRequest || !strings.Contains(rejection.Error(), want) {
		t.Errorf("Update failed with %v", rejection)
	}
	if p.Err != nil || len(open) != 1 || p.Status.Rejected != 1 || !strings.Contains(p.Status.RejectionReasons[0], want) {
		t.Errorf("run ended with %v; status = %+v", p.Err, p.Status)
	}
}

// TestInputsWithInvalidJSON checks that runs whose input the SDK cannot decode fail with a class and a remedy.
func TestInputsWithInvalidJSON(t *testing.T) {
	t.Parallel()
	for _, name := range []string{contract.WorkflowFlow, contract.WorkflowBranch} {
		for what, raw := range map[string]converter.RawValue{
			"text": payload("json/plain", "flow"), "truncated": payload("json/plain", `{"v": 1`), "null": payload("binary/null", ""), "protobuf": payload("binary/protobuf", "\x0a\x01a"),
		} {
			env := harness.NewGraphEnv(t, harness.Fakes{})
			env.ExecuteWorkflow(name, raw)
			if f := contract.FailureOf(env.GetWorkflowError()); f == nil || f.Class != contract.ClassBadRequest || f.Remedy == "" {
				t.Errorf("%s with input %s failed with %+v", name, what, f)
			}
		}
	}
}
