// Package tool lists and calls tools.
//
// Tools are Go functions registered with the worker by [Func], HTTP requests described by a flow, database
// operations, or tools of MCP servers over streamable HTTP, SSE or a command's standard input and output.
// Servers and credentials are configured on the worker; a flow refers to them by id, or supplies a URL that
// policy.go checks when it is dialled. All calls of a worker share one session per server and credentials.
//
// The package never retries a call that a server may have executed, never reads the environment, never follows
// a redirect, and never includes a credential in an error.
//
// Start at [Open], then [Tools.Call]. To add a kind of connection, add a row to kinds. To write your own
// functions, start at [Func].
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
	"weft/activities/tool/serverrequest"
	"weft/workflows/plan"
)

// Tools is a worker's access to tools. Its methods may be called concurrently.
type Tools struct {
	// Programs runs the programs in trusted folders.
	Programs      program.Programs
	settings      Settings
	sessions      *pool
	sessionLosses sessionLosses
}

// Meta holds the options of one call.
type Meta struct {
	// IdempotencyKey is the same for all attempts of a call. It is sent as the _meta field weft/idempotency-key
	// and, over HTTP, as the header Idempotency-Key. If empty, it is not sent.
	IdempotencyKey string
	// Caller, if set, identifies a model's conversation. If its session was lost, the call is not made and the result is an error.
	Caller string
	// Repeated means that an earlier attempt may have taken effect.
	Repeated bool
	// Session identifies the session that served the run's previous call over the connection, on any worker. The call
	// continues that session; if it has been lost, the call is not made and the result is an error for the model.
	Session SessionRef
	// Ask, if set, answers requests that the server sends during the call.
	Ask serverrequest.Ask
	// Progress, if set, receives the server's progress notifications. Those that arrive while it blocks may be dropped.
	Progress func(text string)
	// Panicked, if set, is called when a function of the worker panics.
	Panicked func(value any, stack []byte)
}

// Open validates all settings without network access. Each session starts with its first call. The caller must close the result.
func Open(s Settings) (*Tools, error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Tools{Programs: program.Programs{Trusted: s.Trusted, BaseEnv: s.BaseEnv, MaxOutput: s.MaxResultBytes}, settings: s, sessions: newPool(time.Duration(s.IdleSeconds)*time.Second, dial)}, nil
}

// Close ends all sessions and their processes. Running and later calls fail with class unavailable.
func (t *Tools) Close() { t.sessions.close() }

// List returns a connection's tools, sorted by name, with the server's schemas. Its error is a *[contract.Failure] or ctx.Err().
func (t *Tools) List(ctx context.Context, c plan.Connection) ([]contract.ToolSpec, error) {
	var specs []contract.ToolSpec
	return specs, t.withConnection(ctx, c, func(ctx context.Context, at *target, s remote) (err error) {
		specs, err = s.list(ctx, &c)
		return err
	})
}

// withConnection resolves a connection and runs f on its session.
func (t *Tools) withConnection(ctx context.Context, c plan.Connection, f func(context.Context, *target, remote) error) error {
	at, err := t.locate(c, "")
	if err != nil {
		return err
	}
	return t.withSession(ctx, at, func(ctx context.Context, e *entry) error { return f(ctx, at, e.server) })
}

// Result is the result of a tool call.
type Result struct {
	// Text is the full result, with a note for each file in Media. The model receives both.
	Text  string
	Media []contract.Media
	// Links are the URIs of resources that a model may read.
	Links []string
	// Failed means that Text is an error for the model, such as an unknown tool or invalid arguments.
	Failed bool
	// Session identifies the session that served the call.
	Session SessionRef
	// Input, if set, is the input that the server requires before it completes the call.
	Input *contract.InputRequired
	// Task, if set, is the task as which the server continues the call.
	Task *contract.Task
}

// CalledURL returns the URL of a call whose arguments determine the server. It is empty if they do not, or if they are invalid.
func CalledURL(in contract.ToolInput) string {
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

// Call makes one tool call. Its error is a *[contract.Failure], which reports whether the call may have taken
// effect, or ctx.Err(), after which it may have.
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
	at.session, at.callLimit = m.Session, time.Duration(in.TimeoutMillis)*time.Millisecond
	err = t.withSession(ctx, at, func(ctx context.Context, e *entry) (err error) {
		served = identity(e.server)
		if in.TaskID != "" {
			// A task may outlive the session that created it.
			r, err = e.server.call(ctx, in, m)
			return err
		}
		if changed := t.sessionLosses.sessionChanged(m.Caller, e); changed || m.Session.ID != "" && m.Session.ID != served.ID {
			r = Result{Text: sessionLostText(m.Repeated), Failed: true}
			return nil
		}
		r, err = e.server.call(ctx, in, m)
		t.sessionLosses.record(m.Caller, e, err)
		return err
	})
	if err != nil {
		return Result{}, sent.MarkOutcome(err)
	}
	r.Text, r.Session = at.secrets.maskResult(r.Text), served
	if len(r.Text) > t.settings.MaxResultBytes {
		return Result{}, &contract.Failure{
			Class: contract.ClassTooLarge,
			Text: fmt.Sprintf("result of tool %q of %s has %d bytes, the limit is %d",
				in.Name, at.name(), len(r.Text), t.settings.MaxResultBytes),
			Remedy: "have the tool return less, page its result, or " + t.settings.largerResultRemedy(),
		}
	}
	if !at.conn.Resources {
		r.Links = nil
	}
	return r, nil
}

