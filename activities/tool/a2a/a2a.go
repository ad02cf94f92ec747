// Package a2a has conversations with remote agents by the Agent2Agent protocol, 0.2 and 0.3. A message is sent once: its task
// is looked up where it may have been taken.
package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/tool/delivery"
	"weft/workflows/plan"
)

// Server takes an agent's requests.
type Server interface {
	// Request makes one request of JSON-RPC; out receives the result.
	Request(ctx context.Context, method string, params, out any) error
	// Failure is one of the agent's connection, Classify the failure of a request.
	Failure(class, text, remedy string) *contract.Failure
	Classify(err error) error
}

// Agent is an agent behind one address.
type Agent struct {
	server Server
	url    string
}

// New is the agent at a URL.
func New(server Server, url string) *Agent { return &Agent{server, url} }

// cancelTimeout bounds how long an agent has to take note of a cancelled task.
const cancelTimeout = 10 * time.Second

// Turn is a message to a remote agent.
type Turn struct {
	Text string
	// Session is that of the agent's previous answer, or empty.
	Session json.RawMessage
	// Task is one that an earlier attempt has started: it is waited for, and nothing is sent.
	Task string
	// Key is the same for all attempts, and becomes the message's id.
	Key string
	// Lost: an earlier attempt may have sent the message. Its task is looked up, and nothing is sent: where the agent knows
	// of none, [ErrNoTask]. Again: an operator has it made again, so that the message is sent where the agent knows of none.
	Lost, Again bool
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

// ErrNoTask means that the agent knows of no task that a message has begun.
var ErrNoTask = errors.New("the agent knows of no task of the message")

// session is what ties a turn to the ones before.
type session struct {
	By      string `json:"by"`
	At      string `json:"at"`
	Context string `json:"context,omitempty"`
	// Task is set where the agent waits for an answer about it.
	Task string `json:"task,omitempty"`
}

type part struct {
	Kind string          `json:"kind"`
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	File *file           `json:"file,omitempty"`
}

type file struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
}

// shown is the file's address without what can be secret in it.
func (f *file) shown() string {
	u, err := url.Parse(f.URI)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

type message struct {
	Kind    string `json:"kind"`
	Role    string `json:"role"`
	ID      string `json:"messageId"`
	Parts   []part `json:"parts"`
	Context string `json:"contextId,omitempty"`
	Task    string `json:"taskId,omitempty"`
}

type result struct {
	message
	TaskID string `json:"id"`
	Status struct {
		State   string   `json:"state"`
		Message *message `json:"message"`
	} `json:"status"`
	Artifacts []struct {
		Parts []part `json:"parts"`
	} `json:"artifacts"`
}

// defaultPoll is the pause between two looks at a task.
const defaultPoll = 2 * time.Second

// Converse sends a message, and waits for the answer.
func (a *Agent) Converse(ctx context.Context, turn Turn) (*Answer, error) {
	var res result
	err := a.begin(ctx, turn, &res)
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
		res = result{}
		err = a.server.Request(ctx, "tasks/get", map[string]any{"id": id}, &res)
	}
	if err != nil {
		if ctx.Err() != nil && res.TaskID != "" {
			return nil, a.stopWaiting(ctx, res.TaskID)
		}
		return nil, err
	}
	return a.answer(&res)
}

// begin sends a message, or gets the task that it has begun before.
func (a *Agent) begin(ctx context.Context, turn Turn, res *result) error {
	own, _ := sessionAt(turn.Session, a.url)
	if turn.Task == "" && (turn.Lost || turn.Again) {
		if turn.Task = a.find(ctx, turn, own.Context); turn.Task == "" && turn.Lost {
			return ErrNoTask
		}
	}
	if turn.Task != "" {
		return a.server.Request(delivery.Untracked(ctx), "tasks/get", map[string]any{"id": turn.Task}, res)
	}
	m := message{Kind: "message", Role: "user", ID: turn.Key, Parts: []part{{Kind: "text", Text: turn.Text}}, Context: own.Context, Task: own.Task}
	err := a.server.Request(ctx, "message/send", map[string]any{
		"message": m, "configuration": map[string]any{"blocking": false, "acceptedOutputModes": []string{"text/plain", "application/json"}},
	}, res)
	if err == nil || !delivery.MaySent(ctx, a.server.Classify(err)) {
		return err
	}
	if task := a.find(ctx, turn, own.Context); task != "" {
		return a.server.Request(delivery.Untracked(ctx), "tasks/get", map[string]any{"id": task}, res)
	}
	return err
}

