// Package tool lists and calls tools.
//
// Tools are Go functions of the worker, made by [Func], requests that a flow describes, or tools of MCP
// servers over streamable HTTP, SSE or a command's standard input and output. Servers and credentials are the
// worker's configuration; a flow names them, or supplies a URL that policy.go checks when it is dialled. All
// calls of a worker share one session per server and credentials.
//
// The package never retries a call that a server may have executed, never reads the environment, never follows
// a redirect, and never writes a credential into an error.
//
// Start at [Open], then [Tools.Call]; a new kind of connection is a row of kinds. For your own functions,
// start at [Func].
package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/activities/contract"
	"weft/activities/program"
	"weft/activities/textutil"
	"weft/activities/tool/delivery"
	"weft/activities/tool/questions"
	"weft/workflows/plan"
)

// Tools is a worker's access to tools. Its methods may be called concurrently.
type Tools struct {
	// Programs are those of trusted folders.
	Programs      program.Programs
	settings      Settings
	sessions      *pool
	sessionLosses sessionLosses
}

// Meta is what one call carries besides its input.
type Meta struct {
	// IdempotencyKey is the same for all attempts of a call. It is sent as _meta field weft/idempotency-key
	// and, over HTTP, as header Idempotency-Key. Empty: not sent.
	IdempotencyKey string
	// Caller, if set, identifies a model's conversation. If its session was lost, an error replaces the result
	// and the call is not made.
	Caller string
	// Repeated: an earlier attempt may have taken effect.
	Repeated bool
	// Session is what served the run's last call over the connection, on any worker. It is continued; where it is gone, an
	// error replaces the result and the call is not made.
	Session SessionRef
	// Ask, if set, has somebody answer what the server asks while it holds the call.
	Ask questions.Ask
	// Progress, if set, receives the server's progress notifications while the call runs. They are dropped
	// while it blocks.
	Progress func(text string)
	// Panicked, if set, is told of a function of the worker's that panicked.
	Panicked func(value any, stack []byte)
}

// Open checks all settings. It uses no network and starts no process: sessions start with their first call.
// The caller closes the result.
func Open(s Settings) (*Tools, error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Tools{Programs: program.Programs{Trusted: s.Trusted, BaseEnv: s.BaseEnv, MaxOutput: s.MaxResultBytes}, settings: s, sessions: newPool(time.Duration(s.IdleSeconds)*time.Second, dial)}, nil
}

// Close ends all sessions and their processes. Running and later calls fail as unavailable.
func (t *Tools) Close() { t.sessions.close() }

// List returns the tools of a connection, sorted by name, each with the server's schema. Errors are a
// *[contract.Failure], or ctx's own.
func (t *Tools) List(ctx context.Context, c plan.Connection) ([]contract.ToolSpec, error) {
	var specs []contract.ToolSpec
	return specs, t.reach(ctx, c, func(ctx context.Context, at *target, s remote) (err error) {
		specs, err = s.list(ctx, &c)
		return err
	})
}

// reach runs f on the session of a connection.
func (t *Tools) reach(ctx context.Context, c plan.Connection, f func(context.Context, *target, remote) error) error {
	at, err := t.locate(c, "")
	if err != nil {
		return err
	}
	return t.within(ctx, at, func(ctx context.Context, e *entry) error { return f(ctx, at, e.server) })
}

// Result is what a tool says.
type Result struct {
	// Text is the whole result; it has a note for each of Media, the files that a model gets beside it.
	Text  string
	Media []contract.Media
	// Links are the resources that a model may read.
	Links []string
	// Failed means that Text is an error of the tool for the model, such as an unknown tool or wrong
	// arguments.
	Failed bool
	// Session is what served the call.
	Session SessionRef
	// Input, if set, is what the server needs before it answers.
	Input *contract.InputRequired
	// Task, if set, is what the server goes on with.
	Task *contract.Task
}

// Called is the URL of a call whose arguments choose the server; empty where they choose none, or none that is called.
func Called(in contract.ToolInput) string {
	if !hasAddressTemplate(in.Connection) {
		return ""
	}
	args, problem := arguments(in.Arguments)
	if in.Arguments = args; problem == "" {
		in, problem = fillAddress(in)
	}
	if problem != "" {
		return ""
	}
	return in.Connection.URL
}

// Call makes one call of a tool. Errors are a *[contract.Failure], which tells whether the call may have taken
// effect, or ctx's own: then it may have.
func (t *Tools) Call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error) {
	args, problem := arguments(in.Arguments)
	if problem != "" {
		return Result{Text: problem, Failed: true}, nil
	}
	in.Arguments = args
	if hasAddressTemplate(in.Connection) {
		if in, problem = fillAddress(in); problem != "" {
			return Result{Text: problem, Failed: true}, nil
		}
	}
	at, err := t.locate(in.Connection, in.Name)
	if err != nil {
		return Result{}, err
	}
	var r Result
	ctx, sent := delivery.Tracked(ctx)
	var served SessionRef
	at.session, at.limit = m.Session, time.Duration(in.TimeoutMillis)*time.Millisecond
	err = t.within(ctx, at, func(ctx context.Context, e *entry) (err error) {
		served = identity(e.server)
		if in.TaskID != "" {
			// A task may outlive the session in which it began.
			r, err = e.server.call(ctx, in, m)
			return err
		}
		if changed := t.sessionLosses.sessionChanged(m.Caller, e); changed || m.Session.ID != "" && m.Session.ID != served.ID {
			r = Result{Text: sessionLost(m.Repeated), Failed: true}
			return nil
		}
		r, err = e.server.call(ctx, in, m)
		t.sessionLosses.record(m.Caller, e, err)
		return err
	})
	if err != nil {
		return Result{}, sent.Judge(err)
	}
	r.Text, r.Session = at.secrets.result(r.Text), served
	if len(r.Text) > t.settings.MaxResultBytes {
		return Result{}, &contract.Failure{
			Class: contract.ClassTooLarge,
			Text: fmt.Sprintf("result of tool %q of %s has %d bytes, the limit is %d",
				in.Name, at.name(), len(r.Text), t.settings.MaxResultBytes),
			Remedy: "have the tool return less, page its result, or " + t.settings.larger(),
		}
	}
	if !at.conn.Resources {
		r.Links = nil
	}
	return r, nil
}

