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

// picture is a real image of a kind.
func picture(t *testing.T, encode func(io.Writer, image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// imageServer is a server of OpenAI's protocol that notes what it is shown and calls the tool search once.
type imageServer struct {
	*httptest.Server
	mu   sync.Mutex
	asks []imageRequest
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
		var ask imageRequest
		_ = json.Unmarshal(raw, &ask)
		if ask.Messages == nil {
			http.NotFound(w, r) // it says nothing of its models
			return
		}
		s.mu.Lock()
		s.asks = append(s.asks, ask)
		s.mu.Unlock()
		if len(ask.Messages) > 0 && !strings.Contains(string(raw), `"role":"tool"`) && strings.Contains(string(raw), `"search"`) {
			fmt.Fprint(w, `{"model":"m","choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"search","arguments":"{}"}}]}}]}`)
			return
		}
		fmt.Fprint(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"A cat."}}]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// last is the text and the images of the last message that a user wrote in the n-th request.
func (s *imageServer) last(t *testing.T, n int) (text string, images []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.asks) {
		t.Fatalf("%d requests, want %d", len(s.asks), n+1)
	}
	messages := s.asks[n].Messages
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
	t.Fatalf("no user speaks: %s", messages)
	return "", nil
}

func dataURL(kind string, file []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(file)
}

// What a run is given as an image, and what a tool returns as one, is seen by the model; a
// provider whose models know text alone is told of it.
func TestModelsSeeImages(t *testing.T) {
	t.Parallel()
	given, found := picture(t, func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) }), picture(t, png.Encode)
	for _, blind := range []bool{false, true} {
		t.Run(fmt.Sprintf("blind %v", blind), func(t *testing.T) {
			server := newImageServer(t)
			models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{
				"eyes": {Kind: "compatible", BaseURL: server.URL, Unary: true, NoImages: blind},
			}})
			if err != nil {
				t.Fatal(err)
			}
			p := harness.TestRun{
				Document: harness.OneNode(harness.SearchTool), Input: "What is this?", Models: models, Pictures: map[string][]byte{"search": found},
				Tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "here:", false }},
				SetInput: func(in *contract.RunInput) {
					shown, err := contract.NewMedia(given, "")
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
				t.Errorf("replies %q", replies)
			}
			first, firstImages := server.last(t, 0)
			second, secondImages := server.last(t, 1)
			if !strings.Contains(first, fmt.Sprintf("What is this?\n[image 1, image/gif, %d bytes]", len(given))) {
				t.Errorf("the model reads %q", first)
			}
			if blind {
				if len(firstImages)+len(secondImages) > 0 || !strings.Contains(first, "does not support images") {
					t.Errorf("it is sent %v and %v, and reads %q", firstImages, secondImages, first)
				}
				return
			}
			if len(firstImages) != 1 || firstImages[0] != dataURL("image/gif", given) {
				t.Errorf("it sees %v", firstImages)
			}
			if len(secondImages) != 1 || secondImages[0] != dataURL("image/png", found) || !strings.Contains(second, "result of search") {
				t.Errorf("of the result it sees %v and reads %q", secondImages, second)
			}
		})
	}
}

// What a session's prompt shows is seen in its turn and, as a part of the conversation, in those
// behind it. It is a part of what makes a prompt another.
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
	var second, again, other, wrong, third *reply
	stores := []*contract.Message{
		contract.InputMessage("one", []contract.Media{{MediaType: "image/gif", Data: base64.StdEncoding.EncodeToString(first)}}),
		contract.InputMessage("two", []contract.Media{{MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(shown)}}),
	}
	r := harness.TestRun{Models: models, Stores: stores, SetInput: func(in *contract.RunInput) {
		given, err := contract.NewMedia(first, "")
		if err != nil {
			t.Fatal(err)
		}
		in.Flow, in.Params, in.Session = contract.FlowRef{Plan: harness.AgentFlow("talker")}, json.RawMessage(`{"prompt":"one"}`), true
		in.Model, in.Media = "eyes/m", []contract.Media{given}
	}}
	r.Started = func(env harness.Outcome) {
		for i, step := range []func(){
			func() { second = resume(t, env, "u1", prompt("a", "two", shown)) },
			func() {
				again, other = resume(t, env, "u2", prompt("a", "two", shown)), resume(t, env, "u3", prompt("a", "two"))
				wrong, third = resume(t, env, "u4", prompt("b", "x", first)), resume(t, env, "u5", prompt("c", "three"))
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
	if f := contract.FailureOf(wrong.err); f == nil || f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, `media_type is "image/png", but data is image/gif`) {
		t.Errorf("an image of another type: %v", wrong.err)
	}
	text, images := server.last(t, 1)
	if note := fmt.Sprintf("two\n[image 1, image/png, %d bytes]", len(shown)); !strings.Contains(text, note) || len(images) != 1 || images[0] != dataURL("image/png", shown) {
		t.Errorf("the second turn reads %q and sees %v", text, images)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	whole, err := json.Marshal(server.asks[2])
	if err != nil {
		t.Fatal(err)
	}
	for kind, file := range map[string][]byte{"image/gif": first, "image/png": shown} {
		if n := strings.Count(string(whole), dataURL(kind, file)); n != 1 {
			t.Errorf("the third turn sees the %s %d times", kind, n)
		}
	}
}

// A document that a run is given goes to models that take it; another fails at once and says which do. Of a document in a
// tool's result such a model is told.
func TestModelsReadDocuments(t *testing.T) {
	t.Parallel()
	pdf := []byte("%PDF-1.7\nx")
	for kind, given := range map[string]bool{"compatible": true, "groq": true, "ollama": false} {
		t.Run(fmt.Sprintf("%s %v", kind, given), func(t *testing.T) {
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
					if given {
						in.Media = []contract.Media{file}
					}
				},
			}.Execute(t)
			if kind == "groq" {
				if f := contract.FailureOf(p.Err); p.Err == nil || f.Class != contract.ClassBadRequest || !strings.Contains(f.Error(), "does not support documents") {
					t.Errorf("the run ends with %v", p.Err)
				}
				return
			}
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			first, second := string(harness.EncodeJSON(t, server.asks[0])), string(harness.EncodeJSON(t, server.asks[1]))
			if sent := strings.Count(first, "file_data"); given && (sent != 1 || !strings.Contains(first, "[document 1, q3.pdf, application/pdf, 10 bytes]")) {
				t.Errorf("it is sent %s", first)
			}
			if kind == "ollama" && (strings.Contains(second, "file_data") || !strings.Contains(second, "this model does not support documents")) {
				t.Errorf("of the result it is told %s", second)
			}
		})
	}
}
