package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/activities/tool/delivery"
	"weft/workflows/plan"
)

// Turn is a message to a remote agent.
type Turn struct {
	Text string
	// Session is that of the agent's previous answer, or empty.
	Session json.RawMessage
	// Task is one that an earlier attempt has started: it is waited for, and nothing is sent.
	Task string
	// Key is the same for all attempts, and becomes the message's id.
	Key string
	// Poll is the interval of polling a task; 0 means two seconds.
	Poll time.Duration
	// Started, if set, is called with the id of a task that is running.
	Started func(task string)
}

// Answer is a remote agent's answer.
type Answer struct {
	Text string
	// Session goes with the next turn.
	Session json.RawMessage
	// Asks means that the agent cannot go on without an answer.
	Asks bool
}

// Converse sends a message to a remote agent and waits for its answer. Its errors are a *[contract.Failure], which
// tells whether the agent may have taken the message, or ctx's own.
func (t *Tools) Converse(ctx context.Context, c plan.Connection, turn Turn) (*Answer, error) {
	at, err := t.locate(c, "")
	if err != nil {
		return nil, err
	}
	var out *Answer
	ctx, sent := delivery.Tracked(ctx)
	err = t.within(ctx, at, func(ctx context.Context, e *entry) error {
		agent, ok := e.server.(*a2a)
		if !ok {
			return at.failure(contract.ClassConnection, "connections of kind "+c.Kind+" have no agent", "")
		}
		out, err = agent.converse(ctx, turn)
		return err
	})
	if err != nil {
		return nil, sent.Judge(err)
	}
	out.Text = at.secrets.result(out.Text)
	return out, nil
}

// a2a is an agent behind one address. It speaks the Agent2Agent protocol, 0.2 and 0.3, as JSON-RPC over HTTP.
type a2a struct{ httpServer }

func dialA2A(_ context.Context, at *target) (remote, error) {
	s, err := newHTTPServer(at)
	return &a2a{s}, err
}

func (a *a2a) list(context.Context) ([]contract.ToolSpec, error) { return nil, nil }

func (a *a2a) call(context.Context, contract.ToolInput, Meta) (reply, error) {
	return reply{}, a.at.failure(contract.ClassConnection, "a remote agent is not a tool", "")
}

// a2aSession is what ties a turn to the ones before.
type a2aSession struct {
	By      string `json:"by"`
	At      string `json:"at"`
	Context string `json:"context,omitempty"`
	// Task is set where the agent waits for an answer about it.
	Task string `json:"task,omitempty"`
}

type a2aPart struct {
	Kind string          `json:"kind"`
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	File *struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	} `json:"file,omitempty"`
}

type a2aMessage struct {
	Kind    string    `json:"kind"`
	Role    string    `json:"role"`
	ID      string    `json:"messageId"`
	Parts   []a2aPart `json:"parts"`
	Context string    `json:"contextId,omitempty"`
	Task    string    `json:"taskId,omitempty"`
}

// a2aResult is a message or a task.
type a2aResult struct {
	a2aMessage
	TaskID string `json:"id"`
	Status struct {
		State   string      `json:"state"`
		Message *a2aMessage `json:"message"`
	} `json:"status"`
	Artifacts []struct {
		Parts []a2aPart `json:"parts"`
	} `json:"artifacts"`
}

// defaultPoll is the pause between two looks at a task.
const defaultPoll = 2 * time.Second

func (a *a2a) converse(ctx context.Context, turn Turn) (*Answer, error) {
	own, _ := sessionAt(turn.Session, a.at.conn.URL)
	var res a2aResult
	var err error
	if turn.Task != "" {
		err = a.rpc(delivery.Untracked(ctx), "tasks/get", map[string]any{"id": turn.Task}, &res)
	} else {
		m := a2aMessage{Kind: "message", Role: "user", ID: turn.Key, Parts: []a2aPart{{Kind: "text", Text: turn.Text}}, Context: own.Context, Task: own.Task}
		err = a.rpc(ctx, "message/send", map[string]any{
			"message": m, "configuration": map[string]any{"blocking": false, "acceptedOutputModes": []string{"text/plain", "application/json"}},
		}, &res)
	}
	if err == nil {
		delivery.MarkSent(ctx, false) // what follows changes nothing, and can be made again
	}
	ctx = delivery.Untracked(ctx)
	pause := cmp.Or(max(0, turn.Poll), defaultPoll)
	for err == nil && res.running() {
		if turn.Started != nil {
			turn.Started(res.TaskID)
		}
		select {
		case <-ctx.Done():
			return nil, a.stopWaiting(ctx, res.TaskID)
		case <-time.After(pause):
		}
		id := res.TaskID
		res = a2aResult{}
		err = a.rpc(ctx, "tasks/get", map[string]any{"id": id}, &res)
	}
	if err != nil {
		if ctx.Err() != nil && res.TaskID != "" {
			return nil, a.stopWaiting(ctx, res.TaskID)
		}
		return nil, err
	}
	return a.answer(&res)
}

