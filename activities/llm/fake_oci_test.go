package llm

import (
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/activities/contract"
)

// fakeOCI implements the chat of OCI Generative AI and verifies signatures, by ociKey or, if
// identity is set, by the session key.
type fakeOCI struct{ identity *ociIdentity }

// ociKey is the private key used by all tests.
var ociKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// ociConfig writes a configuration file like that of the OCI CLI, and returns its name.
func ociConfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(ociKey())})
	write := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	keyFile, token := write("key.pem", key), write("token", []byte(testKey))
	common := "tenancy=ocid1.tenancy.oc1..t\nregion=us-chicago-1\nfingerprint=aa:bb\nkey_file=" + keyFile + "\n"
	return write("config", []byte("[DEFAULT]\nuser=ocid1.user.oc1..u\n"+common+"\n[TOKEN]\nsecurity_token_file="+token+"\n"+common))
}

// ociSignature matches the Authorization header of a signed request.
var ociSignature = regexp.MustCompile(`^Signature version="1",headers="([^"]*)",keyId="([^"]*)",algorithm="rsa-sha256",signature="([^"]*)"$`)

// verify verifies a request's signature and returns the key's id.
func verify(r *http.Request, body []byte, key *rsa.PublicKey) (string, error) {
	m := ociSignature.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		return "", fmt.Errorf("Authorization %q", r.Header.Get("Authorization"))
	}
	sum := sha256.Sum256(body)
	if r.Header.Get("X-Content-Sha256") != base64.StdEncoding.EncodeToString(sum[:]) {
		return "", fmt.Errorf("x-content-sha256 is of another body")
	}
	var lines []string
	for _, name := range strings.Fields(m[1]) {
		value := r.Header.Get(name)
		switch name {
		case "(request-target)":
			value = "post " + r.URL.RequestURI()
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		lines = append(lines, name+": "+value)
	}
	for _, name := range []string{"date", "(request-target)", "host", "content-length", "content-type", "x-content-sha256"} {
		if !strings.Contains(" "+m[1]+" ", " "+name+" ") {
			return "", fmt.Errorf("%s is not signed", name)
		}
	}
	if at, err := http.ParseTime(r.Header.Get("Date")); err != nil || time.Since(at).Abs() > time.Minute {
		return "", fmt.Errorf("date %q", r.Header.Get("Date"))
	}
	sig, err := base64.StdEncoding.DecodeString(m[3])
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return m[2], rsa.VerifyPKCS1v15(key, crypto.SHA256, hash[:], sig)
}

// key returns the public key of the signer.
func (f fakeOCI) key() *rsa.PublicKey {
	if f.identity != nil {
		return f.identity.session.Load()
	}
	return &ociKey().PublicKey
}

type oracleRequest struct {
	Compartment string `json:"compartmentId"`
	Serving     struct {
		Type     string `json:"servingType"`
		Model    string `json:"modelId"`
		Endpoint string `json:"endpointId"`
	} `json:"servingMode"`
	Request struct {
		Format   string `json:"apiFormat"`
		Messages []struct {
			Role    string `json:"role"`
			Content []struct {
				Type  string               `json:"type"`
				Text  string               `json:"text"`
				Image struct{ URL string } `json:"imageUrl"`
			} `json:"content"`
			Reasoning string `json:"reasoningContent"`
			ToolCalls []struct {
				Type, ID, Name, Arguments string
			} `json:"toolCalls"`
			ToolCallID string `json:"toolCallId"`
		} `json:"messages"`
		Tools []struct {
			Type, Name, Description string
			Parameters              any
		} `json:"tools"`
		Choice   *struct{ Type, Name string } `json:"toolChoice"`
		Parallel *bool                        `json:"isParallelToolCalls"`
		Format2  *struct {
			Type   string
			Schema struct {
				Name, Description string
				Schema            any
				Strict            bool `json:"isStrict"`
			} `json:"jsonSchema"`
		} `json:"responseFormat"`
		Temperature   *float64         `json:"temperature"`
		TopP          *float64         `json:"topP"`
		TopK          int              `json:"topK"`
		Frequency     float64          `json:"frequencyPenalty"`
		Presence      float64          `json:"presencePenalty"`
		Stop          []string         `json:"stop"`
		Seed          *int             `json:"seed"`
		MaxTokens     int              `json:"maxTokens"`
		MaxCompletion int              `json:"maxCompletionTokens"`
		Effort        string           `json:"reasoningEffort"`
		Verbosity     string           `json:"verbosity"`
		Stream        bool             `json:"isStream"`
		Options       *map[string]bool `json:"streamOptions"`
	} `json:"chatRequest"`
}

