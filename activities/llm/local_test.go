package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// localServer is a fake of a local model server, written from its documentation. The model is loaded by the first request,
// or after the server has rejected some requests.
type localServer struct {
	mu       sync.Mutex
	kind     string
	name     string
	loaded   bool
	refusals int
	asked    []string
	bodies   []string
	auth     []string
	answer   string
}

// loadingModel is the response of llama.cpp until a model is loaded.
const loadingModel = `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`

func (s *localServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.auth = append(s.auth, r.Header.Get("Authorization"))
	if r.URL.Path == "/v1/chat/completions" {
		s.complete(w, body)
		return
	}
	text, status := s.state(r, body)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// complete handles a completion request.
func (s *localServer) complete(w http.ResponseWriter, body []byte) {
	if s.kind == "llamacpp" && s.refusals > 0 {
		s.refusals--
		s.loaded = s.refusals == 0
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, loadingModel)
		return
	}
	s.loaded = true
	s.bodies = append(s.bodies, string(body))
	_, _ = io.WriteString(w, s.answer)
}

// state returns the body and status of a query for the model's state.
func (s *localServer) state(r *http.Request, body []byte) (string, int) {
	switch s.kind + " " + r.Method + " " + r.URL.Path {
	case "llamacpp GET /props":
		if !s.loaded {
			return loadingModel, http.StatusServiceUnavailable
		}
		return `{"default_generation_settings":{"id":0,"id_task":-1,"n_ctx":8192,"speculative":false,"is_processing":false},"total_slots":1,"model_path":"../models/m.gguf","chat_template":"..."}`, 200
	case "vllm GET /v1/models":
		return fmt.Sprintf(`{"object":"list","data":[{"id":"other","object":"model","max_model_len":1},{"id":%q,"object":"model","created":1,"owned_by":"vllm","root":"x","parent":null,"max_model_len":8192,"permission":[]}]}`, s.name), 200
	case "lmstudio GET /api/v0/models":
		state, loaded := "not-loaded", ""
		if s.loaded {
			state, loaded = "loaded", `,"loaded_context_length":8192`
		}
		return fmt.Sprintf(`{"object":"list","data":[{"id":%q,"object":"model","type":"llm","publisher":"p","arch":"qwen2","compatibility_type":"gguf","quantization":"Q4_K_M","state":%q,"max_context_length":32768%s}]}`, s.name, state, loaded), 200
	case "ollama GET /api/ps", "old ollama GET /api/ps":
		length := `,"context_length":8192`
		if s.kind != "ollama" {
			length = ""
		}
		if !s.loaded {
			return `{"models":[]}`, 200
		}
		return fmt.Sprintf(`{"models":[{"name":"%[1]s:latest","model":"%[1]s:latest","size":5137025024,"digest":"2ae6","details":{"format":"gguf"},"expires_at":"2030-06-04T14:38:31.83753-07:00","size_vram":5137025024%[2]s}]}`, s.name, length), 200
	case "old ollama POST /api/show":
		if !strings.Contains(string(body), s.name) {
			return `{"error":"model not found"}`, 404
		}
		return `{"modelfile":"# ...","parameters":"num_keep                       24\nnum_ctx                        8192\nstop                           \"<|eot_id|>\"","model_info":{"general.architecture":"llama","llama.context_length":131072}}`, 200
	}
	return `{"error":"not found"}`, 404
}

// localModel starts a local server and opens its model.
func localModel(t *testing.T, s *localServer, change ...func(*ProviderSettings)) *provider {
	t.Helper()
	s.name = "vendor/m-1"
	s.answer = completion(`{"content":"fine"}`, "stop")
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return openModel(t, strings.TrimPrefix(s.kind, "old "), h.URL, append(change, unary)...)
}

