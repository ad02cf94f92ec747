package programs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// TaskServer is an MCP server whose only tool, search, responds to every call with a task.
type TaskServer struct {
	// Modern selects protocol version 2026-07-28 instead of 2025-11-25.
	Modern bool
	// Support is the tool's taskSupport in 2025-11-25.
	Support string
	// States are the successive states of the task, one per poll; the last one is repeated. In the state "lost" the task is
	// unknown, and "input_required" lasts until the input was received.
	States []string
	// PollMillis is the poll interval that the server requests.
	PollMillis int
	// InputRequest, if set, is the request for user input, instead of the default one for a size.
	InputRequest string

	mu       sync.Mutex
	polls    int
	requests []string
	answers  string
	asked    bool
}

// Requests returns the methods of the calls and task requests received.
func (s *TaskServer) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Answers returns the input that the task received, as JSON.
func (s *TaskServer) Answers() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers
}

// askID is the id of the request for user input in 2025-11-25.
const askID = "900"

const askSize = `{"method":"elicitation/create","params":{"mode":"form","message":"Which size?","requestedSchema":{"type":"object","properties":{"size":{"type":"string"}}}}}`

// recordAnswer handles the response to the request for user input in 2025-11-25.
func (s *TaskServer) recordAnswer(result json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = fmt.Sprintf(`{"size":%s}`, result)
	s.polls++
}

// askOnce sends the request for user input once, in the stream of tasks/result, and reports whether the task waits for input.
func (s *TaskServer) askOnce(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Modern || s.state() != "input_required" {
		return false
	}
	s.requests = append(s.requests, "tasks/result")
	w.Header().Set("Content-Type", "text/event-stream")
	if !s.asked {
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,%s\n\n", askID, s.question()[1:])
	}
	s.asked = true
	w.(http.Flusher).Flush()
	return true
}

func (s *TaskServer) question() string { return cmp.Or(s.InputRequest, askSize) }

// state returns the state of the task.
func (s *TaskServer) state() string { return s.States[min(s.polls, len(s.States)-1)] }

type taskRequest struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Method string          `json:"method"`
	Params struct {
		Name           string          `json:"name"`
		Task           json.RawMessage `json:"task"`
		TaskID         string          `json:"taskId"`
		InputResponses json.RawMessage `json:"inputResponses"`
		Meta           struct {
			Capabilities struct {
				Extensions map[string]any `json:"extensions"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
}

// ServeHTTP answers a request.
func (s *TaskServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m taskRequest
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &m)
	switch {
	case m.Method == "" && string(m.ID) == askID:
		s.recordAnswer(m.Result)
		fallthrough
	case len(m.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "tasks/result" && s.askOnce(w):
		<-r.Context().Done() // the client must send tasks/result again for the result
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.answer(&m, r.Header)
	w.Header().Set("Content-Type", "application/json")
	if out == "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such thing"}}`, m.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, out)
}

// answer returns the result of a request, or "" if the server rejects it.
func (s *TaskServer) answer(m *taskRequest, header http.Header) (out string) {
	switch {
	case m.Method == "initialize" && !s.Modern:
		out = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"x","version":"1"}}`
	case m.Method == "server/discover" && s.Modern:
		out = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"x","version":"1"}}`
	case m.Method == "tools/list":
		out = fmt.Sprintf(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"search","inputSchema":{"type":"object"},"execution":{"taskSupport":%q}}]}`, s.Support)
	case s.Modern && !m.valid(header):
	case m.Method == "tools/call" && (s.Modern || m.Params.Task != nil):
		s.requests = append(s.requests, m.Method)
		task := s.task("working")
		out = `{"resultType":"task",` + task[1:]
		if !s.Modern {
			out = `{"task":` + task + `}`
		}
	case m.Params.TaskID == "t1":
		s.requests = append(s.requests, m.Method)
		out = s.answerTask(m.Method, m.Params.InputResponses)
	}
	return out
}

// valid reports whether a request has the required capability and headers.
func (m *taskRequest) valid(header http.Header) bool {
	hasHeaders := header.Get("Mcp-Name") == "t1" && header.Get("Mcp-Method") == m.Method
	return m.Params.Meta.Capabilities.Extensions["io.modelcontextprotocol/tasks"] != nil && (hasHeaders || !strings.HasPrefix(m.Method, "tasks/"))
}

// answerTask returns the result of a task request, or "" if the server rejects it.
func (s *TaskServer) answerTask(method string, answers json.RawMessage) string {
	state := s.state()
	switch method {
	case "tasks/get":
		if state != "input_required" {
			s.polls++
		}
		if state == "lost" {
			return ""
		}
		return s.task(state)
	case "tasks/result":
		if !s.Modern {
			return result(state == "failed")
		}
	case "tasks/update":
		if s.Modern {
			s.answers = string(answers)
			s.polls++
			return `{"resultType":"complete"}`
		}
	case "tasks/cancel":
		return s.task("cancelled")
	}
	return ""
}

func (s *TaskServer) task(state string) string {
	extra := ""
	if s.Modern {
		extra = map[string]string{
			"completed":      `,"result":` + result(false),
			"failed":         `,"error":{"code":-32603,"message":"out of paper"}`,
			"input_required": `,"inputRequests":{"size":` + s.question() + `}`,
		}[state]
		if state != "working" || s.polls > 0 {
			extra += `,"resultType":"complete"`
		}
		return fmt.Sprintf(`{"taskId":"t1","status":%q,"ttlMs":null,"pollIntervalMs":%d,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"%s}`, state, s.PollMillis, extra)
	}
	return fmt.Sprintf(`{"taskId":"t1","status":%q,"ttl":600000,"pollInterval":%d,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}`, state, s.PollMillis)
}

func result(failed bool) string {
	if failed {
		return `{"content":[{"type":"text","text":"out of paper"}],"isError":true}`
	}
	return `{"content":[{"type":"text","text":"printed"}]}`
}
