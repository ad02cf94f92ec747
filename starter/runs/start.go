package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/workflows/plan"
)

const (
	// MaxID is the maximum length of a run's id, in bytes. The ids of children extend it, and Temporal allows 1,000 bytes.
	MaxID = 200
	// MaxFairnessKey is the maximum length of a fairness key, in bytes.
	MaxFairnessKey = 64
	// maxDescription leaves room in the 20,000 bytes that Temporal allows as a run's details.
	maxDescription = 10_000
)

// NewID returns a workflow id for a flow's name: its letters and digits, and 8 random characters.
func NewID(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	slug := strings.Join(words, "-")
	slug = strings.Trim(slug[:min(len(slug), 60)], "-")
	return cmp.Or(slug, "flow") + "-" + strings.ToLower(rand.Text()[:8])
}

// CheckID returns an error if id is not a valid id of a run.
func CheckID(id string) error {
	if strings.ContainsFunc(id, plaintext.Unprintable) || len(id) > MaxID {
		return usage.Errorf("invalid -id %.100q: expected printable ASCII, at most %d bytes", id, MaxID)
	}
	if err := contract.CheckRunID(id); err != nil {
		return usage.Errorf("-id: %v", err)
	}
	return nil
}

// MaxInput returns the maximum size of a run's input, in bytes: the limit of the store, or of Temporal.
func (c *Connection) MaxInput() int {
	if c.Store == nil {
		return contract.MaxPayload
	}
	return max(contract.MaxPayload, c.Store.MaxPayload()-contract.Envelope)
}

// TooLargeError is the error of a start with an input that cannot be sent.
type TooLargeError struct{ cause error }

// Error describes the size and the limit.
func (e TooLargeError) Error() string { return e.cause.Error() }

// Unwrap returns a [usage.Error].
func (e TooLargeError) Unwrap() error { return e.cause }

func (c *Connection) checkSize(in *contract.RunInput) error {
	encoded, err := json.Marshal(in)
	if err != nil {
		return usage.Errorf("encode the run's input: %v", err)
	}
	if limit := c.MaxInput(); len(encoded) > limit {
		how := "can be sent through Temporal; shorten the largest, or configure a store (store.dir) for workers and starter"
		if limit > contract.MaxPayload {
			how = "can be stored; shorten the largest, or raise store.max_payload"
		}
		return TooLargeError{usage.Errorf("the run's input is %d bytes with flow, input (%d) and script (%d), at most %d %s",
			len(encoded), len(in.Input)+len(in.Params), len(in.Script), limit, how)}
	}
	return nil
}

// Start starts a run of a flow with a memo, descriptions, and the search attributes that are registered in the namespace. It
// returns an error if a run with the id is open. The input contains the flow or its name.
func (c *Connection) Start(ctx context.Context, o client.StartWorkflowOptions, flow *plan.Flow, in *contract.RunInput) (*Run, error) {
	if err := c.checkSize(in); err != nil {
		return nil, err
	}
	values, err := describe(&o, flow, in)
	if err != nil {
		return nil, err
	}
	o.WorkflowExecutionErrorWhenAlreadyStarted, o.WorkflowIDConflictPolicy = true, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	start := func(names []string) (*Run, error) {
		o.TypedSearchAttributes = attributes(names, values)
		run, err := c.Client.ExecuteWorkflow(ctx, o, contract.WorkflowFlow, in)
		if err != nil {
			return nil, err
		}
		return &Run{Connection: c, ID: run.GetID(), RunID: run.GetRunID(), Queue: o.TaskQueue, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, nil
	}
	run, err := start(contract.Attributes)
	if !Is[*serviceerror.InvalidArgument](err) {
		return run, err
	}
	// A search attribute may be missing: retry with the registered ones, then with none.
	state, attrErr := activities.NewAttributes(c.Client).Of(ctx, c.Namespace)
	if attrErr == nil && len(state.Registered) > 0 && len(state.Registered) < len(contract.Attributes) {
		if run, err = start(state.Registered); !Is[*serviceerror.InvalidArgument](err) {
			return run, err
		}
	}
	return start(nil)
}

// ScheduleAction returns the action of a schedule that starts runs as [Connection.Start] does.
func (c *Connection) ScheduleAction(ctx context.Context, name, queue string, flow *plan.Flow, in *contract.RunInput) (*client.ScheduleWorkflowAction, error) {
	o := client.StartWorkflowOptions{ID: name, TaskQueue: queue}
	values, err := describe(&o, flow, in)
	if err != nil {
		return nil, err
	}
	if state, err := activities.NewAttributes(c.Client).Of(ctx, c.Namespace); err == nil {
		o.TypedSearchAttributes = attributes(state.Registered, values)
	}
	return &client.ScheduleWorkflowAction{ID: name, Workflow: contract.WorkflowFlow, Args: []any{in}, TaskQueue: queue,
		Memo: o.Memo, TypedSearchAttributes: o.TypedSearchAttributes, StaticSummary: o.StaticSummary, StaticDetails: o.StaticDetails}, nil
}

func describe(o *client.StartWorkflowOptions, flow *plan.Flow, in *contract.RunInput) (map[string]string, error) {
	hash, err := flow.Hash()
	if err != nil {
		return nil, usage.Errorf("%v", err)
	}
	memo := map[string]any{contract.MemoFlow: contract.Keyword(flow.Name), contract.MemoHash: hash}
	if in.Session {
		memo[contract.MemoSession] = true
	}
	owner := in.Principal.Value()
	if owner.Name != "" {
		memo[contract.MemoPrincipal], memo[contract.MemoTenant] = owner.Name, owner.Tenant
	}
	maps.Copy(memo, o.Memo)
	o.Memo = memo
	o.StaticSummary, o.StaticDetails = textutil.Cut(flow.Name, 200),
		plaintext.If(flow.Description != "", "%s\n\n", textutil.Cut(flow.Description, maxDescription))+fmt.Sprintf("A %s flow, hash `%s`", flow.Dialect, hash)
	return map[string]string{
		contract.AttributeFlow: flow.Name, contract.AttributeDialect: flow.Dialect,
		contract.AttributePlanHash: hash, contract.AttributeStatus: contract.StatusRunning,
		contract.AttributePrincipal: owner.Name, contract.AttributeTenant: owner.Tenant,
	}, nil
}

func attributes(names []string, values map[string]string) temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for _, name := range names {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(contract.Keyword(values[name])))
	}
	return temporal.NewSearchAttributes(updates...)
}
