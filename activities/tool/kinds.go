package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Kind is a kind of connection that has tools.
type Kind struct {
	// Says is one line for listings.
	Says string
	dial func(ctx context.Context, at *target) (remote, error)
}

// Kinds are the kinds of connection by [plan.Connection.Kind]. An empty kind is mcp.
var Kinds = map[string]Kind{
	plan.ConnectionMCP:      {Says: "an MCP server over " + strings.Join(transportNames, ", "), dial: dialMCP},
	plan.ConnectionLocal:    {Says: "Go functions of the worker itself", dial: dialLocal},
	plan.ConnectionActivity: {Says: "an activity on another task queue, which the run calls itself", dial: dialExternalActivity},
	plan.ConnectionHTTP:     {Says: "HTTP requests that a flow describes", dial: dialRequests},
	plan.ConnectionA2A:      {Says: "an agent that speaks the Agent2Agent protocol; it has no tools", dial: dialA2A},
}

func kindNames() string {
	return strings.Join(slices.Sorted(maps.Keys(Kinds)), " or ")
}

// remote is a session with one server. Its methods may be called concurrently. Errors are a *contract.Failure,
// errForgotten, or those of classify.
type remote interface {
	list(ctx context.Context) ([]contract.ToolSpec, error)
	call(ctx context.Context, in contract.ToolInput, m Meta) (reply, error)
	// usable is false when the session or its server is gone. idle means that no call runs.
	usable(idle bool) bool
	close()
}

// reply is the outcome of a call that the server answered.
type reply struct {
	text string
	// images have a note each in the text.
	images  []contract.Image
	isError bool
}

// errForgotten: the server no longer knows the session, and executed nothing.
var errSessionUnknown = errors.New("the server does not know the session")

// dial begins a session.
func dial(ctx context.Context, at *target) (remote, error) {
	s, err := Kinds[at.conn.kind()].dial(ctx, at)
	if err == nil {
		return s, nil
	}
	if ctx.Err() == context.DeadlineExceeded {
		return nil, at.failure(contract.ClassTimeout,
			fmt.Sprintf("no session within %d s: %v", at.conn.ConnectSeconds, errorText(err)),
			fmt.Sprintf("check that the server is up; raise %s.%s.connect_timeout if it starts slowly", SettingConnections, at.id))
	}
	return nil, err
}
