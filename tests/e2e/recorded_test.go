package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/llm/wire"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows"
)

// recordedAnswer is a recorded response of a provider.
type recordedAnswer struct {
	ID      string            `json:"id"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Base64  []byte            `json:"body_base64"`
}

// toolResult is a recorded tool call and its result.
type toolResult struct {
	Name      string `json:"name"`
	Arguments any    `json:"arguments"`
	Result    string `json:"result"`
}

// conversation is a recorded conversation, replayed by a fake provider and an MCP server.
type conversation struct {
	ID     string                     `json:"id"`
	Kind   string                     `json:"kind"`
	Proto  string                     `json:"proto"`
	Model  string                     `json:"model"`
	Stream bool                       `json:"stream"`
	Tools  map[string]json.RawMessage `json:"tools"`
	Turns  []struct {
		Answer  string       `json:"answer"`
		Results []toolResult `json:"results"`
	} `json:"turns"`
	Final string `json:"final"`
	Usage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Cached int `json:"cached_tokens"`
	} `json:"usage"`

	answers    map[string]recordedAnswer
	mu         sync.Mutex
	modelCalls int
	toolCalls  []toolResult
}

// TestEndToEndProviderConversations runs recorded conversations with tools in a worker. It checks that each makes the
// same calls and returns the same text and usage as recorded.
func TestEndToEndProviderConversations(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"../testdata/answers", "../../../shared/corpus/answers"} {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			t.Parallel()
			replayConversations(t, readConversations(t, dir))
		})
	}
}

// readConversations reads the conversations in a directory. It skips the test if there are none.
func readConversations(t *testing.T, dir string) []*conversation {
	t.Helper()
	answers := map[string]recordedAnswer{}
	files, _ := filepath.Glob(filepath.Join(dir, "answers-*.jsonl*"))
	if len(files) == 0 {
		t.Skipf("no recorded answers in %s", dir)
	}
	for _, file := range files {
		for _, a := range readLines[recordedAnswer](t, file) {
			answers[a.ID] = *a
		}
	}
	files, _ = filepath.Glob(filepath.Join(dir, "conversations.jsonl*"))
	if len(files) != 1 {
		t.Fatalf("%d conversation files in %s, want 1", len(files), dir)
	}
	out := readLines[conversation](t, files[0])
	for _, c := range out {
		c.answers = answers
	}
	return out
}

// readLines reads a file of JSON lines, which may be compressed.
func readLines[T any](t *testing.T, file string) (out []*T) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader = bytes.NewReader(raw)
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(r); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		v := new(T)
		if err := json.Unmarshal(lines.Bytes(), v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if lines.Err() != nil || len(out) == 0 {
		t.Fatalf("%d records in %s, %v", len(out), file, lines.Err())
	}
	return out
}

// replayConversations runs conversations in one worker, each with its own provider and connection.
func replayConversations(t *testing.T, all []*conversation) {
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	providers, connections := map[string]llm.ProviderSettings{}, map[string]tool.Connection{}
	for i, c := range all {
		name, api := fmt.Sprintf("c%d", i), ""
		kind := c.Kind
		if c.Proto == "responses" {
			api, kind = wire.APIResponses, "compatible"
		} else if c.Proto == "chat" {
			api = wire.APIChat
		}
		mux.HandleFunc("/model/"+name+"/", c.answer)
		mux.Handle("/tools/"+name, c.tools())
		providers[name] = llm.ProviderSettings{Kind: kind, API: api, BaseURL: web.URL + "/model/" + name, Key: "key", Unary: !c.Stream}
		connections[name] = tool.Connection{URL: web.URL + "/tools/" + name}
	}
	models, err := llm.Open(llm.Settings{Providers: providers})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.Open(tool.Settings{Connections: connections})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("recorded-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{}, activities.Deps{Models: models, Tools: tools})
	t.Cleanup(h.Worker.Stop)
	t.Run("all", func(t *testing.T) {
		for i, c := range all {
			t.Run(c.ID, func(t *testing.T) {
				t.Parallel()
				c.run(t, h, fmt.Sprintf("c%d", i))
			})
		}
	})
}

func (c *conversation) run(t *testing.T, h *harness.Worker, name string) {
	var bound []map[string]string
	for tool := range c.Tools {
		bound = append(bound, map[string]string{"name": tool, "data_connection_id": name})
	}
	raw := harness.EncodeJSON(t, bound)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(`,"tools":` + string(raw)), Name: "flow.json"},
		Model: name + "/" + cmp.Or(c.Model, "m"), Input: "go", OnError: contract.OnErrorFail})
	var out contract.RunResult
	if err := run.Get(context.Background(), &out); err != nil {
		t.Fatal(contract.FailureOf(err))
	}
	if text := harness.ResultText(&out); text != c.Final {
		t.Errorf("text = %q, recorded %q", text, c.Final)
	}
	if u := out.Usage; u.Input != c.Usage.Input || u.Output != c.Usage.Output || u.Cached != c.Usage.Cached {
		t.Errorf("usage = %+v, recorded %+v", u, c.Usage)
	}
	var want []toolResult
	for i := range c.Turns {
		want = append(want, c.Turns[i].Results...)
	}
	if c.modelCalls != len(c.Turns) {
		t.Errorf("%d model calls, recorded %d", c.modelCalls, len(c.Turns))
	}
	if diff := gocmp.Diff(sortedCalls(want), sortedCalls(c.toolCalls)); diff != "" {
		t.Errorf("tool calls (-recorded +got):\n%s", diff)
	}
}

// sortedCalls formats tool calls and sorts them, since the order of parallel calls is arbitrary.
func sortedCalls(calls []toolResult) (out []string) {
	for _, c := range calls {
		out = append(out, fmt.Sprintf("%s(%v)", c.Name, c.Arguments))
	}
	slices.Sort(out)
	return out
}

// answer returns the next recorded response.
func (c *conversation) answer(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	c.modelCalls++
	n := c.modelCalls
	c.mu.Unlock()
	if n > len(c.Turns) {
		http.Error(w, "the recorded conversation has ended", http.StatusBadRequest)
		return
	}
	a := c.answers[c.Turns[n-1].Answer]
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	var text string
	switch {
	case a.Base64 != nil:
		_, _ = w.Write(a.Base64)
	case json.Unmarshal(a.Body, &text) == nil:
		_, _ = io.WriteString(w, text)
	default:
		_, _ = w.Write(a.Body)
	}
}

// tools returns an MCP server with the recorded tools. A call that was not recorded is an error.
func (c *conversation) tools() http.Handler {
	s := server.NewMCPServer("recorded", "1", server.WithToolCapabilities(false))
	for name, schema := range c.Tools {
		s.AddTool(mcp.NewToolWithRawSchema(name, "", schema), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args := any(req.GetArguments())
			if len(req.GetArguments()) == 0 {
				args = map[string]any{}
			}
			for i := range c.Turns {
				for _, r := range c.Turns[i].Results {
					if r.Name == name && reflect.DeepEqual(r.Arguments, args) {
						c.mu.Lock()
						c.toolCalls = append(c.toolCalls, r)
						c.mu.Unlock()
						return mcp.NewToolResultText(r.Result), nil
					}
				}
			}
			return mcp.NewToolResultError("this call was not recorded"), nil
		})
	}
	return server.NewStreamableHTTPServer(s)
}
