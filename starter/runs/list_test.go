package runs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/runs/runstest"
	"weft/worker/config"
)

func TestListsArePaged(t *testing.T) {
	tests := map[string]struct {
		limit int
		want  string
		more  bool
	}{
		"no limit":                    {limit: 0, want: "a b c"},
		"limit equals count":          {limit: 3, want: "a b c"},
		"limit within the first page": {limit: 1, want: "a", more: true},
		"limit at the end of a page":  {limit: 2, want: "a b", more: true},
		"limit exceeds count":         {limit: 50, want: "a b c"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			all, more, err := (&Connection{Temporal: &config.Temporal{Client: runstest.Stored(t)}}).List(t.Context(), Filter{Closed: true, Limit: tc.limit})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range all {
				ids = append(ids, r.ID)
			}
			if got := strings.Join(ids, " "); got != tc.want || more != tc.more {
				t.Errorf("runs = %q, more = %v; want %q, %v", got, more, tc.want, tc.more)
			}
		})
	}
}

// TestListsOfAnOwner checks the visibility query for the runs of an owner, and that runs of other owners in its result are left out.
func TestListsOfAnOwner(t *testing.T) {
	all := []string{contract.AttributePrincipal, contract.AttributeTenant}
	own := func(name string) string { return ` AND (WeftPrincipal = "` + name + `" OR WeftPrincipal IS NULL)` }
	const noTenant, north = ` AND (WeftTenant = "" OR WeftTenant IS NULL)`, ` AND (WeftTenant = "north" OR WeftTenant IS NULL)`
	tests := map[string]struct {
		owner      contract.Principal
		registered []string
		query      string
		want       []string
	}{
		"user":                     {contract.Principal{Name: "kim"}, all, noTenant + own("kim"), []string{"kim"}},
		"user of a tenant":         {contract.Principal{Name: "o'kim", Tenant: "north"}, all, north + own("o'kim"), []string{"o'kim of north"}},
		"tenant":                   {contract.Principal{Tenant: "north"}, all, north, []string{"o'kim of north"}},
		"no attributes registered": {contract.Principal{Name: "kim"}, nil, "", []string{"kim"}},
		"name with a quote":        {contract.Principal{Name: `a"b`}, all, noTenant, []string{`a"b`}},
		"query injection":          {contract.Principal{Name: `a" OR "b`}, all, noTenant, nil},
		"unknown user":             {contract.Principal{Name: "ann"}, all, noTenant + own("ann"), nil},
		"longest name":             {contract.Principal{Name: strings.Repeat("x", 255)}, all, noTenant + own(strings.Repeat("x", 255)), nil},
	}
	var stored []*workflowpb.WorkflowExecutionInfo
	for _, p := range []contract.Principal{{Name: "kim"}, {Name: "o'kim", Tenant: "north"}, {Name: `a"b`}, {}} {
		memo := map[string]*commonpb.Payload{}
		for key, text := range map[string]string{contract.MemoPrincipal: p.Name, contract.MemoTenant: p.Tenant} {
			memo[key], _ = converter.GetDefaultDataConverter().ToPayload(text)
		}
		stored = append(stored, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: p.String()}, Memo: &commonpb.Memo{Fields: memo}})
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			(&runstest.Operator{Names: tc.registered}).Serve(c)
			c.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
				return strings.HasSuffix(r.GetQuery(), `ExecutionStatus = "Running"`+tc.query)
			})).Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: stored}, nil)
			page, _, err := (&Connection{Temporal: &config.Temporal{Client: c}}).Page(t.Context(), Filter{Owner: &tc.owner}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range page {
				got = append(got, page[i].ID)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("runs = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestListOfABusyServer checks that a page is retried after transient errors only, and at most as often as there are pauses.
func TestListOfABusyServer(t *testing.T) {
	busy := func() error { return serviceerror.NewDeadlineExceeded("context deadline exceeded") }
	tests := map[string]struct {
		errs  []error
		calls int
		want  string
	}{
		"once":            {errs: []error{busy()}, calls: 2},
		"exhausted":       {errs: []error{serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "too many")}, calls: 2},
		"unavailable":     {errs: []error{serviceerror.NewUnavailable("no route")}, calls: 2},
		"no more retries": {errs: []error{busy(), busy(), busy(), busy()}, calls: 3, want: "7 runs were read, then Temporal at here:1 did not respond in time"},
		"invalid query":   {errs: []error{serviceerror.NewInvalidArgument("no such field")}, calls: 1, want: "no such field"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			for _, err := range tc.errs {
				c.On("ListWorkflow", mock.Anything, mock.Anything).Return(nil, err).Once()
			}
			c.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{}, nil)
			at := &Connection{Temporal: &config.Temporal{Client: c, Address: "here:1"}}
			_, _, err := at.retryPage(t.Context(), &Filter{}, "", nil, []time.Duration{0, 0})
			c.AssertNumberOfCalls(t, "ListWorkflow", tc.calls)
			if err != nil {
				err = at.tooBusy(err, 7)
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
			if remedy := err != nil && strings.Contains(err.Error(), "list less: starter list -limit 50"); remedy != (name == "no more retries") {
				t.Errorf("error = %v", err)
			}
		})
	}
}
