package serverrequest

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
	// maxBytes limits the size of an elicitation, maxSampling that of a sampling request and of all requests of one result.
	maxBytes, maxSampling = 64 << 10, 1 << 20
	// maxRequests limits the number of requests of one result.
	maxRequests = 16
	// maxStops limits the number of stop sequences, maxStop the length of each in bytes.
	maxStops, maxStop = 8, 100
)

// Root is a root that is reported to servers.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
}

// ParseRoot parses a file URI, or NAME=URI.
func ParseRoot(text string) (Root, error) {
	out := Root{URI: text}
	if name, uri, ok := strings.Cut(text, "="); ok && !strings.HasPrefix(text, "file:") {
		out = Root{URI: uri, Name: name}
	}
	at, err := url.Parse(out.URI)
	if err != nil || at.Scheme != "file" || !strings.HasPrefix(at.Path, "/") {
		return Root{}, fmt.Errorf("%q is not a file URI; write it as file:///folder or NAME=file:///folder", text)
	}
	return out, nil
}

// Policy determines which requests the servers of a connection may send.
type Policy struct {
	// Redact masks secrets in text.
	Redact func(string) string
	// SamplingTokens is the maximum number of tokens of an answer of the run's model; 0 means that sampling is not allowed.
	SamplingTokens int
	// Roots is the answer to requests for roots; if empty, they are not allowed.
	Roots []Root
}

// Refusal is the error response to a request that is not allowed or invalid.
type Refusal struct {
	Code int
	Text string
}

func refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// Capabilities returns the client capabilities that are announced to servers.
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

// Parse parses a request of a server. If not refused, it is a question for a user or for the run's model, or already has its answer.
func (p *Policy) Parse(method string, params json.RawMessage) (contract.ToolQuestion, *Refusal) {
	switch {
	case method == string(mcp.MethodElicitationCreate):
		return p.elicitation(params)
	case method == string(mcp.MethodSamplingCreateMessage) && p.SamplingTokens > 0:
		s, refusal := p.sampling(params)
		return contract.ToolQuestion{Sampling: s}, refusal
	case method == string(mcp.MethodSamplingCreateMessage):
		return contract.ToolQuestion{}, refuse(mcp.METHOD_NOT_FOUND, "sampling is not allowed: sampling_tokens of the server's connection is not set")
	case method == string(mcp.MethodListRoots) && len(p.Roots) > 0:
		answer, _ := json.Marshal(map[string][]Root{"roots": p.Roots}) // cannot fail: only strings
		return contract.ToolQuestion{Answer: answer}, nil
	case method == string(mcp.MethodListRoots):
		return contract.ToolQuestion{}, refuse(mcp.METHOD_NOT_FOUND, "the client has no roots: roots of the server's connection is not set")
	}
	return contract.ToolQuestion{}, refuse(mcp.METHOD_NOT_FOUND, "this client has no method %.100q", method)
}

// ParseAll parses the requests of a result that requires input, by their keys.
func (p *Policy) ParseAll(requests map[string]Request) ([]contract.ToolQuestion, *Refusal) {
	var out []contract.ToolQuestion
	bytes := 0
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		r := requests[key]
		q, refusal := p.Parse(r.Method, r.Params)
		if bytes += len(r.Params); refusal == nil && (len(out) == maxRequests || bytes > maxSampling) {
			refusal = refuse(mcp.INVALID_PARAMS, "too many requests: at most %d, with %d bytes in total, are allowed", maxRequests, maxSampling)
		}
		if refusal != nil {
			return nil, refusal
		}
		q.Key = key
		out = append(out, q)
	}
	return out, nil
}

// ParseURLs parses the data of an error with which a server rejects a call until the user has opened URLs.
func (p *Policy) ParseURLs(data any) ([]contract.ToolQuestion, *Refusal) {
	var d struct {
		Elicitations []json.RawMessage `json:"elicitations"`
	}
	raw, err := json.Marshal(data)
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil || len(d.Elicitations) == 0 {
		return nil, refuse(mcp.INVALID_PARAMS, "the error lists no URLs")
	}
	requests := map[string]Request{}
	for i, params := range d.Elicitations {
		requests[fmt.Sprintf("%04d", i)] = Request{Method: string(mcp.MethodElicitationCreate), Params: params}
	}
	out, refusal := p.ParseAll(requests)
	if refusal == nil && slices.ContainsFunc(out, func(q contract.ToolQuestion) bool { return q.URL == "" }) {
		refusal = refuse(mcp.INVALID_PARAMS, "the error lists an elicitation without a URL")
	}
	return out, refusal
}

// elicitation parses the parameters of elicitation/create.
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
	q = contract.ToolQuestion{Text: p.Redact(in.Message), Schema: in.RequestedSchema}
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

// samplingMessage is a message of a sampling request.
type samplingMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// sampling parses the parameters of sampling/createMessage. It ignores modelPreferences and includeContext, as the protocol
// allows: the run's model answers, without context of the run.
func (p *Policy) sampling(raw json.RawMessage) (*contract.Sampling, *Refusal) {
	var in struct {
		Messages      []samplingMessage `json:"messages"`
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
		return nil, refuse(mcp.INVALID_PARAMS, "stopSequences must be at most %d strings of 1 to %d bytes", maxStops, maxStop)
	case in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > 2):
		return nil, refuse(mcp.INVALID_PARAMS, "temperature must be a number from 0 to 2")
	}
	out := &contract.Sampling{System: p.Redact(in.SystemPrompt), MaxTokens: p.SamplingTokens, Temperature: in.Temperature, Stop: in.StopSequences}
	if in.MaxTokens >= 1 {
		out.MaxTokens = int(min(in.MaxTokens, float64(p.SamplingTokens)))
	}
	for i, m := range in.Messages {
		message, problem := p.message(&m)
		if problem != "" {
			return nil, refuse(mcp.INVALID_PARAMS, "message %d: %s", i+1, problem)
		}
		out.Messages = append(out.Messages, message)
	}
	return out, nil
}

// message converts a message of text, images and audio. If it is invalid, message returns the problem.
func (p *Policy) message(m *samplingMessage) (out contract.Message, problem string) {
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
			texts = append(texts, p.Redact(c.Text))
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
				return out, fmt.Sprintf("more than %d files", contract.MaxMedia)
			}
			out.Media = append(out.Media, media)
			texts = append(texts, media.Note(len(out.Media)))
		default:
			return out, fmt.Sprintf("content of type %.100q is not supported", c.Type)
		}
	}
	out.Text = strings.Join(texts, "\n")
	if len(parts) == 0 {
		problem = "content is missing"
	}
	return out, problem
}
