package questions

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
)

const (
	// maxBytes bounds what a server asks a person, maxSampling what it asks a model, and all that it asks at once.
	maxBytes, maxSampling = 64 << 10, 1 << 20
	// maxAsked is how many questions a server asks at once.
	maxAsked = 16
	// maxStops and maxStop bound sequences at which a model stops.
	maxStops, maxStop = 8, 100
)

// Root is a folder, or another place, that a server is told of.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
}

// ParseRoot reads a file URI, or NAME=URI.
func ParseRoot(text string) (Root, error) {
	out := Root{URI: text}
	if name, uri, ok := strings.Cut(text, "="); ok && !strings.HasPrefix(text, "file:") {
		out = Root{URI: uri, Name: name}
	}
	at, err := url.Parse(out.URI)
	if err != nil || at.Scheme != "file" || !strings.HasPrefix(at.Path, "/") {
		return Root{}, fmt.Errorf("%q is no file URI; write it as file:///folder or NAME=file:///folder", text)
	}
	return out, nil
}

// Policy is what servers of a connection may ask.
type Policy struct {
	// Text takes secrets out of texts.
	Text func(string) string
	// SamplingTokens is how many tokens an answer of the run's model may have that a server asks for; 0: it may ask for none.
	SamplingTokens int
	// Roots, if there are any, are what a server is told that asks for them.
	Roots []Root
}

// Refusal says why a question is not asked.
type Refusal struct {
	Code int
	Text string
}

func refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// Capabilities are what servers are told that they may ask.
func (p *Policy) Capabilities() mcp.ClientCapabilities {
	out := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}}
	if p.SamplingTokens > 0 {
		out.Sampling = &mcp.SamplingCapability{}
	}
	if len(p.Roots) > 0 {
		out.Roots = &struct {
			ListChanged bool `json:"listChanged,omitempty"`
		}{}
	}
	return out
}

// Read reads what a server asks. Without a refusal it is for a person, for the run's model, or has its answer.
func (p *Policy) Read(method string, params json.RawMessage) (contract.ToolQuestion, *Refusal) {
	switch {
	case method == string(mcp.MethodElicitationCreate):
		return p.elicitation(params)
	case method == string(mcp.MethodSamplingCreateMessage) && p.SamplingTokens > 0:
		s, wrong := p.sampling(params)
		return contract.ToolQuestion{Sampling: s}, wrong
	case method == string(mcp.MethodSamplingCreateMessage):
		return contract.ToolQuestion{}, refuse(mcp.METHOD_NOT_FOUND, "the server may not ask the run's model: sampling_tokens of its connection is not set")
	case method == string(mcp.MethodListRoots) && len(p.Roots) > 0:
		answer, _ := json.Marshal(map[string][]Root{"roots": p.Roots}) // texts
		return contract.ToolQuestion{Answer: answer}, nil
	case method == string(mcp.MethodListRoots):
		return contract.ToolQuestion{}, refuse(mcp.METHOD_NOT_FOUND, "the client has no roots: roots of the server's connection is not set")
	}
	return contract.ToolQuestion{}, refuse(mcp.METHOD_NOT_FOUND, "this client has no method %.100q", method)
}

// ReadAll reads what a server requires before it answers: requests by their keys.
func (p *Policy) ReadAll(requests map[string]Request) ([]contract.ToolQuestion, *Refusal) {
	var out []contract.ToolQuestion
	bytes := 0
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		r := requests[key]
		q, wrong := p.Read(r.Method, r.Params)
		if bytes += len(r.Params); wrong == nil && (len(out) == maxAsked || bytes > maxSampling) {
			wrong = refuse(mcp.INVALID_PARAMS, "it asks too much at once: at most %d requests of %d bytes together are allowed", maxAsked, maxSampling)
		}
		if wrong != nil {
			return nil, wrong
		}
		q.Key = key
		out = append(out, q)
	}
	return out, nil
}

// URLs reads the data of an error with which a server refuses a call until people have opened URLs.
func (p *Policy) URLs(data any) ([]contract.ToolQuestion, *Refusal) {
	var d struct {
		Elicitations []json.RawMessage `json:"elicitations"`
	}
	raw, err := json.Marshal(data)
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil || len(d.Elicitations) == 0 {
		return nil, refuse(mcp.INVALID_PARAMS, "it names no URLs")
	}
	requests := map[string]Request{}
	for i, params := range d.Elicitations {
		requests[fmt.Sprintf("%04d", i)] = Request{Method: string(mcp.MethodElicitationCreate), Params: params}
	}
	out, wrong := p.ReadAll(requests)
	if wrong == nil && slices.ContainsFunc(out, func(q contract.ToolQuestion) bool { return q.URL == "" }) {
		wrong = refuse(mcp.INVALID_PARAMS, "it asks for more than URLs to be opened")
	}
	return out, wrong
}

