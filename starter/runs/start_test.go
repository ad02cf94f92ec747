package runs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/runs/runstest"
	"weft/worker/config"
	"weft/worker/store"
	"weft/workflows/plan"
)

// TestStart starts runs on servers that take some search attributes, and refuse others.
func TestStart(t *testing.T) {
	all := strings.Join(contract.Attributes, " ")
	tests := map[string]struct {
		// takes are the attributes of the namespace; lists is what it says of them.
		takes, lists string
		listErr      error
		// err is what the server says in any case.
		err   error
		tried []string
	}{
		"all are there":                    {takes: all, lists: all, tried: []string{all}},
		"none is there":                    {tried: []string{all, ""}},
		"some are there":                   {takes: "WeftFlow WeftPlanHash", lists: "WeftFlow WeftPlanHash", tried: []string{all, "WeftFlow WeftPlanHash"}},
		"it cannot be asked":               {takes: "WeftFlow", listErr: errors.New("no"), tried: []string{all, ""}},
		"it knows less than it says":       {takes: "WeftFlow", lists: "WeftFlow WeftPlanHash", tried: []string{all, "WeftFlow WeftPlanHash", ""}},
		"it says all, and takes them not":  {lists: all, tried: []string{all, ""}},
		"what is wrong is something else":  {takes: all, lists: all, err: serviceerror.NewInvalidArgument("bad id"), tried: []string{all, ""}},
		"an error that is not the request": {takes: all, lists: all, err: errors.New("cut off"), tried: []string{all}},
	}
	flow := &plan.Flow{Version: plan.Version, Name: strings.Repeat("x", 300), Dialect: "continuum", Description: "what for"}
	hash, err := flow.Hash()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var tried []string
			c := &mocks.Client{}
			c.On("OperatorService").Return(&runstest.Operator{Names: strings.Fields(tc.lists), Err: tc.listErr})
			c.On("ExecuteWorkflow", mock.Anything, mock.Anything, contract.WorkflowFlow, mock.Anything).Return(
				func(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
					var names []string
					refuse := false
					for _, n := range contract.Attributes {
						if _, ok := o.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(n)); ok {
							names = append(names, n)
							refuse = refuse || !strings.Contains(" "+tc.takes+" ", " "+n+" ")
						}
					}
					tried = append(tried, strings.Join(names, " "))
					if !cmp.Equal(o.Memo, map[string]any{"flow": flow.Name[:255], "flow_hash": hash}) || !strings.HasPrefix(o.StaticDetails, "what for\n\nA continuum flow, hash `") {
						t.Errorf("options are %+v", o)
					}
					if refuse {
						return nil, serviceerror.NewInvalidArgument("no mapping defined")
					}
					run := &mocks.WorkflowRun{}
					run.On("GetID").Return("r")
					run.On("GetRunID").Return("one")
					return run, tc.err
				})
			_, err := (&Connection{Temporal: &config.Temporal{Client: c, Namespace: "n"}}).Start(t.Context(), client.StartWorkflowOptions{}, flow, &contract.RunInput{Flow: contract.FlowRef{Plan: flow}})
			if !errors.Is(err, tc.err) {
				t.Errorf("error is %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.tried, tried); diff != "" {
				t.Errorf("tried (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLargestInput measures inputs with a store and without one.
func TestLargestInput(t *testing.T) {
	stored, err := store.Open(store.Settings{Dir: t.TempDir(), Threshold: store.DefaultThreshold, MaxPayload: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		store *store.Store
		bytes int
		want  string
	}{
		"without a store":          {bytes: 1 << 20},
		"too large without one":    {bytes: 2 << 20, want: "configure a store (store.dir) for workers and starter"},
		"with a store":             {store: stored, bytes: 3 << 20},
		"too large for that store": {store: stored, bytes: 5 << 20, want: "raise store.max_payload"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &Connection{Temporal: &config.Temporal{Store: tc.store}}
			err := c.checkSize(&contract.RunInput{Input: strings.Repeat("x", tc.bytes)})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
