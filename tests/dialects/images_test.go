package dialects

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/gif"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/tests/harness"
)

// picture returns a small image in the format that encode writes.
func picture(t *testing.T, encode func(io.Writer, image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// imageServer is an OpenAI-compatible server that records its requests and calls the tool search once.
type imageServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []imageRequest
}

type imageRequest struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

func newImageServer(t *testing.T) *imageServer {
	t.Helper()
	s := &imageServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var req imageRequest
		_ = json.Unmarshal(raw, &req)
		if req.Messages == nil {
			http.NotFound(w, r) // no list of models
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, req)
		s.mu.Unlock()
		if len(req.Messages) > 0 && !strings.Contains(string(raw), `"role":"tool"`) && strings.Contains(string(raw), `"search"`) {
			fmt.Fprint(w, `{"model":"m","choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"search","arguments":"{}"}}]}}]}`)
			return
		}
		fmt.Fprint(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"A cat."}}]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// last returns the text and the images of the last user message in the n-th request.
func (s *imageServer) last(t *testing.T, n int) (text string, images []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.requests) {
		t.Fatalf("%d requests, want %d", len(s.requests), n+1)
	}
	messages := s.requests[n].Messages
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != "user" {
			continue
		}
		var parts []struct {
			Text  string
			Image struct{ URL string } `json:"image_url"`
		}
		if json.Unmarshal(messages[i].Content, &text) == nil {
			return text, nil
		}
		harness.DecodeJSON(t, messages[i].Content, &parts)
		for _, p := range parts {
			text += p.Text
			if p.Image.URL != "" {
				images = append(images, p.Image.URL)
			}
		}
		return text, images
	}
	t.Fatalf("no user message in %s", messages)
	return "", nil
}

func dataURL(kind string, file []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(file)
}

// TestModelsSeeImages checks that the model is sent the images of a run's input and of tool results,
// and that a model without image support is sent a note instead.
func TestModelsSeeImages(t *testing.T) {
	t.Parallel()
	input, found := picture(t, func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) }), picture(t, png.Encode)
	for _, noImages := range []bool{false, true} {
		t.Run(fmt.Sprintf("no images %v", noImages), func(t *testing.T) {
			server := newImageServer(t)
			models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{
				"eyes": {Kind: "compatible", BaseURL: server.URL, Unary: true, NoImages: noImages},
			}})
			if err != nil {
				t.Fatal(err)
			}
			p := harness.TestRun{
				Document: harness.OneNode(harness.SearchTool), Input: "What is this?", Models: models, Pictures: map[string][]byte{"search": found},
				Tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "here:", false }},
				SetInput: func(in *contract.RunInput) {
					shown, err := contract.NewMedia(input, "")
					if err != nil {
						t.Fatal(err)
					}
					in.Model, in.Media = "eyes/m", []contract.Media{shown}
				},
			}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			note := fmt.Sprintf("[image 1, image/png, %d bytes]", len(found))
			if replies := toolReplies(t, p, "a#1"); len(replies) != 1 || replies[0] != "here:\n"+note {
				t.Errorf("tool replies = %q", replies)
			}
			first, firstImages := server.last(t, 0)
			second, secondImages := server.last(t, 1)
			if !strings.Contains(first, fmt.Sprintf("What is this?\n[image 1, image/gif, %d bytes]", len(input))) {
				t.Errorf("the first request has the text %q", first)
			}
			if noImages {
				if len(firstImages)+len(secondImages) > 0 || !strings.Contains(first, "does not support images") {
					t.Errorf("the model is sent the images %v and %v, and the text %q", firstImages, secondImages, first)
				}
				return
			}
			if len(firstImages) != 1 || firstImages[0] != dataURL("image/gif", input) {
				t.Errorf("images of the first request = %v", firstImages)
			}
			if len(secondImages) != 1 || secondImages[0] != dataURL("image/png", found) || !strings.Contains(second, "result of search") {
				t.Errorf("for the tool result the model is sent the images %v and the text %q", secondImages, second)
			}
		})
	}
}

