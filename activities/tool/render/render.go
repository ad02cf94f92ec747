// Package render converts the results of MCP servers to text for models.
package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Result is a result of tools/call, with the content as the server sent it.
type Result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
}

// Text renders a result as text: first its parts, separated by line breaks, with a description of each part that is not text,
// then structured content that no part contains. For several outputs it returns an object with a member for each. The text
// has a note for each of files.
func (r *Result) Text(outputs []string) (text string, files []contract.Media, err error) {
	parts, texts, files, err := r.contents()
	if err != nil {
		return "", nil, err
	}
	if len(outputs) > 1 && !r.IsError {
		return r.namedOutputs(texts, outputs), files, nil
	}
	if structured := textutil.Remainder(r.Structured, texts); structured != "" {
		if strings.Join(parts, "") == "" {
			parts = nil
		}
		parts = append(parts, structured)
	}
	return strings.Join(parts, "\n"), files, nil
}

// maxLinks limits the number of links of a result, maxURI the length of each, in bytes.
const (
	maxLinks = 100
	maxURI   = 2 << 10
)

// Links returns the URIs of the resources to which a result links.
func (r *Result) Links() (out []string) {
	for _, part := range r.Content {
		var c content
		if json.Unmarshal(part, &c) == nil && c.Type == "resource_link" && c.URI != "" && len(c.URI) <= maxURI && len(out) < maxLinks {
			out = append(out, c.URI)
		}
	}
	return out
}

// Resource converts a result of resources/read to a result with embedded resources.
func Resource(raw []byte) (*Result, error) {
	var read struct {
		Contents []json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, err
	}
	out := &Result{}
	for _, c := range read.Contents {
		part, _ := textutil.JSON(map[string]any{"type": "resource", "resource": c}) // cannot fail: decoded from JSON
		out.Content = append(out.Content, part)
	}
	return out, nil
}

// namedOutputs returns a result as a JSON object of named values: structured content, or a single text, that is an object with
// any of the names; otherwise the texts, with the names in order.
func (r *Result) namedOutputs(texts, names []string) string {
	candidate := r.Structured
	if candidate == nil && len(texts) == 1 {
		candidate = json.RawMessage(texts[0])
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(candidate, &object) // object is nil for other values
	out := map[string]string{}
	for i, name := range names {
		if object[name] != nil {
			return textutil.Compact(candidate)
		}
		if i < len(texts) {
			out[name] = texts[i]
		}
	}
	text, _ := textutil.JSON(out) // cannot fail for strings
	return string(text)
}

// content is one part of a result, with the fields that are passed to models.
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

func (r *Result) contents() (parts, texts []string, files []contract.Media, err error) {
	for i, part := range r.Content {
		var c content
		if err := json.Unmarshal(part, &c); err != nil {
			return nil, nil, nil, fmt.Errorf("content %d: %w", i, err)
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

// media returns the image, recording or embedded file in a part, if models support it. Its media type is detected from its bytes.
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

// render returns a part as text. size is the size of its JSON in bytes.
func (c content) render(size int) string {
	switch c.Type {
	case "text":
		return c.Text
	case contract.KindImage, contract.KindAudio:
		return placeholder(c.Type, c.MIMEType, decodedSize(c.Data))
	case "resource_link":
		text := fmt.Sprintf("[resource link %s", c.URI)
		for _, detail := range []string{c.Name, c.MIMEType} {
			if detail != "" {
				text += ", " + detail
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

// decodedSize returns the number of bytes that base64 text encodes.
func decodedSize(b64 string) int {
	return len(strings.TrimRight(b64, "=")) * 3 / 4
}

// rawResult is a result as unabridged JSON: the fields that the protocol defines, in the order of its reference types,
// without resultType, the result's _meta, and null members.
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

// Unabridged returns a result as unabridged JSON, in one line.
func Unabridged(raw []byte) (string, error) {
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
