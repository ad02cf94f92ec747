// Package tasks implements tasks of MCP servers: calls that a server continues after it has responded, for days if necessary.
//
// There are two generations of tasks. Up to 2025-11-25, the client requests a task, and fetches its result with tasks/result. From
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
	// Extension is the extension that a client of 2026-07-28 declares.
	Extension = "io.modelcontextprotocol/tasks"
	// methodUpdate is the method that sends answers to a task of 2026-07-28.
	methodUpdate = "tasks/update"
	// TTLMillis is the retention that is requested for a task of 2025-11-25, in milliseconds. The server may choose a shorter one.
	TTLMillis int64 = 30 * 24 * 60 * 60 * 1000
)

// The states of a task.
const (
	Working       = "working"
	InputRequired = "input_required"
	Completed     = "completed"
	Failed        = "failed"
	Cancelled     = "cancelled"
)

// state is the state of a task, with the fields of both generations.
type state struct {
	ID             string   `json:"taskId"`
	Status         string   `json:"status"`
	StatusMessage  string   `json:"statusMessage"`
	TTL            *float64 `json:"ttl"`
	TTLMillis      *float64 `json:"ttlMs"`
	PollInterval   float64  `json:"pollInterval"`
	PollIntervalMs float64  `json:"pollIntervalMs"`
}

// Task is a task as reported by its server.
type Task struct {
	contract.Task
	Status, Message string
	// result and rpcError are the result and the error of a task of 2026-07-28 that has ended.
	result, rpcError json.RawMessage
}

// Created parses a result of tools/call. It returns nil if the result is not a task.
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

func parseTask(raw []byte) (*Task, error) {
	var r struct {
		state
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	t := r.state.task()
	t.result, t.rpcError = r.Result, r.Error
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

// millis limits a server's number of milliseconds to a range that timers support.
func millis(n float64) int64 { return int64(min(max(n, 0), 1<<40)) }

// Server accesses the tasks of a server.
type Server struct {
	Client *client.Client
	// Send makes a request and returns the result as the server sent it, or the server's JSON-RPC error.
	Send func(ctx context.Context, send func(context.Context) error) ([]byte, *mcp.JSONRPCErrorDetails, error)
}

// Request returns a function that calls a method of the client and discards its result. [Server.Send] returns the raw result.
func Request[In, Out any](method func(context.Context, In) (Out, error), in In) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := method(ctx, in)
		return err
	}
}

// Outcome is the state of a task and, if it has ended, its result.
type Outcome struct {
	Task
	// Raw is the result of tasks/get.
	Raw []byte
	// Result is the result of the call, Problem its error.
	Result  []byte
	Problem *mcp.JSONRPCErrorDetails
	// Lost means that the server does not report the task; Problem is the reason.
	Lost bool
}

// modern reports whether the server implements tasks as an extension, from 2026-07-28 on.
func (s *Server) modern() bool { return mcp.IsModernProtocol(s.Client.ProtocolVersion()) }

// Requested reports whether calls of a tool are requested as tasks, which is the case if the server requires or supports it.
func (s *Server) Requested(support mcp.TaskSupport) bool {
	c := s.Client.GetServerCapabilities().Tasks
	supported := c != nil && c.Requests != nil && c.Requests.Tools != nil && c.Requests.Tools.Call != nil
	return !s.modern() && (support == mcp.TaskSupportRequired || support == mcp.TaskSupportOptional && supported)
}

// Poll sends the answers to a task's requests, if any, and then gets the state of the task and, if it has ended, its result.
func (s *Server) Poll(ctx context.Context, id string, answers map[string]json.RawMessage) (*Outcome, error) {
	if len(answers) > 0 {
		if _, problem, err := s.get(context.WithValue(ctx, answersKey{}, answers), id); err != nil || problem != nil {
			return &Outcome{Problem: problem, Lost: true}, err
		}
	}
	raw, problem, err := s.get(ctx, id)
	if err != nil || problem != nil {
		return &Outcome{Problem: problem, Lost: true}, err
	}
	t, err := parseTask(raw)
	if err != nil {
		return nil, err
	}
	t.ID = id
	out := &Outcome{Task: *t, Raw: raw, Result: t.result}
	if t.Status == Completed || t.Status == Failed {
		err = s.fetchResult(ctx, out)
	}
	return out, err
}

// fetchResult sets the result or the error of a task that has ended.
func (s *Server) fetchResult(ctx context.Context, out *Outcome) (err error) {
	switch {
	case !s.modern():
		out.Result, out.Problem, err = s.Result(ctx, out.ID)
	case out.Status == Failed:
		out.Problem = &mcp.JSONRPCErrorDetails{Message: out.Message}
		if len(out.rpcError) > 0 {
			err = json.Unmarshal(out.rpcError, out.Problem)
		}
	}
	if err == nil && out.Problem == nil && len(out.Result) == 0 {
		err = fmt.Errorf("task %q is %s but has no result", out.ID, out.Status)
	}
	return err
}

// ReportsInput reports whether tasks/get returns the requests of a task and tasks/update accepts the answers. Up to 2025-11-25,
// the server sends its requests to the client while it processes [Server.Result].
func (s *Server) ReportsInput() bool { return s.modern() }

// Result waits for the result of a task up to 2025-11-25. The server does not respond until the task has ended.
func (s *Server) Result(ctx context.Context, id string) ([]byte, *mcp.JSONRPCErrorDetails, error) {
	return s.Send(ctx, Request(s.Client.TaskResult, mcp.TaskResultRequest{Params: mcp.TaskResultParams{TaskId: id}}))
}

func (s *Server) get(ctx context.Context, id string) ([]byte, *mcp.JSONRPCErrorDetails, error) {
	return s.Send(ctx, Request(s.Client.GetTask, mcp.GetTaskRequest{Header: routingHeader(id), Params: mcp.GetTaskParams{TaskId: id}}))
}

// Cancel cancels a task. A server that rejects the request is not an error: the task has ended or is unknown.
func (s *Server) Cancel(ctx context.Context, id string) error {
	_, _, err := s.Send(ctx, Request(s.Client.CancelTask, mcp.CancelTaskRequest{Header: routingHeader(id), Params: mcp.CancelTaskParams{TaskId: id}}))
	return err
}

// routingHeader returns the header by which proxies route requests about a task.
func routingHeader(id string) http.Header {
	name, _ := mcp.EncodeHeaderValue(id) // cannot fail for a string
	return http.Header{"Mcp-Name": {name}}
}

type answersKey struct{}

// Update changes a tasks/get request whose context has answers to tasks/update, which the library does not support.
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
