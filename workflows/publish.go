package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
)

// A root run writes search attributes and a memo by which lists show it. Whether it does is
// settled once, at its start, and recorded: by the activity Prepare where there is one, which
// asks the server, and else by what the start request has set, which the server took. A write
// of an attribute that the namespace does not have would fail the workflow task for ever.

// publish notes how the run stands. Where the run writes search attributes, it writes the
// status if it is another than before: each write is an event.
func (p *publisher) publish(ctx workflow.Context, status string) {
	if p.status == status {
		return
	}
	p.status = status
	if p.public != nil && slices.Contains(p.public.Attributes, contract.AttributeStatus) {
		p.upsert(ctx, []string{contract.AttributeStatus})
	}
}

// introduce writes what the start request has not set, once the plan is known.
func (p *publisher) introduce(ctx workflow.Context) {
	if p.public == nil {
		return
	}
	if len(p.public.Unset) > 0 {
		p.upsert(ctx, p.public.Unset)
	}
	if p.public.Memo {
		who := p.principal()
		memo := map[string]any{contract.MemoFlow: contract.Keyword(p.run.Flow.Name), contract.MemoHash: p.run.Hash}
		if p.session {
			memo[contract.MemoSession] = true
		}
		if who.Name != "" {
			memo[contract.MemoPrincipal], memo[contract.MemoTenant] = who.Name, who.Tenant
		}
		if err := workflow.UpsertMemo(ctx, memo); err != nil {
			workflow.GetLogger(ctx).Warn("the run has no memo", "error", err)
		}
	}
}

// upsert writes search attributes in one event.
func (p *publisher) upsert(ctx workflow.Context, names []string) {
	if p.run.Flow == nil {
		return
	}
	who := p.principal()
	values := map[string]string{
		contract.AttributeFlow: p.run.Flow.Name, contract.AttributeDialect: p.run.Flow.Dialect,
		contract.AttributePlanHash: p.run.Hash, contract.AttributeStatus: p.status,
		contract.AttributePrincipal: who.Name, contract.AttributeTenant: who.Tenant,
	}
	var updates []temporal.SearchAttributeUpdate
	for _, name := range names {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(contract.Keyword(values[name])))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("the run does not show how it stands", "error", err)
	}
}

// maxListed is how many bytes of requests a memo has.
const maxListed = 16 << 10

// list writes the open requests into the memo where they are others than those that it has, so that lists show them
// without asking the run.
func (p *publisher) list(ctx workflow.Context, open []contract.Request) {
	if p.public == nil {
		return
	}
	var ids []string
	for i := range open {
		ids = append(ids, open[i].ID)
	}
	if slices.Equal(ids, p.public.Requests) {
		return
	}
	p.public.Requests = ids
	out, room := contract.OpenRequests{Requests: []contract.Request{}}, maxListed
	for i := range open {
		n, err := runtime.Size(open[i])
		if room -= n; err != nil || room < 0 {
			out.More = len(open) - i
			break
		}
		out.Requests = append(out.Requests, open[i])
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{contract.MemoRequests: out}); err != nil {
		workflow.GetLogger(ctx).Warn("lists do not show the open requests", "error", err)
	}
}

// principal is who started the run.
func (p *publisher) principal() contract.Principal {
	if g := p.run.Shared.Grant; g != nil {
		return g.Principal.Value()
	}
	return contract.Principal{}
}

// publisher tells others how a run stands: lists by search attributes and a memo, webhooks by events.
type publisher struct {
	run *runtime.Run
	// status is one of the contract's; it is changed by publish alone. public is absent in a run that is no root.
	status string
	public *contract.Publish
	// session is set where the run is a session.
	session bool
	// changed holds something where the open requests may be others than those in the memo.
	changed workflow.Channel
	// deliveries are events that the server may not have taken yet.
	deliveries []workflow.Future
}
