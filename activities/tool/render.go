package tool

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/activities/tool/tasks"

	"github.com/mark3labs/mcp-go/mcp"
)

// toolResult is a result of tools/call in the server's own bytes.
type toolResult struct {
	Content       []json.RawMessage       `json:"content"`
	Structured    json.RawMessage         `json:"structuredContent"`
	IsError       bool                    `json:"isError"`
	ResultType    string                  `json:"resultType"`
	InputRequests map[string]inputRequest `json:"inputRequests"`
	RequestState  string                  `json:"requestState"`
}

// inputRequest is what a server needs before it answers.
type inputRequest struct {
	Method string `json:"method"`
	Params struct {
		Mode, Message, URL string
		RequestedSchema    json.RawMessage
	} `json:"params"`
}

// inputRequired is what a server needs before it answers a call. A person can answer its questions, and nothing else.
func (s *session) inputRequired(name string, r *toolResult) (reply, error) {
	out := &contract.InputRequired{State: r.RequestState}
	for _, key := range slices.Sorted(maps.Keys(r.InputRequests)) {
		q := r.InputRequests[key]
		switch {
		case q.Method != string(mcp.MethodElicitationCreate):
			return reply{text: fmt.Sprintf("tool %q asks for %s, which is not supported", name, short(q.Method)), isError: true}, nil
		case q.Params.Mode == "url":
			q.Params.RequestedSchema = nil
		default:
			q.Params.URL = ""
		}
		out.Questions = append(out.Questions, contract.ToolQuestion{Key: key, Text: s.at.secrets.text(q.Params.Message), Schema: q.Params.RequestedSchema, URL: q.Params.URL})
	}
	if len(out.Questions) == 0 && out.State == "" {
		return reply{}, s.at.malformed("result of tool %q: it requires input, and has neither inputRequests nor a requestState", name)
	}
	return reply{text: fmt.Sprintf("tool %q asks its caller for more input", name), isError: true, input: out}, nil
}

// content is one part of a result. Fields beyond these are not for a model.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Size     *int64 `json:"size"`
	Resource *struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// reply renders a result as text: its parts, a line each, others than text by type and size, then structured
// content but for what a part says. With whole it is a [rawResult], with several outputs an object of them.
func (s *session) reply(name string, raw []byte, whole bool, outputs []string) (reply, error) {
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return reply{}, s.at.malformed("result of tool %q: %v", name, err)
	}
	if r.ResultType == string(mcp.ResultTypeInputRequired) {
		return s.inputRequired(name, &r)
	}
	if t := tasks.Created(raw); t != nil {
		return s.working(name, t), nil
	}
	if whole {
		text, err := encodeRaw(raw)
		if err != nil {
			return reply{}, s.at.malformed("result of tool %q: %v", name, err)
		}
		return reply{text: text, isError: r.IsError}, nil
	}
	parts, texts, files, err := s.contents(name, &r)
	if err != nil {
		return reply{}, err
	}
	if len(outputs) > 1 && !r.IsError {
		return reply{text: byPosition(&r, texts, outputs), media: files}, nil
	}
	if more := textutil.Beyond(r.Structured, texts); more != "" {
		if strings.Join(parts, "") == "" {
			parts = nil
		}
		parts = append(parts, more)
	}
	return reply{text: strings.Join(parts, "\n"), media: files, isError: r.IsError}, nil
}

