// Package tasks parses the messages of MCP servers about tasks: calls that a server continues by itself, for days if necessary.
//
// There are two generations. Up to 2025-11-25, the client requests a task, and fetches its result with tasks/result. From
// 2026-07-28 on, tasks are an extension: the server decides to create one, and tasks/get returns the result.
package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
)

const (
	// Extension is what a client of 2026-07-28 declares.
	Extension = "io.modelcontextprotocol/tasks"
	// methodUpdate brings a task of 2026-07-28 the answers that it asks for.
	methodUpdate = "tasks/update"
	// KeepMillis is how long a server is asked to keep a task of 2025-11-25: it may last that long. A server may keep it shorter.
	KeepMillis int64 = 30 * 24 * 60 * 60 * 1000
)

// The states of a task.
const (
	Working       = "working"
	InputRequired = "input_required"
	Completed     = "completed"
	Failed        = "failed"
	Cancelled     = "cancelled"
)

// state is a task in the words of both generations.
type state struct {
	ID             string   `json:"taskId"`
	Status         string   `json:"status"`
	StatusMessage  string   `json:"statusMessage"`
	TTL            *float64 `json:"ttl"`
	TTLMillis      *float64 `json:"ttlMs"`
	PollInterval   float64  `json:"pollInterval"`
	PollIntervalMs float64  `json:"pollIntervalMs"`
}

// Task is a task as its server describes it.
type Task struct {
	contract.Task
	Status, Message string
	// result and problem are those of a task of 2026-07-28 that has ended.
	result, problem json.RawMessage
}

// Created reads a result of tools/call. It returns nil where that is not a task.
func Created(raw []byte) *Task {
	var r struct {
		state
		ResultType string          `json:"resultType"`
		Task       *state          `json:"task"`
		Content    json.RawMessage `json:"content"`
	}
	switch err := json.Unmarshal(raw, &r); {
	case err != nil:
		return nil
	case r.ResultType == "task" && r.ID != "":
		return r.state.task()
	case r.ResultType == "" && r.Content == nil && r.Task != nil && r.Task.ID != "":
		return r.Task.task()
	}
	return nil
}

func read(raw []byte) (*Task, error) {
	var r struct {
		state
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	t := r.state.task()
	t.result, t.problem = r.Result, r.Error
	return t, nil
}

func (s *state) task() *Task {
	t := &Task{Task: contract.Task{ID: s.ID, PollMillis: millis(max(s.PollInterval, s.PollIntervalMs))}, Status: s.Status, Message: s.StatusMessage}
	for _, ttl := range []*float64{s.TTL, s.TTLMillis} {
		if ttl != nil {
			t.KeptMillis = millis(*ttl)
		}
	}
	return t
}

// millis bounds a server's number to what a timer takes.
func millis(n float64) int64 { return int64(min(max(n, 0), 1<<40)) }

// Server is a server that has tasks.
type Server struct {
	Client *client.Client
	// Ask makes a request and returns the server's own bytes: a result, or what it refuses the request with.
	Ask func(ctx context.Context, send func(context.Context) error) ([]byte, *mcp.JSONRPCErrorDetails, error)
}

// Request makes a request by a method of the client, whose result is left to whoever has the server's own bytes.
func Request[In, Out any](method func(context.Context, In) (Out, error), in In) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := method(ctx, in)
		return err
	}
}

// Outcome is what a server tells of a task.
type Outcome struct {
	Task
	// Raw is the answer of tasks/get.
	Raw []byte
	// Result is that of the call, Problem what it failed with.
	Result  []byte
	Problem *mcp.JSONRPCErrorDetails
	// Lost: the server does not tell of the task, for the reason of Problem.
	Lost bool
}

// modern reports whether tasks are the extension.
func (s *Server) modern() bool { return mcp.IsModernProtocol(s.Client.ProtocolVersion()) }

