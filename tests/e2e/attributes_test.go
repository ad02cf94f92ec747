package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
)

// shown is what a list has of a run, and how many events it took to write it.
type shown struct {
	Attributes, Memo map[string]string
	Upserts          int
}

func shownOf(t *testing.T, c client.Client, id, run string) shown {
	t.Helper()
	texts := func(fields map[string]*commonpb.Payload) map[string]string {
		out := map[string]string{}
		for key, p := range fields {
			var s string
			if strings.HasPrefix(key, "Weft") || strings.HasPrefix(key, "flow") {
				if err := converter.GetDefaultDataConverter().FromPayload(p, &s); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				out[key] = s
			}
		}
		return out
	}
	d, err := c.DescribeWorkflowExecution(context.Background(), id, run)
	if err != nil {
		t.Fatal(err)
	}
	info := d.GetWorkflowExecutionInfo()
	s := shown{Attributes: texts(info.GetSearchAttributes().GetIndexedFields()), Memo: texts(info.GetMemo().GetFields())}
	for _, e := range harness.Events(t, c, id, run) {
		if e.GetEventType() == enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES || e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED {
			s.Upserts++
		}
	}
	return s
}

// started are search attributes of a start request.
func started(pairs ...string) temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for i := 0; i < len(pairs); i += 2 {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(pairs[i]).ValueSet(pairs[i+1]))
	}
	return temporal.NewSearchAttributes(updates...)
}