// elicitation reads the parameters of elicitation/create.
func (p *Policy) elicitation(raw json.RawMessage) (q contract.ToolQuestion, _ *Refusal) {
	var in struct {
		Mode, Message, URL string
		RequestedSchema    json.RawMessage
	}
	if len(raw) > maxBytes {
		return q, refuse(mcp.INVALID_PARAMS, "the request has %d bytes, at most %d are allowed", len(raw), maxBytes)
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return q, refuse(mcp.INVALID_PARAMS, "%v", err)
	}
	q = contract.ToolQuestion{Text: p.Text(in.Message), Schema: in.RequestedSchema}
	if in.Mode == mcp.ElicitationModeURL {
		at, err := url.Parse(in.URL)
		if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
			return q, refuse(mcp.INVALID_PARAMS, "url is not a http or https URL")
		}
		q.Schema, q.URL = nil, in.URL
	} else if len(bytes.TrimSpace(in.RequestedSchema)) == 0 {
		return q, refuse(mcp.INVALID_PARAMS, "requestedSchema is missing")
	}
	return q, nil
}

// sampled is a message that a server has a model answer.
type sampled struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// sampling reads the parameters of sampling/createMessage. What the client may decide is decided here: the model, whatever is
// preferred, no context of the run's, whatever is to be included.
func (p *Policy) sampling(raw json.RawMessage) (*contract.Sampling, *Refusal) {
	var in struct {
		Messages      []sampled         `json:"messages"`
		SystemPrompt  string            `json:"systemPrompt"`
		MaxTokens     float64           `json:"maxTokens"`
		Temperature   *float64          `json:"temperature"`
		StopSequences []string          `json:"stopSequences"`
		Tools         []json.RawMessage `json:"tools"`
	}
	if len(raw) > maxSampling {
		return nil, refuse(mcp.INVALID_PARAMS, "the request has %d bytes, at most %d are allowed", len(raw), maxSampling)
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, refuse(mcp.INVALID_PARAMS, "%v", err)
	}
	switch {
	case len(in.Tools) > 0:
		return nil, refuse(mcp.INVALID_PARAMS, "tools are not supported in sampling/createMessage")
	case len(in.Messages) == 0:
		return nil, refuse(mcp.INVALID_PARAMS, "messages are missing")
	case len(in.StopSequences) > maxStops || slices.ContainsFunc(in.StopSequences, func(s string) bool { return s == "" || len(s) > maxStop }):
		return nil, refuse(mcp.INVALID_PARAMS, "stopSequences are at most %d texts of 1 to %d bytes", maxStops, maxStop)
	case in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > 2):
		return nil, refuse(mcp.INVALID_PARAMS, "temperature is not a number from 0 to 2")
	}
	out := &contract.Sampling{System: p.Text(in.SystemPrompt), MaxTokens: p.SamplingTokens, Temperature: in.Temperature, Stop: in.StopSequences}
	if in.MaxTokens >= 1 {
		out.MaxTokens = int(min(in.MaxTokens, float64(p.SamplingTokens)))
	}
	for i, m := range in.Messages {
		message, wrong := p.message(&m)
		if wrong != "" {
			return nil, refuse(mcp.INVALID_PARAMS, "message %d: %s", i+1, wrong)
		}
		out.Messages = append(out.Messages, message)
	}
	return out, nil
}

// message reads a message of text, images and audio.
func (p *Policy) message(m *sampled) (out contract.Message, wrong string) {
	out.Role = m.Role
	if m.Role != contract.RoleUser && m.Role != contract.RoleAssistant {
		return out, fmt.Sprintf("role %.100q is neither user nor assistant", m.Role)
	}
	type part struct{ Type, Text, Data, MimeType string }
	var parts []part
	if bytes.HasPrefix(bytes.TrimSpace(m.Content), []byte("[")) {
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return out, err.Error()
		}
	} else {
		parts = make([]part, 1)
		if err := json.Unmarshal(m.Content, &parts[0]); err != nil {
			return out, err.Error()
		}
	}
	var texts []string
	for _, c := range parts {
		switch c.Type {
		case "text":
			texts = append(texts, p.Text(c.Text))
		case contract.KindImage, contract.KindAudio:
			file, err := base64.StdEncoding.DecodeString(c.Data)
			if err != nil {
				return out, "data is not base64"
			}
			media, err := contract.NewMedia(file, "")
			switch {
			case err != nil:
				return out, err.Error()
			case len(out.Media) == contract.MaxMedia:
				return out, fmt.Sprintf("it has more than %d files", contract.MaxMedia)
			}
			out.Media = append(out.Media, media)
			texts = append(texts, media.Note(len(out.Media)))
		default:
			return out, fmt.Sprintf("content of type %.100q is not supported", c.Type)
		}
	}
	out.Text = strings.Join(texts, "\n")
	if len(parts) == 0 {
		wrong = "content is missing"
	}
	return out, wrong
}