// TestLocalContextLength checks that a local model's context length is read once for several calls.
func TestLocalContextLength(t *testing.T) {
	for kind, want := range map[string]int{"llamacpp": 8192, "vllm": 8192, "lmstudio": 8192, "ollama": 8192, "old ollama": 8192, "localai": 0} {
		t.Run(kind, func(t *testing.T) {
			s := &localServer{kind: kind, loaded: true}
			m := localModel(t, s)
			for range 3 {
				a, err := ask(t, m, &Call{})
				if err != nil || a.Context != want {
					t.Fatalf("context %d, want %d (%v)", a.Context, want, err)
				}
			}
			if n := len(s.asked); n > 3+2 {
				t.Errorf("three calls made the requests %v", s.asked)
			}
			for i, key := range s.auth {
				if key != "Bearer "+testKey {
					t.Errorf("%s had the key %q", s.asked[i], key)
				}
			}
		})
	}
}

// TestInvalidModelState checks that an invalid response to the query for a model's state does not fail a call.
func TestInvalidModelState(t *testing.T) {
	for name, state := range map[string]string{"not JSON": "<html>", "unexpected JSON": `{"data":[1],"models":"x","default_generation_settings":[]}`, "empty": "", "an answer": completion(`{"content":"fine"}`, "stop")} {
		for _, kind := range []string{"llamacpp", "vllm", "lmstudio", "ollama"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/chat/completions") {
						_, _ = io.WriteString(w, completion(`{"content":"fine"}`, "stop"))
						return
					}
					_, _ = io.WriteString(w, state)
				}))
				defer h.Close()
				var waits []string
				a, err := ask(t, openModel(t, kind, h.URL, unary), &Call{Loading: func(what string) { waits = append(waits, what) }})
				if err != nil || a.Message.Text != "fine" || a.Context != 0 || waits != nil {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
	}
}

// TestModelLoading checks that a call waits until its model is loaded, and reports that it waits.
func TestModelLoading(t *testing.T) {
	for kind, reports := range map[string]bool{"llamacpp": true, "lmstudio": true, "ollama": true, "vllm": false} {
		t.Run(kind, func(t *testing.T) {
			s := &localServer{kind: kind, refusals: 3}
			m := localModel(t, s)
			var got []string
			call := &Call{Loading: func(what string) { got = append(got, what) }}
			a, err := ask(t, m, call)
			if err != nil || a.Message.Text != "fine" || a.Usage.Calls != 1 || a.Usage.Cut != 0 {
				t.Fatalf("%+v, %v", a, err)
			}
			want := []string{"waiting for provider fake to load the model vendor/m-1", ""}
			if !reports {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("loading reports %q, want %q", got, want)
			}
			if a.Context != 8192 {
				t.Errorf("context of the loaded model %d", a.Context)
			}
			if len(s.bodies) != 1 {
				t.Errorf("%d requests were answered", len(s.bodies))
			}
		})
	}
}

// TestModelLoadingTimeout checks that a call waits for a model at most for the first-token timeout.
func TestModelLoadingTimeout(t *testing.T) {
	s := &localServer{kind: "llamacpp", refusals: 1 << 30}
	m := localModel(t, s)
	m.firstByte = 250 * time.Millisecond
	_, err := ask(t, m, &Call{})
	f := failureOf(t, err)
	if f.Class != contract.ClassUnavailable || f.Final || !strings.Contains(f.Text, "Loading model") {
		t.Errorf("%+v", f)
	}
	if n := len(s.asked); n < 3 || n > 10 {
		t.Errorf("%d requests, want 3 to 10", n)
	}
}

// TestBusyServer checks that other errors with status 503 are not retried within the attempt.
func TestBusyServer(t *testing.T) {
	s := serve(t, answer(503, `{"error":{"code":503,"message":"no slot available","type":"unavailable_error"}}`))
	_, err := ask(t, openModel(t, "llamacpp", s.URL), &Call{})
	if f := failureOf(t, err); f.Class != contract.ClassUnavailable || s.calls() != 1 {
		t.Errorf("%+v after %d calls", f, s.calls())
	}
}

