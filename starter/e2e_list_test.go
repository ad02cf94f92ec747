package main

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"weft/activities/contract"
)

// namespaces registers the namespace bare, without search attributes, and full, which has them,
// and waits until both can be used.
func namespaces(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for name, attributes := range map[string]int{"bare": 0, "full": len(contract.Attributes)} {
		c, err := client.Dial(client.Options{HostPort: address, Namespace: name})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		keywords := map[string]enumspb.IndexedValueType{}
		for _, a := range contract.Attributes[:attributes] {
			keywords[a] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		}
		query := ""
		if attributes > 0 {
			query = contract.AttributeStatus + ` = "x"`
		}
		for added := attributes == 0; ; time.Sleep(100 * time.Millisecond) {
			if !added {
				_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: name, SearchAttributes: keywords})
				added = err == nil
			}
			if added {
				if _, err = c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query}); err == nil {
					break
				}
			}
			if ctx.Err() != nil {
				t.Fatalf("namespace %s: %v", name, err)
			}
		}
	}
}

// scriptClient connects to the namespace that a script has set.
func scriptClient(ts *testscript.TestScript) client.Client {
	c, err := client.Dial(client.Options{HostPort: ts.Getenv("TEMPORAL_ADDRESS"), Namespace: ts.Getenv("TEMPORAL_NAMESPACE")})
	ts.Check(err)
	ts.Defer(c.Close)
	return c
}

// asks starts a run whose search attributes say that it waits for an answer: asks ID NAME.
func asks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: asks ID NAME")
	}
	_, err := scriptClient(ts).ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: args[0], TaskQueue: "nobody",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.AttributeFlow).ValueSet(args[1]),
			temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus).ValueSet(contract.StatusWaiting))},
		contract.WorkflowFlow, contract.RunInput{V: contract.Version})
	ts.Check(err)
}

// seen waits until lists show that many open runs: seen N.
func seen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: seen N")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	c, got := scriptClient(ts), 0
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		page, err := c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{Query: `ExecutionStatus = "Running"`})
		ts.Check(err)
		if got = len(page.GetExecutions()); got == want {
			return
		}
	}
	ts.Fatalf("lists show %d open runs, want %d", got, want)
}
