package publish

import (
	"fmt"
	"strings"
	"testing"
	"weft/workflows/workflowtest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// record calls do in a root run and returns the search attributes and memos that it upserts.
func record(t *testing.T, public *contract.Publish, do func(ctx workflow.Context, p *Publisher)) []string {
	t.Helper()
	env := workflowtest.Env()
	var got []string
	env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		set, ok := args[0].(temporal.SearchAttributes)
		if !ok {
			t.Fatalf("search attributes are %T", args[0])
		}
		var pairs []string
		for _, name := range contract.Attributes {
			if v, ok := set.GetKeyword(temporal.NewSearchAttributeKeyKeyword(name)); ok {
				pairs = append(pairs, name+"="+v)
			}
		}
		got = append(got, strings.Join(pairs, " "))
	}).Return(nil).Maybe()
	env.OnUpsertMemo(mock.Anything).Run(func(args mock.Arguments) {
		got = append(got, fmt.Sprint(args[0]))
	}).Return(nil).Maybe()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		p := &Publisher{Run: runtime.New(ctx), Status: contract.StatusRunning, Public: public}
		p.Run.Flow, p.Run.Hash = &plan.Flow{Name: "N", Dialect: "d"}, "h"
		p.Run.Shared.Grant = &contract.Grant{Principal: &contract.Principal{Name: "kim", Tenant: "north"}}
		do(ctx, p)
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPublish(t *testing.T) {
	change := func(ctx workflow.Context, p *Publisher) {
		for _, s := range []string{"running", "waiting", "waiting", "running", "completed"} {
			p.Publish(ctx, s)
			if p.Status != s {
				t.Errorf("the status is %s, want %s", p.Status, s)
			}
		}
	}
	introduce := func(ctx workflow.Context, p *Publisher) { p.Introduce(ctx, false) }
	status := []string{contract.AttributeStatus}
	tests := map[string]struct {
		public *contract.Publish
		do     func(ctx workflow.Context, p *Publisher)
		want   []string
	}{
		"status only on change":   {&contract.Publish{Attributes: status}, change, []string{"WeftStatus=waiting", "WeftStatus=running", "WeftStatus=completed"}},
		"status is not published": {&contract.Publish{Attributes: []string{contract.AttributeFlow}}, change, nil},
		"nothing is published":    {nil, change, nil},
		"all attributes are unset": {&contract.Publish{Attributes: contract.Attributes, Unset: contract.Attributes, Memo: true}, introduce,
			[]string{"WeftFlow=N WeftDialect=d WeftPlanHash=h WeftStatus=running WeftPrincipal=kim WeftTenant=north", "map[flow:N flow_hash:h principal:kim tenant:north]"}},
		"one attribute is unset":        {&contract.Publish{Attributes: contract.Attributes, Unset: status}, introduce, []string{"WeftStatus=running"}},
		"all attributes are set":        {&contract.Publish{Attributes: contract.Attributes}, introduce, nil},
		"introduced without publishing": {nil, introduce, nil},
		"run without a plan": {&contract.Publish{Attributes: status}, func(ctx workflow.Context, p *Publisher) {
			p.Run.Flow = nil
			p.Publish(ctx, contract.StatusFailed)
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, record(t, tc.public, tc.do)); diff != "" {
				t.Errorf("upserts mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