// signed verifies a request's signature and returns the key's id, or testKey for the keys of ociConfig.
func (f fakeOCI) signed(r *http.Request, body []byte) (string, error) {
	key, err := verify(r, body, f.key())
	switch {
	case err != nil:
		return "", fmt.Errorf("invalid signature: %w", err)
	case key == "ocid1.tenancy.oc1..t/ocid1.user.oc1..u/aa:bb", key == "ST$"+testKey:
		return testKey, nil
	}
	return key, nil
}

func (f fakeOCI) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	var q oracleRequest
	if err := decodeStrict(body, &q); err != nil {
		return nil, err
	}
	key, err := f.signed(r, body)
	switch {
	case err != nil:
		return nil, err
	case !strings.HasSuffix(r.URL.Path, "/20231130/actions/chat") || q.Compartment == "" || q.Request.Format != "GENERIC":
		return nil, fmt.Errorf("path %s, compartment %q, format %q", r.URL.Path, q.Compartment, q.Request.Format)
	case q.Serving.Type == "ON_DEMAND" && q.Serving.Model == "", q.Serving.Type == "DEDICATED" && q.Serving.Endpoint == "":
		return nil, fmt.Errorf("serving %+v", q.Serving)
	}
	g := &q.Request
	out := &parsedRequest{
		model: q.Serving.Model + q.Serving.Endpoint, key: key, stream: g.Stream, temperature: g.Temperature, topP: g.TopP,
		maxTokens: g.MaxTokens + g.MaxCompletion, stop: g.Stop, seed: g.Seed, effort: g.Effort,
	}
	for i, m := range g.Messages {
		if len(m.Content) == 0 {
			return nil, fmt.Errorf("message %d has no content", i+1)
		}
		turn := parsedTurn{role: map[string]string{"USER": "user", "ASSISTANT": "assistant"}[m.Role]}
		for _, c := range m.Content {
			switch c.Type {
			case "TEXT":
				turn.text += c.Text
			case "IMAGE":
				turn.images = append(turn.images, strings.Replace(strings.TrimPrefix(c.Image.URL, "data:"), ";base64,", " ", 1))
			default:
				return nil, fmt.Errorf("content of type %q", c.Type)
			}
		}
		switch m.Role {
		case "SYSTEM":
			out.system += turn.text
			continue
		case "TOOL":
			turn = parsedTurn{role: "user", results: []parsedResult{{id: m.ToolCallID, text: turn.text}}}
		}
		if m.Reasoning != "" {
			turn.thoughts = append(turn.thoughts, m.Reasoning)
		}
		for _, c := range m.ToolCalls {
			if !json.Valid([]byte(c.Arguments)) || c.Type != "FUNCTION" || c.ID == "" {
				return nil, fmt.Errorf("call %+v", c)
			}
			turn.calls = append(turn.calls, contract.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		out.turns = append(out.turns, turn)
	}
	return out, f.tools(out, &q)
}

func (fakeOCI) tools(out *parsedRequest, q *oracleRequest) error {
	g := &q.Request
	for _, t := range g.Tools {
		if t.Type != "FUNCTION" {
			return fmt.Errorf("tool of type %q", t.Type)
		}
		out.tools = append(out.tools, parsedTool{t.Name, t.Description, t.Parameters})
	}
	if g.Choice != nil {
		out.choice = map[string]string{"AUTO": "auto", "NONE": "none", "REQUIRED": "required", "FUNCTION": "tool " + g.Choice.Name}[g.Choice.Type]
	}
	if g.Format2 != nil {
		out.schema, out.json = g.Format2.Schema.Schema, true
		if len(out.tools) > 0 && out.choice != "none" {
			return fmt.Errorf("responseFormat with tools")
		}
	}
	return nil
}

func (fakeOCI) stop(s fakeAnswer) string { return fakeChat{}.stop(s) }

func (fakeOCI) usage(s fakeAnswer) object {
	return object{
		"promptTokens": s.usage.Input, "completionTokens": s.usage.Output, "totalTokens": s.usage.Input + s.usage.Output,
		"promptTokensDetails": object{"cachedTokens": s.usage.Cached}, "completionTokensDetails": object{"reasoningTokens": s.usage.Reasoning},
	}
}

func (f fakeOCI) unary(s fakeAnswer) string {
	m := object{"role": "ASSISTANT", "content": []object{{"type": "TEXT", "text": strings.Join(s.pieces, "")}}}
	if s.thought != "" {
		m["reasoningContent"] = s.thought
	}
	var calls []object
	for _, c := range s.calls {
		calls = append(calls, object{"type": "FUNCTION", "id": c.ID, "name": c.Name, "arguments": c.Arguments})
	}
	if calls != nil {
		m["toolCalls"] = calls
	}
	b, _ := json.Marshal(object{"modelId": "m-1", "modelVersion": "1.0", "chatResponse": object{
		"apiFormat": "GENERIC", "timeCreated": "2026-01-01T00:00:00Z", "choices": []object{{"index": 0, "message": m, "finishReason": f.stop(s)}}, "usage": f.usage(s),
	}})
	return string(b)
}

func (f fakeOCI) events(s fakeAnswer) []string {
	part := func(m object) string {
		m["role"] = "ASSISTANT"
		return event(object{"index": 0, "message": m, "pad": "aaaa"})
	}
	var out []string
	if s.thought != "" {
		out = append(out, part(object{"reasoningContent": s.thought}))
	}
	for _, p := range s.pieces {
		out = append(out, part(object{"content": []object{{"type": "TEXT", "text": p}}}))
	}
	for _, c := range s.calls {
		half := len(c.Arguments) / 2
		out = append(out, part(object{"toolCalls": []object{{"type": "FUNCTION", "id": c.ID, "name": c.Name, "arguments": ""}}}),
			part(object{"toolCalls": []object{{"type": "FUNCTION", "arguments": c.Arguments[:half]}}}), part(object{"toolCalls": []object{{"type": "FUNCTION", "arguments": c.Arguments[half:]}}}))
	}
	return append(out, event(object{"message": object{"role": "ASSISTANT", "content": []object{{"type": "TEXT", "text": ""}}}, "finishReason": f.stop(s)}), event(object{"usage": f.usage(s)}), "data: [DONE]\n\n")
}

func (fakeOCI) noQuota() {}

func (fakeOCI) errorBody(status int, kind, message string) string {
	if kind == faultContext {
		message = cmp.Or(message, "This model's maximum context length is 8192 tokens.")
	}
	code := map[int]string{401: "NotAuthenticated", 403: "NotAllowed", 404: "NotAuthorizedOrNotFound", 429: "TooManyRequests", 500: "InternalServerError"}[status]
	b, _ := json.Marshal(object{"code": cmp.Or(code, fmt.Sprint(status)), "message": message})
	return string(b)
}

func (f fakeOCI) errorEvent(kind, message string) string {
	status := 503
	if kind == faultContext {
		status = 400
	}
	return "data: " + f.errorBody(status, kind, message) + "\n\n"
}
