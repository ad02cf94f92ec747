package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
)

// attributesFor is how long the search attributes of a namespace are cached. If an attribute is removed within this
// time, runs that start then are blocked until it is added again.
const attributesFor = 10 * time.Second

// attributesTimeout bounds the request, for which the first step of a run waits.
const attributesTimeout = 3 * time.Second

// Attributes looks up which of [contract.Attributes] a namespace has. It is safe for concurrent use.
type Attributes struct {
	client client.Client

	mu    sync.Mutex
	until time.Time
	// namespace, state and err are the cached response, valid until until.
	namespace string
	state     AttributeState
	err       error
}

// AttributeState lists which of [contract.Attributes] a namespace has.
type AttributeState struct {
	// Registered are those of type Keyword.
	Registered []string
	// Missing are not registered; Wrong have another type, as "NAME (Type)".
	Missing, Wrong []string
}

// NewAttributes returns an Attributes that uses a client.
func NewAttributes(c client.Client) *Attributes { return &Attributes{client: c} }

// Of returns the state of a namespace, which may be some seconds old. It fails if the server does not respond or denies access.
func (a *Attributes) Of(ctx context.Context, namespace string) (AttributeState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.namespace == namespace && time.Now().Before(a.until) {
		return a.state, a.err
	}
	requestCtx, cancel := context.WithTimeout(ctx, attributesTimeout)
	defer cancel()
	kinds, err := a.kinds(requestCtx, namespace)
	if ctx.Err() != nil {
		return AttributeState{}, ctx.Err() // not cached: the caller was cancelled
	}
	a.namespace, a.until, a.state, a.err = namespace, time.Now().Add(attributesFor), AttributeState{}, nil
	if err != nil {
		a.err = fmt.Errorf("list the search attributes of namespace %q: %w", namespace, err)
		return a.state, a.err
	}
	for _, name := range contract.Attributes {
		switch kind, ok := kinds[name]; {
		case !ok:
			a.state.Missing = append(a.state.Missing, name)
		case kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			a.state.Wrong = append(a.state.Wrong, fmt.Sprintf("%s (%s)", name, kind))
		default:
			a.state.Registered = append(a.state.Registered, name)
		}
	}
	return a.state, nil
}

// kinds returns the types of a namespace's search attributes by name.
//
// With a visibility store in SQL, attributes are names for columns, whose own names begin with the type. A namespace without such
// names has another store or no attributes; only then is ListSearchAttributes used, because a server with a store in SQL opens a
// connection for each such request and never closes it.
func (a *Attributes) kinds(ctx context.Context, namespace string) (map[string]enumspb.IndexedValueType, error) {
	described, err := a.client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	if columns := described.GetConfig().GetCustomSearchAttributeAliases(); len(columns) > 0 {
		out := make(map[string]enumspb.IndexedValueType, len(columns))
		for column, name := range columns {
			out[name], _ = enumspb.IndexedValueTypeFromString(strings.TrimRight(column, "0123456789")) // unspecified if unknown
		}
		return out, nil
	}
	listed, err := a.client.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	return listed.GetCustomAttributes(), err
}

// RegisterCommand returns the command line that adds search attributes to a namespace.
func RegisterCommand(namespace string, names ...string) string {
	return "temporal operator search-attribute create --namespace " + namespace +
		" --name " + strings.Join(names, " --type Keyword --name ") + " --type Keyword"
}

// settle decides what a run publishes: the attributes that its start request set, and others that the
// namespace has. If these are unknown, only those that were set.
func (a *Attributes) settle(ctx context.Context, namespace string, start *contract.StartFacts) *contract.Publish {
	out := &contract.Publish{Attributes: start.Attributes, Memo: !start.Memo}
	if a == nil || len(start.Attributes) == len(contract.Attributes) {
		return out
	}
	state, err := a.Of(ctx, namespace)
	if err != nil {
		activity.GetLogger(ctx).Warn("the run publishes no further search attributes", "error", err)
	}
	for _, name := range state.Registered {
		if !slices.Contains(start.Attributes, name) {
			out.Unset = append(out.Unset, name)
		}
	}
	out.Attributes = append(slices.Clone(start.Attributes), out.Unset...)
	return out
}
