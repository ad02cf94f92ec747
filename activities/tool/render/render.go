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

// Result is a result of tools/call in the server's own bytes.
type Result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
}

// Text renders a result as text: its parts, a line each, others than text by type and size, then structured
// content but for what a part says; with several outputs an object of them. Files have a note each in the text.
func (r *Result) Text(outputs []string) (text string, files []contract.Media, err error) {
	parts, texts, files, err := r.contents()
	if err != nil {
		return "", nil, err
	}
	if len(outputs) > 1 && !r.IsError {
		return r.byPosition(texts, outputs), files, nil
	}
	if more := textutil.Beyond(r.Structured, texts); more != "" {
		if strings.Join(parts, "") == "" {
			parts = nil
		}
		parts = append(parts, more)
	}
	return strings.Join(parts, "\n"), files, nil
}

// maxLinks bounds the links of a result that can be read, maxURI each of them.
const (
	maxLinks = 100
	maxURI   = 2 << 10
)

// Links are the resources that a result links to, by URI.
func (r *Result) Links() (out []string) {
	for _, part := range r.Content {
		var c content
		if json.Unmarshal(part, &c) == nil && c.Type == "resource_link" && c.URI != "" && len(c.URI) <= maxURI && len(out) < maxLinks {
			out = append(out, c.URI)
		}
	}
	return out
}

// Resource makes a result of one of resources/read, with its contents as embedded resources.
func Resource(raw []byte) (*Result, error) {
	var read struct {
		Contents []json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, err
	}
	out := &Result{}
	for _, c := range read.Contents {
		part, _ := textutil.JSON(map[string]any{"type": "resource", "resource": c}) // what was decoded can be encoded
		out.Content = append(out.Content, part)
	}
	return out, nil
}

// byPosition is a result as an object of named values: itself if it is one with any of the names, else its texts in their order.
func (r *Result) byPosition(texts, names []string) string {
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

// Whole is a result as unabridged JSON, in one line.
func Whole(raw []byte) (string, error) {
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