// byPosition is a result as an object of named values: itself if it is one with any of the names, else its texts in their order.
func byPosition(r *toolResult, texts, names []string) string {
	whole := r.Structured
	if whole == nil && len(texts) == 1 {
		whole = json.RawMessage(texts[0])
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(whole, &object) // other values are no object
	out := map[string]string{}
	for i, name := range names {
		if object[name] != nil {
			return textutil.Compact(whole)
		}
		if i < len(texts) {
			out[name] = texts[i]
		}
	}
	text, _ := textutil.JSON(out) // texts always encode
	return string(text)
}

// contents renders a result's parts. texts are those that are texts.
func (s *session) contents(name string, r *toolResult) (parts, texts []string, files []contract.Media, err error) {
	for i, part := range r.Content {
		var c content
		if err := json.Unmarshal(part, &c); err != nil {
			return nil, nil, nil, s.at.malformed("result of tool %q, content %d: %v", name, i, err)
		}
		if c.Type == "text" {
			texts = append(texts, c.Text)
		}
		if file, ok := c.media(); ok && len(files) < contract.MaxMedia {
			files = append(files, file)
			parts = append(parts, file.Note(len(files)))
			continue
		}
		parts = append(parts, c.render(len(part)))
	}
	return parts, texts, files, nil
}

// media is a part that is an image or a recording, or an embedded file that models take. Its type is the file's own.
func (c content) media() (contract.Media, bool) {
	data, name := "", ""
	switch {
	case c.Type == contract.KindImage || c.Type == contract.KindAudio:
		data = c.Data
	case c.Type == "resource" && c.Resource != nil && c.Resource.Text == nil:
		data, name = c.Resource.Blob, c.Resource.URI
	}
	if data == "" || decodedSize(data) > contract.MaxFileBytes {
		return contract.Media{}, false
	}
	file, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return contract.Media{}, false
	}
	out, err := contract.NewMedia(file, name)
	return out, err == nil
}

// render is a part as text; size is what its JSON has.
func (c content) render(size int) string {
	switch c.Type {
	case "text":
		return c.Text
	case contract.KindImage, contract.KindAudio:
		return placeholder(c.Type, c.MIMEType, decodedSize(c.Data))
	case "resource_link":
		text := fmt.Sprintf("[resource link %s", c.URI)
		for _, more := range []string{c.Name, c.MIMEType} {
			if more != "" {
				text += ", " + more
			}
		}
		if c.Size != nil {
			text += fmt.Sprintf(", %d bytes", *c.Size)
		}
		return text + "]"
	case "resource":
		if c.Resource == nil {
			return "[resource without content]"
		}
		if c.Resource.Text != nil {
			return fmt.Sprintf("[resource %s]\n%s", c.Resource.URI, *c.Resource.Text)
		}
		return placeholder("resource "+c.Resource.URI, c.Resource.MIMEType, decodedSize(c.Resource.Blob))
	}
	return fmt.Sprintf("[content of type %q, %d bytes of JSON]", c.Type, size)
}

func placeholder(what, mime string, size int) string {
	if mime != "" {
		what += ", " + mime
	}
	return fmt.Sprintf("[%s, %d bytes]", what, size)
}

// decodedSize is how many bytes a base64 text stands for.
func decodedSize(b64 string) int {
	return len(strings.TrimRight(b64, "=")) * 3 / 4
}

// rawResult is a result as unabridged JSON: what the protocol defines, in the order of its reference types,
// without the result's own type and _meta and without null members.
type rawResult struct {
	Content    []rawContent     `json:"content"`
	IsError    *bool            `json:"isError,omitempty"`
	Structured *json.RawMessage `json:"structuredContent,omitempty"`
}

// rawContent is a part of a [rawResult], of any type.
type rawContent struct {
	Text        *string          `json:"text,omitempty"`
	Data        *string          `json:"data,omitempty"`
	Name        *string          `json:"name,omitempty"`
	URI         *string          `json:"uri,omitempty"`
	Title       *string          `json:"title,omitempty"`
	Size        *json.RawMessage `json:"size,omitempty"`
	MIMEType    *string          `json:"mimeType,omitempty"`
	Description *string          `json:"description,omitempty"`
	Resource    *json.RawMessage `json:"resource,omitempty"`
	Annotations *json.RawMessage `json:"annotations,omitempty"`
	Meta        *json.RawMessage `json:"_meta,omitempty"`
	Type        string           `json:"type"`
}

// encodeRaw is a result's JSON in one line.
func encodeRaw(raw []byte) (string, error) {
	r := rawResult{Content: []rawContent{}}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if r.Content == nil { // null
		r.Content = []rawContent{}
	}
	out, err := textutil.JSON(r)
	return string(out), err
}
