package activities

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"weft/activities/contract"
)

// fakeOperator lists the search attributes of a namespace.
type fakeOperator struct {
	client.Client
	operatorservice.OperatorServiceClient
	// columns are the attributes of a visibility store in SQL, kinds those of another.
	columns  map[string]string
	kinds    map[string]enumspb.IndexedValueType
	err      error
	requests []string
}

func (o *fakeOperator) OperatorService() operatorservice.OperatorServiceClient { return o }

func (o *fakeOperator) ListSearchAttributes(_ context.Context, in *operatorservice.ListSearchAttributesRequest, _ ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	o.requests = append(o.requests, in.GetNamespace())
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.kinds}, o.err
}

func (o *fakeOperator) WorkflowService() workflowservice.WorkflowServiceClient {
	return &fakeNamespaces{columns: o.columns}
}

type fakeNamespaces struct {
	workflowservice.WorkflowServiceClient
	columns map[string]string
}

func (n *fakeNamespaces) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{Config: &namespacepb.NamespaceConfig{CustomSearchAttributeAliases: n.columns}}, nil
}

func keywords(names ...string) map[string]enumspb.IndexedValueType {
	out := map[string]enumspb.IndexedValueType{}
	for _, n := range names {
		out[n] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return out
}

func TestAttributesOfANamespace(t *testing.T) {
	o := &fakeOperator{kinds: keywords("WeftFlow", "Other")}
	o.kinds["WeftStatus"] = enumspb.INDEXED_VALUE_TYPE_INT
	a := NewAttributes(o)
	want := AttributeState{Registered: []string{"WeftFlow"}, Missing: []string{"WeftDialect", "WeftPlanHash", "WeftPrincipal", "WeftTenant"}, Wrong: []string{"WeftStatus (Int)"}}
	for _, namespace := range []string{"one", "one", "two"} {
		got, err := a.Of(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Of(%s) (-want +got):\n%s", namespace, diff)
		}
	}
	if got := strings.Join(o.requests, " "); got != "one two" {
		t.Errorf("requests = %q, want one two: answers are cached by namespace", got)
	}
	a.until = time.Now()
	if _, err := a.Of(t.Context(), "two"); err != nil || len(o.requests) != 3 {
		t.Errorf("an expired answer was used: %v, %v", o.requests, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	a.until = time.Now()
	if _, err := a.Of(ended, "two"); !errors.Is(err, context.Canceled) || a.until.After(time.Now()) {
		t.Errorf("a cancelled caller gets %v, cached until %v", err, a.until)
	}
	o.requests = o.requests[:3]
	a.until, o.err = time.Now(), errors.New("not for you")
	for range 2 {
		if _, err := a.Of(t.Context(), "two"); err == nil || err.Error() != `list the search attributes of namespace "two": not for you` {
			t.Errorf("error is %v", err)
		}
	}
	if len(o.requests) != 4 {
		t.Errorf("%d requests, want 4: errors are cached too", len(o.requests))
	}
}

// TestAttributesInSQL checks that the types of attributes are those of the columns that a namespace maps, and that they are not listed
// by the server, which would keep a connection open.
func TestAttributesInSQL(t *testing.T) {
	o := &fakeOperator{columns: map[string]string{"Keyword02": "WeftFlow", "Int01": "WeftStatus", "KeywordList01": "WeftTenant", "Keyword10": "Other", "Column": "WeftDialect"}}
	got, err := NewAttributes(o).Of(t.Context(), "one")
	want := AttributeState{Registered: []string{"WeftFlow"}, Missing: []string{"WeftPlanHash", "WeftPrincipal"},
		Wrong: []string{"WeftDialect (Unspecified)", "WeftStatus (Int)", "WeftTenant (KeywordList)"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, state (-want +got):\n%s", err, diff)
	}
	if len(o.requests) > 0 {
		t.Errorf("attributes were listed for %q", o.requests)
	}
}

func TestCompileFlowPublish(t *testing.T) {
	all := contract.Attributes
	tests := map[string]struct {
		kinds    map[string]enumspb.IndexedValueType
		err      error
		root     *contract.StartFacts
		want     *contract.Publish
		requests int
	}{
		"no root run": {kinds: keywords(all...)},
		"all are there": {kinds: keywords(all...), root: &contract.StartFacts{}, requests: 1,
			want: &contract.Publish{Attributes: all, Unset: all, Memo: true}},
		"none is there": {root: &contract.StartFacts{}, requests: 1, want: &contract.Publish{Memo: true}},
		"the start request set all": {root: &contract.StartFacts{Attributes: all, Memo: true},
			want: &contract.Publish{Attributes: all}},
		"the start request set one": {kinds: keywords("WeftFlow", "WeftStatus"), root: &contract.StartFacts{Attributes: []string{"WeftFlow"}}, requests: 1,
			want: &contract.Publish{Attributes: []string{"WeftFlow", "WeftStatus"}, Unset: []string{"WeftStatus"}, Memo: true}},
		"the server returns an error": {err: errors.New("no"), root: &contract.StartFacts{Attributes: []string{"WeftFlow"}, Memo: true}, requests: 1,
			want: &contract.Publish{Attributes: []string{"WeftFlow"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := &fakeOperator{kinds: tc.kinds, err: tc.err}
			_, env := bench(t, Deps{Attributes: NewAttributes(o)})
			out, f := perform[contract.CompileFlowResult](t, env, contract.ActivityCompileFlow, contract.CompileFlowInput{Root: tc.root})
			if f != nil {
				t.Fatal(f)
			}
			if diff := cmp.Diff(tc.want, out.Publish); diff != "" || len(o.requests) != tc.requests {
				t.Errorf("%d requests, publish (-want +got):\n%s", len(o.requests), diff)
			}
		})
	}
	t.Run("no client", func(t *testing.T) {
		_, env := bench(t, Deps{})
		out, f := perform[contract.CompileFlowResult](t, env, contract.ActivityCompileFlow, contract.CompileFlowInput{Root: &contract.StartFacts{}})
		if f != nil || !cmp.Equal(out.Publish, &contract.Publish{Memo: true}) {
			t.Errorf("publish is %+v, failure %v", out, f)
		}
	})
}
