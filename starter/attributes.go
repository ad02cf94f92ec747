package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities"
	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/worker/config"
	"weft/workflows/plan"
)

// maxDescription leaves room in the 20,000 bytes that Temporal takes as a run's details.
const maxDescription = 10_000

// launch starts a run with the memo, to what the options have of it, and with those search attributes that the namespace has.
// What the server takes with the start request, the run keeps up to date.
func launch(ctx context.Context, t *config.Temporal, o client.StartWorkflowOptions, in *contract.RunInput) (client.WorkflowRun, error) {
	values, err := dress(&o, in)
	if err != nil {
		return nil, err
	}
	run, err := withAttributes(ctx, t.Client, o, in, contract.Attributes, values)
	if !refused(err) {
		return run, err
	}
	// Perhaps because of an attribute that is not there: with those that are, then with none.
	state, asking := activities.NewAttributes(t.Client).Of(ctx, t.Namespace)
	if asking == nil && len(state.Registered) > 0 && len(state.Registered) < len(contract.Attributes) {
		if run, err = withAttributes(ctx, t.Client, o, in, state.Registered, values); !refused(err) {
			return run, err
		}
	}
	return withAttributes(ctx, t.Client, o, in, nil, values)
}

// dress puts memo and descriptions of a run into the options of its start, and gives the values
// of its search attributes.
func dress(o *client.StartWorkflowOptions, in *contract.RunInput) (map[string]string, error) {
	flow := in.Flow.Plan
	hash, err := flow.Hash()
	if err != nil {
		return nil, bad("%v", err)
	}
	memo := map[string]any{contract.MemoFlow: contract.Keyword(flow.Name), contract.MemoHash: hash}
	if in.Session {
		memo[contract.MemoSession] = true
	}
	maps.Copy(memo, o.Memo)
	o.Memo = memo
	o.StaticSummary, o.StaticDetails = plaintext.Cut(flow.Name, 200), details(flow, hash)
	return map[string]string{
		contract.AttributeFlow: flow.Name, contract.AttributeDialect: flow.Dialect,
		contract.AttributePlanHash: hash, contract.AttributeStatus: contract.StatusRunning,
	}, nil
}

// attributed are the search attributes with these names.
func attributed(names []string, values map[string]string) temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for _, name := range names {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(contract.Keyword(values[name])))
	}
	return temporal.NewSearchAttributes(updates...)
}

func withAttributes(ctx context.Context, c client.Client, o client.StartWorkflowOptions, in *contract.RunInput, names []string, values map[string]string) (client.WorkflowRun, error) {
	if len(names) > 0 {
		o.TypedSearchAttributes = attributed(names, values)
	}
	return c.ExecuteWorkflow(ctx, o, contract.WorkflowFlow, in)
}

// details is what the Web UI shows of the flow for as long as the run is kept, as Markdown.
func details(flow *plan.Flow, hash string) string {
	text := fmt.Sprintf("A %s flow, hash `%s`", flow.Dialect, hash)
	if flow.Description != "" {
		text = plaintext.Cut(flow.Description, maxDescription) + "\n\n" + text
	}
	return text
}

// refused says that the server did not like the request itself.
func refused(err error) bool {
	var invalid *serviceerror.InvalidArgument
	return errors.As(err, &invalid)
}