// startAs starts a run with the given options.
func startAs(t *testing.T, h *harness.Worker, o client.StartWorkflowOptions, in contract.RunInput) client.WorkflowRun {
	t.Helper()
	in.V, in.Model = contract.Version, "script"
	o.TaskQueue, o.ID = h.Queue, fmt.Sprintf("run-%d", time.Now().UnixNano())
	run, err := h.Client.ExecuteWorkflow(context.Background(), o, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestEndToEndAttributes runs flows in a namespace that has the search attributes.
func TestEndToEndAttributes(t *testing.T) {
	t.Parallel()
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	h := &harness.Worker{Client: harness.Dial(t, address), Queue: "attributes"}
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
	t.Cleanup(h.Worker.Stop)

	long := strings.Repeat("ä", 300)
	name := strings.Repeat("ä", 255)
	doc := contract.FlowRef{Text: strings.Replace(harness.OneNode(""), `"one"`, `"`+long+`"`, 1), Name: "flow.json"}
	compiled, err := harness.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	plan := contract.FlowRef{Plan: compiled.Plan}
	says := harness.Script(t, `rules: [{say: done}]`)
	all := func(status string) map[string]string {
		return map[string]string{"WeftFlow": name, "WeftDialect": "continuum", "WeftPlanHash": compiled.Hash, "WeftStatus": status, "WeftPrincipal": "", "WeftTenant": ""}
	}
	memo := map[string]string{"flow": name, "flow_hash": compiled.Hash}
	full := client.StartWorkflowOptions{Memo: map[string]any{"flow": name, "flow_hash": compiled.Hash},
		TypedSearchAttributes: started("WeftFlow", name, "WeftDialect", "continuum", "WeftPlanHash", compiled.Hash, "WeftStatus", "running", "WeftPrincipal", "", "WeftTenant", "")}

	tests := map[string]struct {
		options client.StartWorkflowOptions
		in      contract.RunInput
		end     func(run client.WorkflowRun)
		want    shown
	}{
		"a document": {in: contract.RunInput{Flow: doc, Script: says}, want: shown{all("completed"), memo, 3}},
		"a document and all attributes": {options: full, in: contract.RunInput{Flow: doc, Script: says},
			want: shown{all("completed"), memo, 1}},
		"a document and one attribute": {options: client.StartWorkflowOptions{TypedSearchAttributes: started("WeftStatus", "running")},
			in: contract.RunInput{Flow: doc, Script: says}, want: shown{all("completed"), memo, 3}},
		"a plan and all attributes": {options: full, in: contract.RunInput{Flow: plan, Script: says}, want: shown{all("completed"), memo, 1}},
		"a plan and another attribute": {options: client.StartWorkflowOptions{TypedSearchAttributes: started("WeftFlow", "x")},
			in: contract.RunInput{Flow: plan, Script: says}, want: shown{map[string]string{"WeftFlow": "x"}, map[string]string{}, 0}},
		"a plan alone costs nothing": {in: contract.RunInput{Flow: plan, Script: says}, want: shown{map[string]string{}, map[string]string{}, 0}},
		"a run that fails": {options: full, in: contract.RunInput{Flow: plan, OnError: contract.OnErrorFail, Script: harness.Script(t, `rules: [{fail: {class: denied, text: no key}}]`)},
			want: shown{all("failed"), memo, 1}},
		"a run that is cancelled": {options: full, in: contract.RunInput{Flow: plan, Script: harness.Script(t, `rules: [{delay: 10m, say: late}]`)},
			end: func(run client.WorkflowRun) {
				harness.WaitFor(t, "the model call", func() bool {
					d, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID(), "")
					return err == nil && len(d.PendingActivities) == 1
				})
				if err := h.Client.CancelWorkflow(context.Background(), run.GetID(), ""); err != nil {
					t.Error(err)
				}
			}, want: shown{all("cancelled"), memo, 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			run := startAs(t, h, tc.options, tc.in)
			if tc.end != nil {
				tc.end(run)
			}
			_, _ = harness.Result(t, run) // some are meant to fail
			if diff := cmp.Diff(tc.want, shownOf(t, h.Client, run.GetID(), run.GetRunID())); diff != "" {
				t.Errorf("the run shows (-want +got):\n%s", diff)
			}
			harness.Record(t, h.Client, "not kept", run.GetID(), run.GetRunID())
		})
	}
	t.Run("a run that continues as new", func(t *testing.T) {
		run := startAs(t, h, client.StartWorkflowOptions{}, contract.RunInput{Flow: doc, MaxEvents: 1,
			Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: list_state_keys}]}, {say: done}]`)})
		first := run.GetRunID()
		if _, err := harness.Result(t, run); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(shown{all("running"), memo, 2}, shownOf(t, h.Client, run.GetID(), first)); diff != "" {
			t.Errorf("the first run shows (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(shown{all("completed"), memo, 1}, shownOf(t, h.Client, run.GetID(), "")); diff != "" {
			t.Errorf("the last run shows (-want +got):\n%s", diff)
		}
	})
	t.Run("a sub-agent shows nothing", func(t *testing.T) {
		run := startAs(t, h, client.StartWorkflowOptions{}, contract.RunInput{Flow: contract.FlowRef{Text: harness.SubAgentFlow, Name: "flow.json"}, Script: harness.Script(t, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {say: done}`)})
		if _, err := harness.Result(t, run); err != nil {
			t.Fatal(err)
		}
		children := 0
		for _, e := range harness.Events(t, h.Client, run.GetID(), "") {
			if s := e.GetChildWorkflowExecutionStartedEventAttributes(); s != nil {
				children++
				id := s.GetWorkflowExecution().GetWorkflowId()
				if diff := cmp.Diff(shown{map[string]string{}, map[string]string{}, 0}, shownOf(t, h.Client, id, "")); diff != "" {
					t.Errorf("%s shows (-want +got):\n%s", id, diff)
				}
			}
		}
		if children == 0 {
			t.Error("there was no sub-agent")
		}
	})
}

// bareNamespace makes a namespace without search attributes and connects to it.
func bareNamespace(t *testing.T, address, name string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Namespace: name, Logger: harness.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	_, err = c.WorkflowService().RegisterNamespace(context.Background(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "the namespace", func() bool {
		_, err := c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{})
		return err == nil
	})
	return c
}

// addStatus adds the search attribute WeftStatus and waits until the server takes it.
func addStatus(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	_, err := c.OperatorService().AddSearchAttributes(context.Background(), &operatorservice.AddSearchAttributesRequest{Namespace: namespace,
		SearchAttributes: map[string]enumspb.IndexedValueType{contract.AttributeStatus: enumspb.INDEXED_VALUE_TYPE_KEYWORD}})
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "the search attribute", func() bool {
		_, err := c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{Query: `WeftStatus = "x"`})
		return err == nil
	})
}