// stopWaiting ends a wait. It cancels the task if the run is cancelled; otherwise the next attempt waits on.
func (a *a2a) stopWaiting(ctx context.Context, task string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		var res a2aResult
		// Best effort: the run is over.
		_ = a.rpc(short, "tasks/cancel", map[string]any{"id": task}, &res)
	}
	return ctx.Err()
}

// running reports whether there is a task that has neither ended nor asked for input.
func (r *a2aResult) running() bool {
	return r.TaskID != "" && (r.Status.State == "submitted" || r.Status.State == "working")
}

// answer reads an answer.
func (a *a2a) answer(r *a2aResult) (*Answer, error) {
	out := &Answer{}
	own := a2aSession{By: plan.ConnectionA2A, At: a.at.conn.URL, Context: r.Context}
	text := textOf(r.Parts)
	if r.Status.Message != nil {
		text = textOf(r.Status.Message.Parts)
	}
	switch r.Status.State {
	case "", "completed":
		if r.Status.State == "" && r.TaskID != "" {
			return nil, a.at.failure(contract.ClassBadRequest, "its answer is a task without a state", "")
		}
		var made []string
		for _, f := range r.Artifacts {
			made = append(made, textOf(f.Parts))
		}
		if len(made) > 0 {
			text = strings.Join(made, "\n")
		}
	case "input-required":
		out.Asks, own.Task = true, r.TaskID
	case "auth-required":
		return nil, a.at.failure(contract.ClassDenied, "it requires credentials: "+text, "set them in the headers of the agent's connection")
	case "rejected":
		return nil, a.at.failure(contract.ClassRefused, "it refuses: "+text, "")
	case "failed", "canceled":
		return nil, a.at.failure(contract.ClassToolErrors, fmt.Sprintf("its task %s: %s", r.Status.State, text), "check the conversation and the agent")
	default:
		return nil, a.at.failure(contract.ClassBadRequest, fmt.Sprintf("unknown task state %.50q", r.Status.State), "")
	}
	out.Text = text
	raw, err := json.Marshal(own)
	out.Session = raw
	return out, err
}

// textOf is what parts say: texts as they are, data as JSON, files by their name.
func textOf(parts []a2aPart) string {
	var out []string
	for _, p := range parts {
		switch {
		case p.Kind == "data":
			out = append(out, string(p.Data))
		case p.File != nil:
			out = append(out, fmt.Sprintf("[file %s %s]", p.File.Name, redactURL(p.File.URI)))
		default:
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

// a2aTransient are the errors of JSON-RPC after which the same request may work.
var a2aTransient = map[int]bool{-32603: true, -32000: true}

// rpc makes one request.
func (a *a2a) rpc(ctx context.Context, method string, params any, out *a2aResult) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at.conn.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := a.do(req)
	if err != nil {
		return err
	}
	if resp.status >= 300 {
		return resp.failed()
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(resp.body, &answer); err != nil || answer.Result == nil && answer.Error == nil {
		return a.at.failure(contract.ClassConnection, "its answer to "+method+" is not of the Agent2Agent protocol", "check agent_url: it is where the agent takes JSON-RPC, not its card")
	}
	if answer.Error != nil {
		class := contract.ClassBadRequest
		if a2aTransient[answer.Error.Code] {
			class = contract.ClassUnavailable
		}
		return a.at.failure(class, fmt.Sprintf("error %d to %s: %s", answer.Error.Code, method, answer.Error.Message), "")
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		return a.at.failure(contract.ClassBadRequest, "its answer to "+method+" is invalid: "+textutil.ErrorText(err), "")
	}
	return nil
}

// Spoke reports whether what an agent's message carries is the session of an agent at an address.
func Spoke(raw json.RawMessage, address string) bool {
	_, ok := sessionAt(raw, address)
	return ok
}

func sessionAt(raw json.RawMessage, address string) (a2aSession, bool) {
	var s a2aSession
	if json.Unmarshal(raw, &s) != nil || s.By != plan.ConnectionA2A || s.At != address {
		return a2aSession{}, false
	}
	return s, true
}