const (
	// maxFinds bounds the tries to list an agent's tasks, for an agent that starts again; maxTaskPages the pages of one.
	maxFinds     = 8
	maxTaskPages = 10
)

// find looks for the task that a message has begun, by the message's id among the agent's tasks; empty: none is known.
func (a *Agent) find(ctx context.Context, turn Turn, inContext string) string {
	key := contract.CallID(turn.Key)
	for range maxFinds {
		task, err := a.findOnce(delivery.Untracked(ctx), key, inContext)
		var f *contract.Failure
		if err == nil || ctx.Err() != nil || !errors.As(a.server.Classify(err), &f) || !contract.Retryable(f.Class) {
			return task
		}
		select {
		case <-ctx.Done():
		case <-time.After(cmp.Or(max(0, turn.Poll), defaultPoll)):
		}
	}
	return ""
}

func (a *Agent) findOnce(ctx context.Context, key, inContext string) (task string, err error) {
	params := map[string]any{"pageSize": 100, "historyLength": 100}
	if inContext != "" {
		params["contextId"] = inContext
	}
	for range maxTaskPages {
		var page struct {
			Tasks []struct {
				ID      string    `json:"id"`
				History []message `json:"history"`
			} `json:"tasks"`
			Next string `json:"nextPageToken"`
		}
		if err := a.server.Request(ctx, "tasks/list", params, &page); err != nil {
			return "", err
		}
		for _, t := range page.Tasks {
			for _, m := range t.History {
				if contract.CallID(m.ID) == key {
					return t.ID, nil
				}
			}
		}
		if page.Next == "" {
			return "", nil
		}
		params["pageToken"] = page.Next
	}
	return "", nil
}

// stopWaiting ends a wait. It cancels the task if the run is cancelled; otherwise the next attempt waits on.
func (a *Agent) stopWaiting(ctx context.Context, task string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		var res result
		// Best effort: the run is over.
		_ = a.server.Request(short, "tasks/cancel", map[string]any{"id": task}, &res)
	}
	return ctx.Err()
}

// running reports whether there is a task that has neither ended nor asked for input.
func (r *result) running() bool {
	return r.TaskID != "" && (r.Status.State == "submitted" || r.Status.State == "working")
}

func (a *Agent) answer(r *result) (*Answer, error) {
	out := &Answer{}
	own := session{By: plan.ConnectionA2A, At: a.url, Context: r.Context}
	text := textOf(r.Parts)
	if r.Status.Message != nil {
		text = textOf(r.Status.Message.Parts)
	}
	switch r.Status.State {
	case "", "completed":
		if r.Status.State == "" && r.TaskID != "" {
			return nil, a.server.Failure(contract.ClassBadRequest, "its answer is a task without a state", "")
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
		return nil, a.server.Failure(contract.ClassDenied, "it requires credentials: "+text, "set them in the headers of the agent's connection")
	case "rejected":
		return nil, a.server.Failure(contract.ClassRefused, "it refuses: "+text, "")
	case "failed", "canceled":
		return nil, a.server.Failure(contract.ClassToolErrors, fmt.Sprintf("its task %s: %s", r.Status.State, text), "check the conversation and the agent")
	default:
		return nil, a.server.Failure(contract.ClassBadRequest, fmt.Sprintf("unknown task state %.50q", r.Status.State), "")
	}
	out.Text = text
	out.Session, _ = json.Marshal(own) // texts alone
	return out, nil
}

// textOf is what parts say: texts as they are, data as JSON, files by their name.
func textOf(parts []part) string {
	var out []string
	for _, p := range parts {
		switch {
		case p.Kind == "data":
			out = append(out, string(p.Data))
		case p.File != nil:
			out = append(out, fmt.Sprintf("[file %s %s]", p.File.Name, p.File.shown()))
		default:
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

// Spoke reports whether what an agent's message carries is the session of an agent at an address.
func Spoke(raw json.RawMessage, address string) bool {
	_, ok := sessionAt(raw, address)
	return ok
}

func sessionAt(raw json.RawMessage, address string) (session, bool) {
	var s session
	if json.Unmarshal(raw, &s) != nil || s.By != plan.ConnectionA2A || s.At != address {
		return session{}, false
	}
	return s, true
}
