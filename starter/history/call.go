package history

import (
	"encoding/json"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
)

// Call is an activity: a call of a model or a tool, or another activity of a flow.
type Call struct {
	// Scheduled is the id of the event that scheduled it, Time the event's time.
	Scheduled int64
	Time      time.Time
	// ID is the activity id without Place: node#step/kind/turn for a call of a node. Place is its prefix for a call of a map's
	// element in the map's run: node#step:element/.
	ID, Place string
	// Run is the run that makes the call; for a map's element, its workflow is the element's.
	Run Run
	// Kind is the activity type: one of the constants of contract, or a type of another worker.
	Kind      string
	TaskQueue string
	// Input is a pointer to the type that inputs has for Kind, or nil.
	Input any

	input *commonpb.Payloads
}

func (c *Call) madeIn() Run { return c.Run }

// Execution returns the execution that makes the call, node#step; ok is false if none does.
func (c *Call) Execution() (exec string, ok bool) {
	exec, _, ok = strings.Cut(c.ID, "/")
	return exec, ok && strings.Contains(exec, "#")
}

// resultOf decodes the result of the activity. It omits the plan that a node compiles for the prompt of a session's turn: it is not a flow of the run.
func (c *Call) resultOf(p *commonpb.Payloads) any {
	if _, inNode := c.Execution(); inNode && c.Kind == contract.ActivityCompileFlow {
		return nil
	}
	return results.decode(c.Kind, p)
}

// Argument returns the call's first argument as JSON, nil if it cannot be decoded. It is for
// activities of other workers, whose input type is unknown.
func (c *Call) Argument() json.RawMessage {
	var raw json.RawMessage
	if all := c.input.GetPayloads(); len(all) > 0 {
		Decode(&commonpb.Payloads{Payloads: all[:1]}, &raw)
	}
	return raw
}

type (
	// CallScheduled is the start of a call.
	CallScheduled struct{ *Call }
	// CallStarted is the start of the last attempt; Failure is the failure of the attempt before.
	CallStarted struct {
		*Call
		Attempt int32
		Failure *failurepb.Failure
	}
	// CallCompleted is the end of a call with a result: a pointer to the type that results has for Kind, or nil.
	CallCompleted struct {
		*Call
		Result any
		// Clock is the workflow time after a local activity; zero for other calls.
		Clock  time.Time
		result *commonpb.Payloads
	}
	// CallFailed is the end of a call without a result, after its last attempt.
	CallFailed struct {
		*Call
		Failure *failurepb.Failure
		// TimedOut reports whether it timed out.
		TimedOut bool
	}
	// CallCancelled is the end of a cancelled call.
	CallCancelled struct{ *Call }
)

// JSON returns the result as JSON, nil if it cannot be decoded.
func (c *CallCompleted) JSON() json.RawMessage {
	var raw json.RawMessage
	Decode(c.result, &raw)
	return raw
}

// Spent returns the usage of the model calls for the result; ok is false if there were none.
func (c *CallCompleted) Spent() (used contract.Usage, ok bool) {
	r, ok := c.Result.(interface{ Spent() contract.Usage })
	if ok {
		used = r.Spent()
	}
	return used, ok
}

type decoders map[string]func(*commonpb.Payloads) any

func (d decoders) decode(name string, p *commonpb.Payloads) any {
	if f := d[name]; f != nil {
		return f(p)
	}
	return nil
}

var inputs = decoders{
	contract.ActivityCallModel:         decoded[contract.ModelInput],
	contract.ActivityCallTool:          decoded[contract.ToolInput],
	contract.ActivityEvaluateCondition: decoded[contract.JudgeInput],
	contract.ActivityValidateAnswer:    decoded[contract.ValidateAnswerInput],
	contract.ActivityCompileFlow:       decoded[contract.CompileFlowInput],
}

var results = decoders{
	contract.ActivityCompileFlow:           decoded[contract.CompileFlowResult],
	contract.ActivityCallModel:             decoded[contract.ModelResult],
	contract.ActivityCallTool:              decoded[contract.ToolResult],
	contract.ActivityEvaluateCondition:     decoded[contract.JudgeResult],
	contract.ActivityValidateAnswer:        decoded[contract.ValidateAnswerResult],
	contract.ActivityListTools:             decoded[contract.CatalogueResult],
	contract.ActivityCondenseValue:         decoded[contract.CondenseResult],
	contract.ActivitySummariseConversation: decoded[contract.SummariseResult],
}

var bodies = decoders{
	contract.UpdatePrompt:       decoded[contract.PromptInput],
	contract.UpdateCloseSession: decoded[contract.CloseSessionInput],
	contract.SignalRequest:      decoded[contract.Request],
	contract.SignalCloseRequest: decoded[contract.RequestID],
	contract.SignalTurn:         decoded[contract.ChildTurn],
}

// decoded decodes payloads as a *T; it returns an untyped nil on failure.
func decoded[T any](p *commonpb.Payloads) any {
	if v := decodedAs[T](p); v != nil {
		return v
	}
	return nil
}

func decodedAs[T any](p *commonpb.Payloads) *T {
	v := new(T)
	if !Decode(p, v) {
		return nil
	}
	return v
}

// Decode decodes the first payload, and reports whether that succeeded.
func Decode(p *commonpb.Payloads, v any) bool {
	return converter.GetDefaultDataConverter().FromPayloads(p, v) == nil
}

// HeartbeatOf returns the last heartbeat of a call in progress, or nil.
func HeartbeatOf(p *workflowpb.PendingActivityInfo) *contract.Heartbeat {
	if p.GetHeartbeatDetails() == nil {
		return nil
	}
	return decodedAs[contract.Heartbeat](p.GetHeartbeatDetails())
}

// Waiting describes the limit that a scheduled call waits for, "" if it has started.
func Waiting(p *workflowpb.PendingActivityInfo) string {
	if f := TurnWait(p); f != nil && p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
		return f.Text + " until " + p.GetScheduledTime().AsTime().UTC().Format(time.RFC3339)
	}
	b := HeartbeatOf(p)
	if b == nil || b.Attempt != p.GetAttempt() {
		return ""
	}
	return b.Waiting
}

// TurnWait returns the failure of a call's last attempt if it was only waiting for its turn, otherwise nil.
func TurnWait(p *workflowpb.PendingActivityInfo) *contract.Failure {
	if f := decodedAs[contract.Failure](p.GetLastFailure().GetApplicationFailureInfo().GetDetails()); f != nil && f.Limit != nil {
		return f
	}
	return nil
}
