// Package publish publishes the status of a run: to lists by search attributes and a memo, to webhooks by events.
package publish

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

// Publish notes how the run stands. Where the run writes search attributes, it writes the
// status if it is another than before: each write is an event.
func (p *Publisher) Publish(ctx workflow.Context, status string) {
	if p.Status == status {
		return
	}
	p.Status = status
	if p.Public != nil && slices.Contains(p.Public.Attributes, contract.AttributeStatus) {
		p.upsert(ctx, []string{contract.AttributeStatus})
	}
}

// Alive reports whether the run has not ended.
func (p *Publisher) Alive() bool {
	return p.Status == contract.StatusRunning || p.Status == contract.StatusWaiting || p.Status == contract.StatusIdle
}

// Introduce writes what the start request has not set, once the plan is known.
func (p *Publisher) Introduce(ctx workflow.Context) {
	if p.Public == nil {
		return
	}
	if len(p.Public.Unset) > 0 {
		p.upsert(ctx, p.Public.Unset)
	}
	if p.Public.Memo {
		who := p.principal()
		memo := map[string]any{contract.MemoFlow: contract.Keyword(p.Run.Flow.Name), contract.MemoHash: p.Run.Hash}
		if p.Session {
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
func (p *Publisher) upsert(ctx workflow.Context, names []string) {
	if p.Run.Flow == nil {
		return
	}
	who := p.principal()
	values := map[string]string{
		contract.AttributeFlow: p.Run.Flow.Name, contract.AttributeDialect: p.Run.Flow.Dialect,
		contract.AttributePlanHash: p.Run.Hash, contract.AttributeStatus: p.Status,
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

// List writes the open requests into the memo where they are others than those that it has, so that lists show them
// without asking the run.
func (p *Publisher) List(ctx workflow.Context, open []contract.Request) {
	if p.Public == nil {
		return
	}
	var ids []string
	for i := range open {
		ids = append(ids, open[i].ID)
	}
	if slices.Equal(ids, p.Public.Requests) {
		return
	}
	p.Public.Requests = ids
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
func (p *Publisher) principal() contract.Principal {
	if g := p.Run.Shared.Grant; g != nil {
		return g.Principal.Value()
	}
	return contract.Principal{}
}

// Publisher tells others how a run stands.
type Publisher struct {
	Run *runtime.Run
	// Status is one of the contract's; [Publisher.Publish] changes it. Public is absent in a run that is no root.
	Status string
	Public *contract.Publish
	// Session is set where the run is a session.
	Session bool
	// Changed holds something where the open requests may be others than those in the memo.
	Changed workflow.Channel
	// Deliveries are events that the server may not have taken yet.
	Deliveries []workflow.Future
}
