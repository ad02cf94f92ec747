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

// TestStart checks that Start retries with fewer search attributes if the namespace does not have all of them.
func TestStart(t *testing.T) {
	all := strings.Join(contract.Attributes, " ")
	tests := map[string]struct {
		// accepted are the attributes that starts may use; listed those that the namespace lists.
		accepted, listed string
		listErr          error
		// err is the error of starts whose attributes are accepted.
		err   error
		tried []string
	}{
		"all attributes":           {accepted: all, listed: all, tried: []string{all}},
		"no attributes":            {tried: []string{all, ""}},
		"some attributes":          {accepted: "WeftFlow WeftPlanHash", listed: "WeftFlow WeftPlanHash", tried: []string{all, "WeftFlow WeftPlanHash"}},
		"list fails":               {accepted: "WeftFlow", listErr: errors.New("no"), tried: []string{all, ""}},
		"some listed are rejected": {accepted: "WeftFlow", listed: "WeftFlow WeftPlanHash", tried: []string{all, "WeftFlow WeftPlanHash", ""}},
		"all listed are rejected":  {listed: all, tried: []string{all, ""}},
		"another invalid argument": {accepted: all, listed: all, err: serviceerror.NewInvalidArgument("bad id"), tried: []string{all, ""}},
		"another error":            {accepted: all, listed: all, err: errors.New("cut off"), tried: []string{all}},
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
			(&runstest.Operator{Names: strings.Fields(tc.listed), Err: tc.listErr}).Serve(c)
			c.On("ExecuteWorkflow", mock.Anything, mock.Anything, contract.WorkflowFlow, mock.Anything).Return(
				func(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
					var names []string
					reject := false
					for _, n := range contract.Attributes {
						if _, ok := o.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(n)); ok {
							names = append(names, n)
							reject = reject || !strings.Contains(" "+tc.accepted+" ", " "+n+" ")
						}
					}
					tried = append(tried, strings.Join(names, " "))
					if !cmp.Equal(o.Memo, map[string]any{"flow": flow.Name[:255], "flow_hash": hash}) || !strings.HasPrefix(o.StaticDetails, "what for\n\nA continuum flow, hash `") {
						t.Errorf("options = %+v", o)
					}
					if reject {
						return nil, serviceerror.NewInvalidArgument("no mapping defined")
					}
					run := &mocks.WorkflowRun{}
					run.On("GetID").Return("r")
					run.On("GetRunID").Return("one")
					return run, tc.err
				})
			_, err := (&Connection{Temporal: &config.Temporal{Client: c, Namespace: "n"}}).Start(t.Context(), client.StartWorkflowOptions{}, flow, &contract.RunInput{Flow: contract.FlowRef{Plan: flow}})
			if !errors.Is(err, tc.err) {
				t.Errorf("error = %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.tried, tried); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLargestInput checks the size limit of inputs, with and without a store.
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
		"no store":            {bytes: 1 << 20},
		"no store, too large": {bytes: 2 << 20, want: "configure a store (store.dir) for workers and starter"},
		"store":               {store: stored, bytes: 3 << 20},
		"store, too large":    {store: stored, bytes: 5 << 20, want: "raise store.max_payload"},
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
