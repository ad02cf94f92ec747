// Package tasks parses the messages of MCP servers about tasks: calls that a server continues by itself, for days if necessary.
//
// There are two generations. Up to 2025-11-25, the client requests a task, and fetches its result with tasks/result. From
// 2026-07-28 on, tasks are an extension: the server decides to create one, and tasks/get returns the result.
package tasks

import (
	"encoding/json"

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