// Wanted reports whether calls of a tool are to be asked for as tasks: where the server requires or offers it.
func (s *Server) Wanted(support mcp.TaskSupport) bool {
	c := s.Client.GetServerCapabilities().Tasks
	offered := c != nil && c.Requests != nil && c.Requests.Tools != nil && c.Requests.Tools.Call != nil
	return !s.modern() && (support == mcp.TaskSupportRequired || support == mcp.TaskSupportOptional && offered)
}

// Look asks for the state of a task, after it has brought it answers, if there are any, and for its result.
func (s *Server) Look(ctx context.Context, id string, answers map[string]json.RawMessage) (*Outcome, error) {
	if len(answers) > 0 {
		if _, problem, err := s.get(context.WithValue(ctx, answersKey{}, answers), id); err != nil || problem != nil {
			return &Outcome{Problem: problem, Lost: true}, err
		}
	}
	raw, problem, err := s.get(ctx, id)
	if err != nil || problem != nil {
		return &Outcome{Problem: problem, Lost: true}, err
	}
	t, err := read(raw)
	if err != nil {
		return nil, err
	}
	t.ID = id
	out := &Outcome{Task: *t, Raw: raw, Result: t.result}
	if t.Status == Completed || t.Status == Failed {
		err = s.end(ctx, out)
	}
	return out, err
}

// end gets the result of a task that has ended.
func (s *Server) end(ctx context.Context, out *Outcome) (err error) {
	switch {
	case !s.modern():
		out.Result, out.Problem, err = s.Result(ctx, out.ID)
	case out.Status == Failed:
		out.Problem = &mcp.JSONRPCErrorDetails{Message: out.Message}
		if len(out.problem) > 0 {
			err = json.Unmarshal(out.problem, out.Problem)
		}
	}
	if err == nil && out.Problem == nil && len(out.Result) == 0 {
		err = fmt.Errorf("task %q is %s and has no result", out.ID, out.Status)
	}
	return err
}

// TellsQuestions reports whether tasks/get tells what a task asks, and takes the answers. Up to 2025-11-25 a server asks in
// requests of its own while it holds [Server.Result].
func (s *Server) TellsQuestions() bool { return s.modern() }

// Result asks for the result of a task up to 2025-11-25, which a server holds until there is one.
func (s *Server) Result(ctx context.Context, id string) ([]byte, *mcp.JSONRPCErrorDetails, error) {
	return s.Ask(ctx, Request(s.Client.TaskResult, mcp.TaskResultRequest{Params: mcp.TaskResultParams{TaskId: id}}))
}

func (s *Server) get(ctx context.Context, id string) ([]byte, *mcp.JSONRPCErrorDetails, error) {
	return s.Ask(ctx, Request(s.Client.GetTask, mcp.GetTaskRequest{Header: named(id), Params: mcp.GetTaskParams{TaskId: id}}))
}

// Cancel cancels a task. What the server refuses is no error: the task has ended, or is not known.
func (s *Server) Cancel(ctx context.Context, id string) error {
	_, _, err := s.Ask(ctx, Request(s.Client.CancelTask, mcp.CancelTaskRequest{Header: named(id), Params: mcp.CancelTaskParams{TaskId: id}}))
	return err
}

// named is the header by which proxies route requests about a task.
func named(id string) http.Header {
	name, _ := mcp.EncodeHeaderValue(id) // a text has a value
	return http.Header{"Mcp-Name": {name}}
}

type answersKey struct{}

// Update makes tasks/update of a tasks/get that brings answers: the library has no such request.
func Update(ctx context.Context, req transport.JSONRPCRequest) transport.JSONRPCRequest {
	answers, _ := ctx.Value(answersKey{}).(map[string]json.RawMessage)
	var params map[string]any
	raw, err := json.Marshal(req.Params)
	if answers == nil || err != nil || json.Unmarshal(raw, &params) != nil {
		return req
	}
	params["inputResponses"] = answers
	req.Method, req.Params, req.Header = methodUpdate, params, req.Header.Clone()
	req.Header.Set("Mcp-Method", methodUpdate)
	return req
}
