package tool

import (
	"context"
	"errors"
	"fmt"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// kinds start a session with a server, by [plan.Connection.Kind]. An empty kind is mcp.
var kinds = map[string]func(ctx context.Context, at *target) (remote, error){
	plan.ConnectionMCP:      dialMCP,              // an MCP server over HTTP, SSE or a command
	plan.ConnectionLocal:    dialLocal,            // Go functions of the worker itself
	plan.ConnectionActivity: dialExternalActivity, // an activity on another task queue, which the run calls itself
	plan.ConnectionHTTP:     dialRequests,         // HTTP requests that a flow describes
	plan.ConnectionA2A:      dialA2A,              // an agent that speaks the Agent2Agent protocol; it has no tools
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
	s, err := kinds[at.kind](ctx, at)
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
