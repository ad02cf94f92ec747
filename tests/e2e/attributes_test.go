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

// visibility is what lists show of a run, and the number of events that set it.
type visibility struct {
	Attributes, Memo map[string]string
	Upserts          int
}

func visibilityOf(t *testing.T, c client.Client, id, run string) visibility {
	t.Helper()
	decode := func(fields map[string]*commonpb.Payload) map[string]string {
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
	s := visibility{Attributes: decode(info.GetSearchAttributes().GetIndexedFields()), Memo: decode(info.GetMemo().GetFields())}
	for _, e := range harness.Events(t, c, id, run) {
		if e.GetEventType() == enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES || e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED {
			s.Upserts++
		}
	}
	return s
}

// keywords returns the search attributes of a start request, from pairs of name and value.
func keywords(pairs ...string) temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for i := 0; i < len(pairs); i += 2 {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(pairs[i]).ValueSet(pairs[i+1]))
	}
	return temporal.NewSearchAttributes(updates...)
}

// startWithOptions starts a run with the given options, with a new id, on the worker's task queue.
func startWithOptions(t *testing.T, h *harness.Worker, o client.StartWorkflowOptions, in contract.RunInput) client.WorkflowRun {
	t.Helper()
	in.V, in.Model = contract.Version, "script"
	o.TaskQueue, o.ID = h.Queue, fmt.Sprintf("run-%d", time.Now().UnixNano())
	run, err := h.Client.ExecuteWorkflow(context.Background(), o, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestEndToEndAttributes checks the search attributes and memo of runs in a namespace with all of Weft's attributes.
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
	script := harness.Script(t, `rules: [{say: done}]`)
	all := func(status string) map[string]string {
		return map[string]string{"WeftFlow": name, "WeftDialect": "continuum", "WeftPlanHash": compiled.Hash, "WeftStatus": status, "WeftPrincipal": "", "WeftTenant": ""}
	}
	memo := map[string]string{"flow": name, "flow_hash": compiled.Hash}
	allAttributes := client.StartWorkflowOptions{Memo: map[string]any{"flow": name, "flow_hash": compiled.Hash},
		TypedSearchAttributes: keywords("WeftFlow", name, "WeftDialect", "continuum", "WeftPlanHash", compiled.Hash, "WeftStatus", "running", "WeftPrincipal", "", "WeftTenant", "")}

	tests := map[string]struct {
		options client.StartWorkflowOptions
		in      contract.RunInput
		end     func(run client.WorkflowRun)
		want    visibility
	}{
		"a document": {in: contract.RunInput{Flow: doc, Script: script}, want: visibility{all("completed"), memo, 3}},
		"a document and all attributes": {options: allAttributes, in: contract.RunInput{Flow: doc, Script: script},
			want: visibility{all("completed"), memo, 1}},
		"a document and one attribute": {options: client.StartWorkflowOptions{TypedSearchAttributes: keywords("WeftStatus", "running")},
			in: contract.RunInput{Flow: doc, Script: script}, want: visibility{all("completed"), memo, 3}},
		"a plan and all attributes": {options: allAttributes, in: contract.RunInput{Flow: plan, Script: script}, want: visibility{all("completed"), memo, 1}},
		"a plan and another attribute": {options: client.StartWorkflowOptions{TypedSearchAttributes: keywords("WeftFlow", "x")},
			in: contract.RunInput{Flow: plan, Script: script}, want: visibility{map[string]string{"WeftFlow": "x"}, map[string]string{}, 0}},
		"a plan without attributes": {in: contract.RunInput{Flow: plan, Script: script}, want: visibility{map[string]string{}, map[string]string{}, 0}},
		"a failed run": {options: allAttributes, in: contract.RunInput{Flow: plan, OnError: contract.OnErrorFail, Script: harness.Script(t, `rules: [{fail: {class: denied, text: no key}}]`)},
			want: visibility{all("failed"), memo, 1}},
		"a cancelled run": {options: allAttributes, in: contract.RunInput{Flow: plan, Script: harness.Script(t, `rules: [{delay: 10m, say: late}]`)},
			end: func(run client.WorkflowRun) {
				harness.WaitFor(t, "the model call", func() bool {
					d, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID(), "")
					return err == nil && len(d.PendingActivities) == 1
				})
				if err := h.Client.CancelWorkflow(context.Background(), run.GetID(), ""); err != nil {
					t.Error(err)
				}
			}, want: visibility{all("cancelled"), memo, 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			run := startWithOptions(t, h, tc.options, tc.in)
			if tc.end != nil {
				tc.end(run)
			}
			_, _ = harness.Result(t, run) // some runs fail as intended
			if diff := cmp.Diff(tc.want, visibilityOf(t, h.Client, run.GetID(), run.GetRunID())); diff != "" {
				t.Errorf("visibility (-want +got):\n%s", diff)
			}
			harness.Record(t, h.Client, "not recorded", run.GetID(), run.GetRunID())
		})
	}
	t.Run("continue as new", func(t *testing.T) {
		run := startWithOptions(t, h, client.StartWorkflowOptions{}, contract.RunInput{Flow: doc, MaxEvents: 1,
			Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: list_state_keys}]}, {say: done}]`)})
		first := run.GetRunID()
		if _, err := harness.Result(t, run); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(visibility{all("running"), memo, 2}, visibilityOf(t, h.Client, run.GetID(), first)); diff != "" {
			t.Errorf("visibility of the first run (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(visibility{all("completed"), memo, 1}, visibilityOf(t, h.Client, run.GetID(), "")); diff != "" {
			t.Errorf("visibility of the last run (-want +got):\n%s", diff)
		}
	})
	t.Run("a sub-agent has no attributes", func(t *testing.T) {
		run := startWithOptions(t, h, client.StartWorkflowOptions{}, contract.RunInput{Flow: contract.FlowRef{Text: harness.SubAgentFlow, Name: "flow.json"}, Script: harness.Script(t, `rules:
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
				if diff := cmp.Diff(visibility{map[string]string{}, map[string]string{}, 0}, visibilityOf(t, h.Client, id, "")); diff != "" {
					t.Errorf("visibility of %s (-want +got):\n%s", id, diff)
				}
			}
		}
		if children == 0 {
			t.Error("no sub-agent was started")
		}
	})
}

