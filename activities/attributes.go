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
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
)

// attributesFor is how long an answer about a namespace's search attributes is reused. An attribute that is
// removed within it blocks runs that start then until it is added again.
const attributesFor = 10 * time.Second

// attributesTimeout bounds the request, which a run's first step waits for.
const attributesTimeout = 3 * time.Second

// Attributes asks Temporal which of the contract's search attributes a namespace has. It is safe for
// concurrent use.
type Attributes struct {
	client client.Client

	mu    sync.Mutex
	until time.Time
	// namespace, state and err are the last answer.
	namespace string
	state     AttributeState
	err       error
}

// AttributeState is what a namespace has of [contract.Attributes].
type AttributeState struct {
	// Registered have the type Keyword.
	Registered []string
	// Missing are not there; Wrong are there with another type, as "NAME (Type)".
	Missing, Wrong []string
}

// NewAttributes makes one that asks through a client.
func NewAttributes(c client.Client) *Attributes { return &Attributes{client: c} }

// Of returns what a namespace has, up to some seconds old. It fails if the server does not answer, or refuses.
func (a *Attributes) Of(ctx context.Context, namespace string) (AttributeState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.namespace == namespace && time.Now().Before(a.until) {
		return a.state, a.err
	}
	asking, cancel := context.WithTimeout(ctx, attributesTimeout)
	defer cancel()
	all, err := a.client.OperatorService().ListSearchAttributes(asking, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if ctx.Err() != nil {
		return AttributeState{}, ctx.Err() // the caller's own end says nothing to the next one
	}
	a.namespace, a.until, a.state, a.err = namespace, time.Now().Add(attributesFor), AttributeState{}, nil
	if err != nil {
		a.err = fmt.Errorf("ask for the search attributes of namespace %q: %w", namespace, err)
		return a.state, a.err
	}
	for _, name := range contract.Attributes {
		switch kind, ok := all.GetCustomAttributes()[name]; {
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

// RegisterCommand is the command line that adds search attributes to a namespace.
func RegisterCommand(namespace string, names ...string) string {
	return "temporal operator search-attribute create --namespace " + namespace +
		" --name " + strings.Join(names, " --type Keyword --name ") + " --type Keyword"
}

// settle decides what a run publishes: the attributes that its start request set, and the others that the
// namespace has. If nobody can say, only those that were set.
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
