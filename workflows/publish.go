package workflows

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// A root run writes search attributes and a memo by which lists show it. Whether it does is
// settled once, at its start, and recorded: by the activity Prepare where there is one, which
// asks the server, and else by what the start request has set, which the server took. A write
// of an attribute that the namespace does not have would fail the workflow task for ever.

// publish notes how the run stands. Where the run writes search attributes, it writes the
// status if it is another than before: each write is an event.
func (f *flowRun) publish(ctx workflow.Context, status string) {
	if f.status == status {
		return
	}
	f.status = status
	if f.public != nil && slices.Contains(f.public.Attributes, contract.AttributeStatus) {
		f.upsert(ctx, []string{contract.AttributeStatus})
	}
}

// introduce writes what the start request has not set, once the plan is known.
func (f *flowRun) introduce(ctx workflow.Context) {
	if f.public == nil {
		return
	}
	if len(f.public.Unset) > 0 {
		f.upsert(ctx, f.public.Unset)
	}
	if f.public.Memo {
		memo := map[string]any{contract.MemoFlow: contract.Keyword(f.run.Flow.Name), contract.MemoHash: f.run.Hash}
		if f.session != nil && f.session.IsSession {
			memo[contract.MemoSession] = true
		}
		if err := workflow.UpsertMemo(ctx, memo); err != nil {
			workflow.GetLogger(ctx).Warn("the run has no memo", "error", err)
		}
	}
}

// upsert writes search attributes in one event.
func (f *flowRun) upsert(ctx workflow.Context, names []string) {
	if f.run.Flow == nil {
		return
	}
	values := map[string]string{
		contract.AttributeFlow: f.run.Flow.Name, contract.AttributeDialect: f.run.Flow.Dialect,
		contract.AttributePlanHash: f.run.Hash, contract.AttributeStatus: f.status,
	}
	var updates []temporal.SearchAttributeUpdate
	for _, name := range names {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(contract.Keyword(values[name])))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("the run does not show how it stands", "error", err)
	}
}

// startFacts are what the start request has set. The server leaves out attributes that were
// removed since, so that only what is recorded of this may decide anything.
func startFacts(ctx workflow.Context) *contract.StartFacts {
	info := workflow.GetInfo(ctx)
	_, named := info.Memo.GetFields()[contract.MemoFlow]
	_, hashed := info.Memo.GetFields()[contract.MemoHash]
	out := &contract.StartFacts{Memo: named && hashed}
	set := workflow.GetTypedSearchAttributes(ctx)
	for _, name := range contract.Attributes {
		if set.ContainsKey(temporal.NewSearchAttributeKeyKeyword(name)) {
			out.Attributes = append(out.Attributes, name)
		}
	}
	return out
}

// verdict is what is recorded of a plan that came with the input: what is wrong with it, and
// what the run publishes.
type verdict struct {
	Problems []string          `json:"problems,omitempty"`
	Publish  *contract.Publish `json:"publish,omitempty"`
	// MaxPayload is what the worker's store takes; see [Settings].
	MaxPayload int `json:"max_payload,omitempty"`
	// Means is what the worker lets a run spend.
	BudgetLimits *contract.BudgetLimits `json:"budget_limits,omitempty"`
	// Refused says that the worker takes no plans.
	Refused bool `json:"refused,omitempty"`
}

// UnmarshalJSON also reads the problems alone, which earlier builds recorded.
func (v *verdict) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		return json.Unmarshal(raw, &v.Problems)
	}
	type plain verdict
	return json.Unmarshal(raw, (*plain)(v))
}
