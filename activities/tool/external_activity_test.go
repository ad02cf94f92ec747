package tool

import (
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

func TestExternalActivities(t *testing.T) {
	_, err := Open(Settings{
		Connections: map[string]Connection{"web": {URL: "https://x.test/mcp"}}, Tools: map[string]string{"both": "web"},
		Activities: map[string]Activity{
			"none": {}, "schema": {TaskQueue: "q", Schema: `{"type":"strin"}`}, "json": {TaskQueue: "q", Schema: `{`}, "list": {TaskQueue: "q", Schema: `{"type":"array"}`},
			"never": {TaskQueue: "q", Retry: "never", Attempts: 2}, "both": {TaskQueue: "q"},
		},
	})
	f := wantFailure(t, err, contract.ClassConnection,
		"activities.none.task_queue: is empty", "activities.schema.schema: must have type object", "activities.json.schema: is not JSON", "activities.list.schema: must have type object",
		"activities.never.attempts: is 2, but retry is never",
		`activities.both: tools.both already binds the tool to connection "web"`)
	if len(f.Diagnostics) != 6 {
		t.Errorf("%d diagnostics: %q", len(f.Diagnostics), f.Diagnostics)
	}
	tools, err := Open(Settings{Activities: map[string]Activity{"pack": {TaskQueue: "q", Retry: "never", Key: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	at, err := tools.Resolve(plan.Connection{}, "pack")
	if err != nil || at.Kind != plan.ConnectionActivity {
		t.Errorf("resolved to %+v, %v", at, err)
	}
	options, spec, err := tools.ExternalActivity("pack")
	if err != nil || *options != (contract.ExternalActivity{Activity: "pack", TaskQueue: "q", StartSeconds: 60, Attempts: 1, IdempotencyKey: true}) || string(spec.Schema) != `{"type":"object"}` {
		t.Errorf("got %+v, %+v, %v", options, spec, err)
	}
	// The workflow schedules such a tool; the worker rejects a direct call.
	_, err = tools.Call(t.Context(), contract.ToolInput{Connection: at, Name: "pack"}, Meta{})
	wantFailure(t, err, contract.ClassConnection, "which the run schedules itself")
}