// newNamespace creates a namespace without search attributes and connects to it.
func newNamespace(t *testing.T, address, name string) client.Client {
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

// addStatus adds the search attribute WeftStatus and waits until the server accepts queries for it.
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

// TestEndToEndWithoutAttributes checks that runs complete in a namespace without search attributes, and when one
// attribute is added, removed during a run, and added again.
func TestEndToEndWithoutAttributes(t *testing.T) {
	t.Parallel()
	const namespace = "bare"
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	ctx := context.Background()
	h := &harness.Worker{Client: newNamespace(t, address, namespace), Queue: "attributes"}
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
	doc := contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}
	input := contract.RunInput{Flow: doc, Script: harness.Script(t, `rules: [{say: done}]`)}
	checkRun := func(run client.WorkflowRun, want map[string]string) {
		t.Helper()
		if _, err := harness.Result(t, run); err != nil {
			t.Fatal(err)
		}
		s := visibilityOf(t, h.Client, run.GetID(), run.GetRunID())
		if diff := cmp.Diff(want, s.Attributes); diff != "" || s.Memo["flow"] != "one" || len(s.Memo["flow_hash"]) != 64 {
			t.Errorf("memo %v, attributes (-want +got):\n%s", s.Memo, diff)
		}
	}
	checkRun(startWithOptions(t, h, client.StartWorkflowOptions{}, input), map[string]string{})

	log := programs.Log(t, "worker")
	cmd := exec.Command(programs.Path(t, "WEFT_WORKER"), "-task-queue", "nobody")
	cmd.Dir, cmd.Stderr = t.TempDir(), log
	cmd.Env = append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+address, "TEMPORAL_NAMESPACE="+namespace)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	want := "worker: search attributes missing: WeftFlow, WeftDialect, WeftPlanHash, WeftStatus, WeftPrincipal, WeftTenant; runs work without them; add them with: " +
		"temporal operator search-attribute create --namespace bare --name WeftFlow --type Keyword --name WeftDialect --type Keyword --name WeftPlanHash --type Keyword --name WeftStatus --type Keyword --name WeftPrincipal --type Keyword --name WeftTenant --type Keyword\n"
	harness.WaitFor(t, "the worker to log the missing attributes", func() bool { return strings.Contains(harness.ReadFile(t, log.Name()), want) })

	// Workers that check at different times may disagree on whether the attribute exists; each run follows its own record.
	addStatus(t, h.Client, namespace)
	second := harness.RunWorker(t, h.Client, "second", 0, nil)
	t.Cleanup(second.Stop)
	other := &harness.Worker{Client: h.Client, Queue: "second"}
	checkRun(startWithOptions(t, other, client.StartWorkflowOptions{}, input), map[string]string{"WeftStatus": "completed"})

	// The attribute is removed during a run that has recorded its existence. A worker without cached state
	// continues the run up to the next upsert, which fails until the attribute is added again.
	in := input
	in.Script = harness.Script(t, `rules: [{delay: 4s, say: done}]`)
	run := startWithOptions(t, other, client.StartWorkflowOptions{TypedSearchAttributes: keywords("WeftStatus", "running")}, in)
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
	failedTasks := func(cause enumspb.WorkflowTaskFailedCause) (n int) {
		for _, e := range harness.Events(t, h.Client, run.GetID(), "") {
			if f := e.GetWorkflowTaskFailedEventAttributes(); f != nil && f.GetCause() == cause {
				n++
			}
		}
		return n
	}
	harness.WaitFor(t, "the upsert to be rejected", func() bool {
		return failedTasks(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SEARCH_ATTRIBUTES) > 0
	})
	addStatus(t, h.Client, namespace)
	checkRun(run, map[string]string{"WeftStatus": "completed"})
	if n := failedTasks(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR); n > 0 {
		t.Errorf("%d workflow tasks failed with a nondeterminism error", n)
	}
}