// TestEndToEndWithoutAttributes runs flows in a namespace that has no search attributes, while
// one is added, removed under a run, and added again.
func TestEndToEndWithoutAttributes(t *testing.T) {
	t.Parallel()
	const namespace = "bare"
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	ctx := context.Background()
	h := &harness.Worker{Client: bareNamespace(t, address, namespace), Queue: "attributes"}
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
	doc := contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}
	says := contract.RunInput{Flow: doc, Script: harness.Script(t, `rules: [{say: done}]`)}
	finish := func(run client.WorkflowRun, want map[string]string) {
		t.Helper()
		if _, err := harness.Result(t, run); err != nil {
			t.Fatal(err)
		}
		s := shownOf(t, h.Client, run.GetID(), run.GetRunID())
		if diff := cmp.Diff(want, s.Attributes); diff != "" || s.Memo["flow"] != "one" || len(s.Memo["flow_hash"]) != 64 {
			t.Errorf("the run shows %+v (-want +got):\n%s", s, diff)
		}
	}
	finish(startAs(t, h, client.StartWorkflowOptions{}, says), map[string]string{})

	log := programs.Log(t, "worker")
	cmd := exec.Command(programs.Path(t, "WEFT_WORKER"), "-task-queue", "nobody")
	cmd.Dir, cmd.Stderr = t.TempDir(), log
	cmd.Env = append(programs.Clean(), "TEMPORAL_ADDRESS="+address, "TEMPORAL_NAMESPACE="+namespace)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	want := "worker: search attributes missing: WeftFlow, WeftDialect, WeftPlanHash, WeftStatus, WeftPrincipal, WeftTenant; runs work without them; add them with: " +
		"temporal operator search-attribute create --namespace bare --name WeftFlow --type Keyword --name WeftDialect --type Keyword --name WeftPlanHash --type Keyword --name WeftStatus --type Keyword --name WeftPrincipal --type Keyword --name WeftTenant --type Keyword\n"
	harness.WaitFor(t, "the worker to say what is missing", func() bool { return strings.Contains(harness.ReadFile(t, log.Name()), want) })

	// A worker that asked before and one that asks now may disagree; each run goes by its own record.
	addStatus(t, h.Client, namespace)
	second := harness.RunWorker(t, h.Client, "second", 0, nil)
	t.Cleanup(second.Stop)
	other := &harness.Worker{Client: h.Client, Queue: "second"}
	finish(startAs(t, other, client.StartWorkflowOptions{}, says), map[string]string{"WeftStatus": "completed"})

	// Removed under a run that recorded that it is there: a worker that remembers nothing of the
	// run goes on up to the next write, and the run waits there until it is added again.
	in := says
	in.Script = harness.Script(t, `rules: [{delay: 4s, say: done}]`)
	run := startAs(t, other, client.StartWorkflowOptions{TypedSearchAttributes: started("WeftStatus", "running")}, in)
	harness.WaitFor(t, "the model call", func() bool {
		d, err := h.Client.DescribeWorkflowExecution(ctx, run.GetID(), "")
		return err == nil && len(d.PendingActivities) == 1 && d.PendingActivities[0].GetActivityType().GetName() == contract.ActivityCallModel
	})
	if _, err := h.Client.OperatorService().RemoveSearchAttributes(ctx, &operatorservice.RemoveSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: []string{contract.AttributeStatus}}); err != nil {
		t.Fatal(err)
	}
	h.Worker.Stop()
	second.Stop()
	third := harness.RunWorker(t, h.Client, "second", 1, nil)
	t.Cleanup(third.Stop)
	causes := func(cause enumspb.WorkflowTaskFailedCause) (n int) {
		for _, e := range harness.Events(t, h.Client, run.GetID(), "") {
			if f := e.GetWorkflowTaskFailedEventAttributes(); f != nil && f.GetCause() == cause {
				n++
			}
		}
		return n
	}
	harness.WaitFor(t, "the write that the server refuses", func() bool {
		return causes(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SEARCH_ATTRIBUTES) > 0
	})
	addStatus(t, h.Client, namespace)
	finish(run, map[string]string{"WeftStatus": "completed"})
	if n := causes(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR); n > 0 {
		t.Errorf("%d replays did other than what is recorded", n)
	}
}
