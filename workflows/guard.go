package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// What Temporal refuses is measured before it is sent: a refused command would make the
// server fail the workflow task again and again.
const (
	// maxPayload is the most that one call's arguments, or one result, may hold. The
	// server's limit is 2 MiB.
	maxPayload = 1_900 << 10
	// maxTask is the most that the commands of one workflow task hold together. The
	// server's limit is 4 MiB.
	maxTask = 3 << 20
)

// guard counts what the commands of the current workflow task hold.
type guard struct {
	task, bytes int
}

// admit measures the arguments of a call that is about to be scheduled. Arguments that
// do not fit give a failure; a task that is full makes the run wait for the next one.
func (g *guard) admit(ctx workflow.Context, what string, arg any) error {
	n, err := weigh(arg)
	if err != nil {
		return err
	}
	if n > maxPayload {
		return tooLarge(what, n)
	}
	if task := workflow.GetInfo(ctx).GetCurrentHistoryLength(); task != g.task {
		g.task, g.bytes = task, 0
	}
	if g.bytes > 0 && g.bytes+n > maxTask {
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		g.task, g.bytes = workflow.GetInfo(ctx).GetCurrentHistoryLength(), 0
	}
	g.bytes += n
	return nil
}

// fits measures what is about to be returned.
func fits(what string, v any) error {
	n, err := size(v)
	if err != nil {
		return err
	}
	if n > maxPayload {
		return tooLarge(what, n)
	}
	return nil
}

// light is the weight under which a call is not measured to the byte.
const light = 64 << 10

// weigh is the size of what is about to be scheduled, or a bound of it where it is small:
// encoding every call twice would be most of what a workflow does.
func weigh(v any) (int, error) {
	if w, ok := v.(interface{ Weight() int }); ok {
		if n := w.Weight(); n < light {
			return n, nil
		}
	}
	return size(v)
}

func size(v any) (int, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	return len(b), nil
}

func tooLarge(what string, n int) *contract.Failure {
	return &contract.Failure{
		Class: contract.ClassTooLarge,
		Text:  fmt.Sprintf("%s is %d bytes, at most %d can be sent through Temporal", what, n, maxPayload),
		Remedy: "make the node write less to the state or answer shorter, " +
			"or have a tool keep the data and pass a reference to it",
	}
}