// TestLocalSchemas checks that a schema is sent in the format that each server documents.
func TestLocalSchemas(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"integer"}}}`
	for kind, want := range map[string]string{
		"llamacpp": `{"json_schema":{"name":"answer","schema":` + schema + `,"strict":false},"schema":` + schema + `,"type":"json_schema"}`,
		"vllm":     `{"json_schema":{"name":"answer","schema":` + schema + `,"strict":false},"type":"json_schema"}`,
		"ollama":   `{"json_schema":{"name":"answer","schema":` + schema + `,"strict":false},"type":"json_schema"}`,
		"lmstudio": `{"json_schema":{"name":"answer","schema":` + schema + `,"strict":false},"type":"json_schema"}`,
		"localai":  `{"json_schema":{"name":"answer","schema":` + schema + `,"strict":false},"type":"json_schema"}`,
	} {
		t.Run(kind, func(t *testing.T) {
			s := &localServer{kind: kind, loaded: true}
			m := localModel(t, s)
			call := &Call{Request: wire.Request{Schema: json.RawMessage(schema), JSON: true, Options: Options(), Messages: []contract.Message{user("JSON")}}}
			if _, err := generate(t.Context(), m, call); err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Format json.RawMessage `json:"response_format"`
			}
			if err := json.Unmarshal([]byte(s.bodies[0]), &sent); err != nil || string(sent.Format) != want {
				t.Errorf("response_format is %s, want %s (%v)", sent.Format, want, err)
			}
		})
	}
}

// TestTextCalls checks that, with text_calls set, calls of offered tools are parsed from the text, streamed or not.
func TestTextCalls(t *testing.T) {
	const text = "Let me see.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"k\": \"a\"}}\n</tool_call>"
	on := func(p *ProviderSettings) { p.TextCalls = true }
	for name, tt := range map[string]struct {
		change []func(*ProviderSettings)
		text   string
		finish string
		noTool bool
		calls  int
	}{
		"off":                    {change: nil, text: text, finish: "stop"},
		"on":                     {change: []func(*ProviderSettings){on}, text: text, finish: "stop", calls: 1},
		"on, no tools":           {change: []func(*ProviderSettings){on}, text: text, finish: "stop", noTool: true},
		"on, stop reason length": {change: []func(*ProviderSettings){on}, text: text, finish: "length"},
		"on, half a call":        {change: []func(*ProviderSettings){on}, text: text[:60], finish: "stop"},
		"on, no call":            {change: []func(*ProviderSettings){on}, text: "It is <b>fine</b>.", finish: "stop"},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				message, _ := json.Marshal(map[string]string{"content": tt.text})
				s := serve(t, answer(200, completion(string(message), tt.finish)))
				if stream {
					s = serve(t, sse(jsonText(tt.text[:9]), jsonText(tt.text[9:]), finish(tt.finish), done))
				}
				m := openModel(t, "llamacpp", s.URL, tt.change...)
				offered := tools()
				if tt.noTool {
					offered = nil
				}
				a, err := generate(t.Context(), m, newCall(&Call{}, hello(), offered))
				if err != nil {
					t.Fatal(err)
				}
				if len(a.Message.Calls) != tt.calls || tt.calls == 0 && (a.Message.Text != tt.text || a.Stop != tt.finish) {
					t.Fatalf("%+v", a)
				}
				if tt.calls > 0 {
					checkEqual(t, "calls", a.Message.Calls, []contract.ToolCall{{ID: "call_1", Name: "get", Arguments: `{"k": "a"}`}})
					checkEqual(t, "text and stop", []string{a.Message.Text, a.Stop}, []string{"Let me see.", "tool_calls"})
				}
			})
		}
	}
}

// jsonText returns a streamed piece of text, quoted as JSON.
func jsonText(s string) string {
	raw, _ := json.Marshal(s)
	return `{"choices":[{"index":0,"delta":{"content":` + string(raw) + `},"finish_reason":null}]}`
}

// TestTextCallsUnsupported checks that text_calls is rejected for other kinds of providers.
func TestTextCallsUnsupported(t *testing.T) {
	_, err := Open(Settings{Providers: map[string]ProviderSettings{"claude": {Kind: "anthropic", TextCalls: true}}})
	checkContains(t, failureOf(t, err).Text, "providers.claude.text_calls", "remove it")
}
