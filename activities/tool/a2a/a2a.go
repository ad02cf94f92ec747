// Package a2a implements a client of the Agent2Agent protocol, 0.2 and 0.3, for conversations with remote agents. It sends a
// message only once: if the agent may have received it, the package looks up its task instead.
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

// Client sends requests to an agent.
type Client interface {
	// Request makes one JSON-RPC request and decodes its result into out.
	Request(ctx context.Context, method string, params, out any) error
	// Failure returns a failure of the agent's connection.
	Failure(class, text, remedy string) *contract.Failure
	// Classify converts an error of Request to a failure.
	Classify(err error) error
}

// Agent is a remote agent at one URL.
type Agent struct {
	client Client
	url    string
}

// New returns the agent at a URL.
func New(client Client, url string) *Agent { return &Agent{client, url} }

// cancelTimeout limits the request that cancels a task.
const cancelTimeout = 10 * time.Second

// Turn is a message to a remote agent.
type Turn struct {
	Text string
	// Session is the session of the agent's previous answer, or empty.
	Session json.RawMessage
	// Task, if set, is a task that an earlier attempt started. Converse waits for it and sends no message.
	Task string
	// Key is the message's id. It is the same for all attempts.
	Key string
	// Lost and Again mean that an earlier attempt may have sent the message, whose task is looked up. If the agent does not
	// list it, Converse returns [ErrNoTask]; or, if Again is set because an operator retries the call, sends the message.
	Lost, Again bool
	// Poll is the interval for polling a task; 0 means two seconds.
	Poll time.Duration
	// Started, if set, is called with the id of a running task, before each poll.
	Started func(task string)
}

// Answer is a remote agent's answer.
type Answer struct {
	Text string
	// Session is passed to the next turn.
	Session json.RawMessage
	// Asks means that the agent requires input before it continues.
	Asks bool
}

// ErrNoTask means that the agent does not list a task for a message.
var ErrNoTask = errors.New("the agent has no task for the message")

