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

// payload is an argument as it is sent, of an encoding.
func payload(encoding, data string) converter.RawValue {
	p := &commonpb.Payload{Data: []byte(data)}
	if encoding != "" {
		p.Metadata = map[string][]byte{converter.MetadataEncoding: []byte(encoding)}
	}
	return converter.NewRawValue(p)
}

// TestUpdatesWithInvalidJSON sends Updates whose argument the SDK cannot decode: each is refused with a class
// and a remedy, as one of another shape is, and leaves the request open.
func TestUpdatesWithInvalidJSON(t *testing.T) {
	wrong := map[string]converter.RawValue{
		"text":     payload("json/plain", "approve"),
		"half":     payload("json/plain", `{"id": "`),
		"nothing":  payload("json/plain", ""),
		"bytes":    payload("binary/plain", "\x01\x02"),
		"null":     payload("binary/null", ""),
		"protobuf": payload("binary/protobuf", "\x0a\x01a"),
		"unknown":  payload("yaml/plain", "id: a"),
		"none":     payload("", `{"id": "a"}`),
	}
	got := map[string]*error{}
	steps := map[time.Duration]func(env *testsuite.TestWorkflowEnvironment){}
	steps[10*time.Second] = func(env *testsuite.TestWorkflowEnvironment) {
		for _, name := range append([]string{contract.UpdatePrompt, contract.UpdateCloseSession}, contract.Requests...) {
			for what, raw := range wrong {
				got[name+" of "+what] = new(error)
				ask(env, name, raw, got[name+" of "+what])
			}
		}
	}
	steps[300*time.Second] = func(env *testsuite.TestWorkflowEnvironment) {
		env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openOf(t, env).ID, "result": 1})
	}
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 0) }, Wrap: later(steps)}.Execute(t)
	if p.Err != nil || p.Status.Rejected != 0 {
		t.Errorf("%v, %d rejected", p.Err, p.Status.Rejected)
	}
	if len(got) == 0 {
		t.Error("no Update was sent")
	}
	for what, e := range got {
		err := *e
		if class := harness.ErrorType(err); class != contract.ClassBadRequest {
			t.Errorf("%s is refused with %q: %v", what, class, err)
			continue
		}
		if f := contract.FailureOf(err); !strings.Contains(f.Remedy, "send ") {
			t.Errorf("%s: the remedy is %q", what, f.Remedy)
		}
	}
}

// TestAmbiguousAnswers sends a yes that is a no as well, by Update and by signal: neither is taken,
// and the question stays open until somebody says one thing.
func TestAmbiguousAnswers(t *testing.T) {
	both := func(env *testsuite.TestWorkflowEnvironment) converter.RawValue {
		return payload("json/plain", `{"id": "`+openOf(t, env).ID+`", "result": {"paid": false}, "result": {"paid": true}}`)
	}
	var refused error
	var open []string
	steps := map[time.Duration]func(env *testsuite.TestWorkflowEnvironment){
		10 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
			ask(env, contract.RequestToolResult, both(env), &refused)
		},
		20 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
			env.SignalWorkflow(contract.RequestToolResult, both(env))
		},
		30 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
			open = append(open, openOf(t, env).ID)
			env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openOf(t, env).ID, "result": 1})
		},
	}
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 0) }, Wrap: later(steps)}.Execute(t)
	const want = `"result" appears twice, again at byte `
	if harness.ErrorType(refused) != contract.ClassBadRequest || !strings.Contains(refused.Error(), want) {
		t.Errorf("the Update gives %v", refused)
	}
	if p.Err != nil || len(open) != 1 || p.Status.Rejected != 1 || !strings.Contains(p.Status.RejectionReasons[0], want) {
		t.Errorf("%v; the status is %+v", p.Err, p.Status)
	}
}

// TestInputsWithInvalidJSON starts runs with what the SDK cannot decode: they fail with a class and a remedy.
func TestInputsWithInvalidJSON(t *testing.T) {
	t.Parallel()
	for _, name := range []string{contract.WorkflowFlow, contract.WorkflowBranch} {
		for what, raw := range map[string]converter.RawValue{
			"text": payload("json/plain", "flow"), "half": payload("json/plain", `{"v": 1`), "null": payload("binary/null", ""), "protobuf": payload("binary/protobuf", "\x0a\x01a"),
		} {
			env := harness.NewGraphEnv(t, harness.Fakes{})
			env.ExecuteWorkflow(name, raw)
			if f := contract.FailureOf(env.GetWorkflowError()); f == nil || f.Class != contract.ClassBadRequest || f.Remedy == "" {
				t.Errorf("%s of %s gives %+v", name, what, f)
			}
		}
	}
}