// withSession runs f on the session of a target, and runs it again on a new session if the server did not know the first.
func (t *Tools) withSession(ctx context.Context, at *target, f func(context.Context, *entry) error) error {
	timeout, setting := at.conn.Timeout, at.timeoutSetting
	if timeout == 0 || at.callLimit > 0 && at.callLimit < timeout {
		timeout, setting = at.callLimit, at.callTimeoutSetting
	}
	run, cancel := serverrequest.WithClock(ctx, timeout, at.conn.Elicitation)
	defer cancel()
	err := t.tryOnce(run, at, f)
	if errors.Is(err, errSessionUnknown) {
		at.session = SessionRef{}
		err = t.tryOnce(run, at, f)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if run.Err() != nil {
		return at.failure(contract.ClassTimeout, fmt.Sprintf("no answer within %g s", timeout.Seconds()), "if the tool needs longer, raise "+setting)
	}
	return classify(at, err)
}

func (t *Tools) tryOnce(ctx context.Context, at *target, f func(context.Context, *entry) error) error {
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

// Rules returns the operator's and the tools' own rules for calling tools of a resolved connection. A nil Tools has no rules.
func (t *Tools) Rules(c plan.Connection, tools []contract.ToolSpec) contract.CallRules {
	var out contract.CallRules
	if t == nil {
		return out
	}
	var configured Connection
	if t.isOperatorConnection(c) {
		configured = t.settings.Connections[c.ID]
	}
	out.AskUnknown = configured.Retry == retryAsk
	if out.Resources = configured.Resources; out.Resources {
		tools = append(slices.Clip(tools), contract.ToolSpec{Name: plan.BuiltinReadResource, Repeatable: true})
	}
	for i := range tools {
		name := tools[i].Name
		if limit, ok := t.confirmation(c, name); ok {
			out.Confirm = append(out.Confirm, contract.ConfirmRule{Name: name, Timeout: limit})
		}
		if configured.Retry == retryAlways || tools[i].Repeatable && configured.Retry != retryNever {
			out.Repeatable = append(out.Repeatable, name)
		}
		if tools[i].Pure && configured.Retry != retryNever {
			out.Pure = append(out.Pure, name)
		}
		if tools[i].HoldsRequests {
			out.HoldSeconds = seconds(cmp.Or(configured.Elicitation, defaultElicitation))
		}
		if tools[i].AsTask {
			out.AsTasks = append(out.AsTasks, name)
		}
	}
	return out
}

// isOperatorConnection reports whether a resolved connection is the one that the operator configured under its id. If a flow
// supplies another address for the id, the operator's settings do not apply to it.
func (t *Tools) isOperatorConnection(c plan.Connection) bool {
	return c.URL == t.settings.Connections[c.ID].URL || c.URL == "" && c.Command == ""
}

// arguments returns a call's arguments as a JSON object, or an error message for the model.
func arguments(raw json.RawMessage) (object json.RawMessage, problem string) {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), ""
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Sprintf("arguments must be a JSON object: %v", err)
	}
	return raw, ""
}

// kinds has the function that starts a session, by [plan.Connection.Kind]. An empty kind is mcp.
var kinds = map[string]func(ctx context.Context, at *target) (remote, error){
	plan.ConnectionMCP:      dialMCP,              // an MCP server over HTTP, SSE or a command
	plan.ConnectionLocal:    dialLocal,            // Go functions of the worker
	plan.ConnectionActivity: dialExternalActivity, // an activity on another task queue, scheduled by the run itself
	plan.ConnectionHTTP:     dialRequests,         // HTTP requests described by a flow
	plan.ConnectionA2A:      dialA2A,              // an agent that speaks the Agent2Agent protocol; it has no tools
	plan.ConnectionDatabase: dialDatabase,         // a database, with operations described by a flow
}

// remote is a session with one server. Its methods may be called concurrently. Their errors are a
// *contract.Failure, errSessionUnknown, or an error that classify converts.
type remote interface {
	list(ctx context.Context, c *plan.Connection) ([]contract.ToolSpec, error)
	call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error)
	// usable reports whether the session can serve another call. idle means that no call is running.
	usable(idle bool) bool
	close()
}

// errSessionUnknown means that the server no longer knows the session and did not execute the request.
var errSessionUnknown = errors.New("the server does not know the session")

func dial(ctx context.Context, at *target) (remote, error) {
	s, err := kinds[at.kind](ctx, at)
	if err == nil {
		return s, nil
	}
	if ctx.Err() == context.DeadlineExceeded {
		return nil, at.failure(contract.ClassTimeout,
			fmt.Sprintf("no session within %d s: %v", seconds(at.conn.ConnectTimeout), textutil.ErrorText(err)),
			"check that the server is up; if it starts slowly, "+at.slowStartRemedy())
	}
	return nil, err
}