// session links a turn to the previous ones.
type session struct {
	By      string `json:"by"`
	At      string `json:"at"`
	Context string `json:"context,omitempty"`
	// Task is the task that requires input, if any.
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

// redactedURI returns the file's URI without user, query and fragment, which may contain secrets.
func (f *file) redactedURI() string {
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

// defaultPoll is the default interval for polling a task.
const defaultPoll = 2 * time.Second

// Converse sends a message and waits for the answer.
func (a *Agent) Converse(ctx context.Context, turn Turn) (*Answer, error) {
	var res result
	err := a.start(ctx, turn, &res)
	if err == nil {
		delivery.MarkSent(ctx, false) // the following requests have no effect and can be repeated
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
		err = a.client.Request(ctx, "tasks/get", map[string]any{"id": id}, &res)
	}
	if err != nil {
		if ctx.Err() != nil && res.TaskID != "" {
			return nil, a.stopWaiting(ctx, res.TaskID)
		}
		return nil, err
	}
	return a.answer(&res)
}

// start sends a message, or gets the task that an earlier attempt started.
func (a *Agent) start(ctx context.Context, turn Turn, res *result) error {
	previous, _ := sessionAt(turn.Session, a.url)
	if turn.Task == "" && (turn.Lost || turn.Again) {
		if turn.Task = a.findTask(ctx, turn, previous.Context); turn.Task == "" && turn.Lost {
			return ErrNoTask
		}
	}
	if turn.Task != "" {
		return a.client.Request(delivery.Untracked(ctx), "tasks/get", map[string]any{"id": turn.Task}, res)
	}
	m := message{Kind: "message", Role: "user", ID: turn.Key, Parts: []part{{Kind: "text", Text: turn.Text}}, Context: previous.Context, Task: previous.Task}
	err := a.client.Request(ctx, "message/send", map[string]any{
		"message": m, "configuration": map[string]any{"blocking": false, "acceptedOutputModes": []string{"text/plain", "application/json"}},
	}, res)
	if err == nil || !delivery.MayHaveBeenSent(ctx, a.client.Classify(err)) {
		return err
	}
	if task := a.findTask(ctx, turn, previous.Context); task != "" {
		return a.client.Request(delivery.Untracked(ctx), "tasks/get", map[string]any{"id": task}, res)
	}
	return err
}

const (
	// maxFinds limits the attempts to list an agent's tasks, in case it is restarting; maxTaskPages limits the pages of a list.
	maxFinds     = 8
	maxTaskPages = 10
)

// findTask returns the agent's task for a message, found by the message's id, or "" if the agent does not list one.
func (a *Agent) findTask(ctx context.Context, turn Turn, inContext string) string {
	key := contract.CallID(turn.Key)
	for range maxFinds {
		task, err := a.findTaskOnce(delivery.Untracked(ctx), key, inContext)
		var f *contract.Failure
		if err == nil || ctx.Err() != nil || !errors.As(a.client.Classify(err), &f) || !contract.Retryable(f.Class) {
			return task
		}
		select {
		case <-ctx.Done():
		case <-time.After(cmp.Or(max(0, turn.Poll), defaultPoll)):
		}
	}
	return ""
}

func (a *Agent) findTaskOnce(ctx context.Context, key, inContext string) (task string, err error) {
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
		if err := a.client.Request(ctx, "tasks/list", params, &page); err != nil {
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

// stopWaiting returns ctx's error. It cancels the task if the run is cancelled; otherwise the next attempt continues waiting.
func (a *Agent) stopWaiting(ctx context.Context, task string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		var res result
		// Best effort: the run ends regardless.
		_ = a.client.Request(short, "tasks/cancel", map[string]any{"id": task}, &res)
	}
	return ctx.Err()
}

// running reports whether the result is a task that is in progress.
func (r *result) running() bool {
	return r.TaskID != "" && (r.Status.State == "submitted" || r.Status.State == "working")
}

func (a *Agent) answer(r *result) (*Answer, error) {
	out := &Answer{}
	next := session{By: plan.ConnectionA2A, At: a.url, Context: r.Context}
	text := textOf(r.Parts)
	if r.Status.Message != nil {
		text = textOf(r.Status.Message.Parts)
	}
	switch r.Status.State {
	case "", "completed":
		if r.Status.State == "" && r.TaskID != "" {
			return nil, a.client.Failure(contract.ClassBadRequest, "it returned a task without a state", "")
		}
		var artifacts []string
		for _, f := range r.Artifacts {
			artifacts = append(artifacts, textOf(f.Parts))
		}
		if len(artifacts) > 0 {
			text = strings.Join(artifacts, "\n")
		}
	case "input-required":
		out.Asks, next.Task = true, r.TaskID
	case "auth-required":
		return nil, a.client.Failure(contract.ClassDenied, "it requires credentials: "+text, "set them in the headers of the agent's connection")
	case "rejected":
		return nil, a.client.Failure(contract.ClassRefused, "it rejected the task: "+text, "")
	case "failed", "canceled":
		return nil, a.client.Failure(contract.ClassToolErrors, fmt.Sprintf("its task %s: %s", r.Status.State, text), "check the conversation and the agent")
	default:
		return nil, a.client.Failure(contract.ClassBadRequest, fmt.Sprintf("unknown task state %.50q", r.Status.State), "")
	}
	out.Text = text
	out.Session, _ = json.Marshal(next) // cannot fail: only strings
	return out, nil
}

// textOf returns parts as text: text unchanged, data as JSON, files by name and address.
func textOf(parts []part) string {
	var out []string
	for _, p := range parts {
		switch {
		case p.Kind == "data":
			out = append(out, string(p.Data))
		case p.File != nil:
			out = append(out, fmt.Sprintf("[file %s %s]", p.File.Name, p.File.redactedURI()))
		default:
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

// IsSession reports whether raw is the session of a remote agent at an address.
func IsSession(raw json.RawMessage, address string) bool {
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
