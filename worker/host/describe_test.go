package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"weft/activities"
	"weft/activities/contract"
	"weft/worker/config"
)

// operator is a fake client for the search attributes of a namespace.
type operator struct {
	client.Client
	operatorservice.OperatorServiceClient
	kinds map[string]enumspb.IndexedValueType
	err   error
}

func (o *operator) OperatorService() operatorservice.OperatorServiceClient { return o }

func (o *operator) WorkflowService() workflowservice.WorkflowServiceClient { return namespaces{} }

// namespaces is a fake without a visibility store in SQL.
type namespaces struct {
	workflowservice.WorkflowServiceClient
}

func (namespaces) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

func (o *operator) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.kinds}, o.err
}

func (o *operator) AddSearchAttributes(context.Context, *operatorservice.AddSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	return &operatorservice.AddSearchAttributesResponse{}, o.err
}

// TestAddAttributes checks that a setup without permission to add search attributes says how to add them, and does not retry.
func TestAddAttributes(t *testing.T) {
	tests := map[string]struct {
		err   error
		want  string
		final bool
	}{
		"added":             {},
		"already exists":    {err: serviceerror.NewAlreadyExists("there")},
		"permission denied": {err: serviceerror.NewPermissionDenied("not for you", ""), final: true, want: "tcld namespace search-attributes add --namespace n.acct --search-attribute WeftFlow=Keyword --search-attribute WeftStatus=Keyword"},
		"unimplemented":     {err: serviceerror.NewUnimplemented("what?"), final: true, want: "temporal operator search-attribute create --namespace n.acct --name WeftFlow --type Keyword --name WeftStatus --type Keyword; "},
		"unavailable":       {err: serviceerror.NewUnavailable("away"), want: "add search attributes to namespace n.acct: away"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := AddAttributes(t.Context(), &operator{err: tc.err}, "n.acct", []string{"WeftFlow", "WeftStatus"})
			var final config.Problems
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || errors.As(err, &final) != tc.final {
				t.Errorf("error = %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestMissingAttributes(t *testing.T) {
	kinds := func(kind enumspb.IndexedValueType, names ...string) map[string]enumspb.IndexedValueType {
		out := map[string]enumspb.IndexedValueType{}
		for _, n := range names {
			out[n] = kind
		}
		return out
	}
	const keyword = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	tests := map[string]struct {
		o    operator
		want string
	}{
		"none missing": {o: operator{kinds: kinds(keyword, contract.Attributes...)}},
		"some missing": {o: operator{kinds: kinds(keyword, "WeftFlow", "WeftStatus")},
			want: "worker: search attributes missing: WeftDialect, WeftPlanHash, WeftPrincipal, WeftTenant; runs work without them; add them with: " +
				"temporal operator search-attribute create --namespace prod --name WeftDialect --type Keyword --name WeftPlanHash --type Keyword --name WeftPrincipal --type Keyword --name WeftTenant --type Keyword\n"},
		"all of another type": {o: operator{kinds: kinds(enumspb.INDEXED_VALUE_TYPE_TEXT, contract.Attributes...)},
			want: "worker: search attributes of a type other than Keyword: WeftFlow (Text), WeftDialect (Text), WeftPlanHash (Text), WeftStatus (Text), WeftPrincipal (Text), WeftTenant (Text); runs work without them; remove them and add them again as Keyword\n"},
		"list error": {o: operator{err: errors.New("not for you")},
			want: `worker: cannot read the search attributes: list the search attributes of namespace "prod": not for you; runs set only those of their start request` + "\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := &Host{attributes: activities.NewAttributes(&tc.o)}
			if got := h.Attributes(t.Context(), "prod"); got != tc.want || strings.Count(got, "\n") > 1 {
				t.Errorf("Attributes() = %s, want %s", got, tc.want)
			}
		})
	}
}

// TestFairnessWarning checks that the warning is shown if policies distinguish tenants.
func TestFairnessWarning(t *testing.T) {
	for settings, want := range map[string]bool{"policies: {p: {scripts: true}}": false, "policies: {p: {tenants: [north]}}": true} {
		text := (&Host{}).Describe("a:7233", "n", load(t, settings, nil))
		if got := strings.Contains(text, "matching.enableFairness"); got != want {
			t.Errorf("settings %s: warning shown: %v, want %v", settings, got, want)
		}
	}
}