// within runs f on the session of a target, once more if the server did not know the session.
func (t *Tools) within(ctx context.Context, at *target, f func(context.Context, *entry) error) error {
	own, setting := at.conn.Timeout, at.ownTimeout
	if own == 0 || at.limit > 0 && at.limit < own {
		own, setting = at.limit, at.callTimeout
	}
	run, cancel := questions.WithClock(ctx, own, at.conn.Elicitation)
	defer cancel()
	err := t.once(run, at, f)
	if errors.Is(err, errSessionUnknown) {
		at.session = SessionRef{}
		err = t.once(run, at, f)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if run.Err() != nil {
		return at.failure(contract.ClassTimeout, fmt.Sprintf("no answer within %g s", own.Seconds()), "if the tool needs longer raise "+setting)
	}
	return classify(at, err)
}

func (t *Tools) once(ctx context.Context, at *target, f func(context.Context, *entry) error) error {
	e, err := t.sessions.acquire(ctx, at)
	if err != nil {
		return err
	}
	defer t.sessions.release(e)
	err = f(ctx, e)
	if errors.Is(err, errSessionUnknown) {
		delivery.MarkSent(ctx, false)
		t.sessions.drop(e)
	}
	return err
}

// Rules are what the operator, and the tools themselves, say of calls of tools of a resolved connection. A nil
// Tools has none.
func (t *Tools) Rules(c plan.Connection, tools []contract.ToolSpec) contract.CallRules {
	var out contract.CallRules
	if t == nil {
		return out
	}
	var own Connection
	if t.ofOperator(c) {
		own = t.settings.Connections[c.ID]
	}
	out.AskUnknown = own.Retry == retryAsk
	if out.Resources = own.Resources; out.Resources {
		tools = append(slices.Clip(tools), contract.ToolSpec{Name: plan.BuiltinReadResource, Repeatable: true})
	}
	for i := range tools {
		name := tools[i].Name
		if limit, ok := t.confirm(c, name); ok {
			out.Confirm = append(out.Confirm, contract.ConfirmRule{Name: name, Timeout: limit})
		}
		if own.Retry == retryAlways || tools[i].Repeatable && own.Retry != retryNever {
			out.Repeatable = append(out.Repeatable, name)
		}
		if tools[i].Pure && own.Retry != retryNever {
			out.Pure = append(out.Pure, name)
		}
		if tools[i].Held {
			out.HoldSeconds = seconds(cmp.Or(own.Elicitation, defaultElicitation))
		}
		if tools[i].AsTask {
			out.AsTasks = append(out.AsTasks, name)
		}
	}
	return out
}

// ofOperator reports whether a resolved connection is the operator's of its id: a flow that gives that another address
// does not get the operator's word with it.
func (t *Tools) ofOperator(c plan.Connection) bool {
	return c.URL == t.settings.Connections[c.ID].URL || c.URL == "" && c.Command == ""
}

// arguments returns a call's arguments as a JSON object, or what is wrong with them, for the model.
func arguments(raw json.RawMessage) (object json.RawMessage, problem string) {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), ""
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Sprintf("arguments are not a JSON object: %v", err)
	}
	return raw, ""
}

// kinds start a session with a server, by [plan.Connection.Kind]. An empty kind is mcp.
var kinds = map[string]func(ctx context.Context, at *target) (remote, error){
	plan.ConnectionMCP:      dialMCP,              // an MCP server over HTTP, SSE or a command
	plan.ConnectionLocal:    dialLocal,            // Go functions of the worker itself
	plan.ConnectionActivity: dialExternalActivity, // an activity on another task queue, which the run calls itself
	plan.ConnectionHTTP:     dialRequests,         // HTTP requests that a flow describes
	plan.ConnectionA2A:      dialA2A,              // an agent that speaks the Agent2Agent protocol; it has no tools
	plan.ConnectionDatabase: dialDatabase,         // a database, with the operations that a flow describes
}

// remote is a session with one server. Its methods may be called concurrently. Errors are a *contract.Failure,
// errSessionUnknown, or those of classify.
type remote interface {
	list(ctx context.Context, c *plan.Connection) ([]contract.ToolSpec, error)
	call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error)
	// usable is false when the session or its server is gone. idle means that no call runs.
	usable(idle bool) bool
	close()
}

// errSessionUnknown: the server no longer knows the session, and executed nothing.
var errSessionUnknown = errors.New("the server does not know the session")

func dial(ctx context.Context, at *target) (remote, error) {
	s, err := kinds[at.kind](ctx, at)
	if err == nil {
		return s, nil
	}
	if ctx.Err() == context.DeadlineExceeded {
		return nil, at.failure(contract.ClassTimeout,
			fmt.Sprintf("no session within %d s: %v", seconds(at.conn.ConnectTimeout), textutil.ErrorText(err)),
			"check that the server is up; if it starts slowly "+at.slowStart())
	}
	return nil, err
}