// TestSessionsSeeImages checks that the images of a prompt are sent in its turn and in later turns, and
// that a prompt with the same ID but other images is rejected as a different prompt.
func TestSessionsSeeImages(t *testing.T) {
	t.Parallel()
	first, shown := picture(t, func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) }), picture(t, png.Encode)
	server := newImageServer(t)
	models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{"eyes": {Kind: "compatible", BaseURL: server.URL, Unary: true}}})
	if err != nil {
		t.Fatal(err)
	}
	prompt := func(id, text string, files ...[]byte) string {
		in := contract.PromptInput{ID: id, Prompt: text}
		for _, f := range files {
			in.Media = append(in.Media, contract.Media{MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(f)})
		}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var second, again, other, invalid, third *updateResult
	stores := []*contract.Message{
		contract.InputMessage("one", []contract.Media{{MediaType: "image/gif", Data: base64.StdEncoding.EncodeToString(first)}}),
		contract.InputMessage("two", []contract.Media{{MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(shown)}}),
	}
	r := harness.TestRun{Models: models, Stores: stores, SetInput: func(in *contract.RunInput) {
		media, err := contract.NewMedia(first, "")
		if err != nil {
			t.Fatal(err)
		}
		in.Flow, in.Params, in.Session = contract.FlowRef{Plan: harness.AgentFlow("talker")}, json.RawMessage(`{"prompt":"one"}`), true
		in.Model, in.Media = "eyes/m", []contract.Media{media}
	}}
	r.BeforeStart = func(env harness.Outcome) {
		for i, step := range []func(){
			func() { second = resume(t, env, "u1", prompt("a", "two", shown)) },
			func() {
				again, other = resume(t, env, "u2", prompt("a", "two", shown)), resume(t, env, "u3", prompt("a", "two"))
				invalid, third = resume(t, env, "u4", prompt("b", "x", first)), resume(t, env, "u5", prompt("c", "three"))
			},
			func() { stop(t)(env) },
		} {
			harness.AtTime(env.Env, time.Duration(i+1)*time.Hour, step)
		}
	}
	p := r.Execute(t)
	if p.Err != nil || second.err != nil || third.err != nil {
		t.Fatal(p.Err, second.err, third.err)
	}
	for _, turn := range p.Result.Turns {
		if turn.Status != contract.TurnCompleted {
			t.Fatalf("turn %d: %v", turn.N, turn.Failure)
		}
	}
	if again.err != nil || again.out.N != 2 {
		t.Errorf("the same prompt again: %+v, %v", again.out, again.err)
	}
	if f := contract.FailureOf(other.err); f == nil || f.Class != contract.ClassAlreadyAnswered {
		t.Errorf("the prompt without its image: %v", other.err)
	}
	if f := contract.FailureOf(invalid.err); f == nil || f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, `media_type is "image/png", but data is image/gif`) {
		t.Errorf("an image of another type: %v", invalid.err)
	}
	text, images := server.last(t, 1)
	if note := fmt.Sprintf("two\n[image 1, image/png, %d bytes]", len(shown)); !strings.Contains(text, note) || len(images) != 1 || images[0] != dataURL("image/png", shown) {
		t.Errorf("the second turn is sent the text %q and the images %v", text, images)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	request, err := json.Marshal(server.requests[2])
	if err != nil {
		t.Fatal(err)
	}
	for kind, file := range map[string][]byte{"image/gif": first, "image/png": shown} {
		if n := strings.Count(string(request), dataURL(kind, file)); n != 1 {
			t.Errorf("the third turn is sent the %s %d times, want once", kind, n)
		}
	}
}

// TestModelsReadDocuments checks that a document in a run's input is sent to models that support documents and fails the run
// with the others, which are sent a note for a document in a tool result.
func TestModelsReadDocuments(t *testing.T) {
	t.Parallel()
	pdf := []byte("%PDF-1.7\nx")
	for kind, inInput := range map[string]bool{"compatible": true, "groq": true, "ollama": false} {
		t.Run(fmt.Sprintf("%s %v", kind, inInput), func(t *testing.T) {
			server := newImageServer(t)
			models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{"p": {Kind: kind, BaseURL: server.URL, Key: "k", Unary: true}}})
			if err != nil {
				t.Fatal(err)
			}
			p := harness.TestRun{
				Document: harness.OneNode(harness.SearchTool), Input: "Read.", Models: models, Pictures: map[string][]byte{"search": pdf},
				Tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "here:", false }},
				SetInput: func(in *contract.RunInput) {
					in.Model, in.OnError = "p/m", contract.OnErrorFail
					file, err := contract.NewMedia(pdf, "q3.pdf")
					if err != nil {
						t.Fatal(err)
					}
					if inInput {
						in.Media = []contract.Media{file}
					}
				},
			}.Execute(t)
			if kind == "groq" {
				if f := contract.FailureOf(p.Err); p.Err == nil || f.Class != contract.ClassBadRequest || !strings.Contains(f.Error(), "does not support documents") {
					t.Errorf("run failed with %v", p.Err)
				}
				return
			}
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			first, second := string(harness.EncodeJSON(t, server.requests[0])), string(harness.EncodeJSON(t, server.requests[1]))
			if sent := strings.Count(first, "file_data"); inInput && (sent != 1 || !strings.Contains(first, "[document 1, q3.pdf, application/pdf, 10 bytes]")) {
				t.Errorf("the first request is %s", first)
			}
			if kind == "ollama" && (strings.Contains(second, "file_data") || !strings.Contains(second, "this model does not support documents")) {
				t.Errorf("the request with the tool result is %s", second)
			}
		})
	}
}
