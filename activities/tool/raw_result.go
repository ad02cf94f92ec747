package tool

import (
	"encoding/json"

	"weft/activities/textutil"
)

// wholeResult is a result as unabridged JSON: what the protocol defines, in the order of its reference types,
// without the result's own type and _meta and without null members.
type wholeResult struct {
	Content    []wholeContent   `json:"content"`
	IsError    *bool            `json:"isError,omitempty"`
	Structured *json.RawMessage `json:"structuredContent,omitempty"`
}

// wholeContent is a part of a [wholeResult], of any type.
type wholeContent struct {
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

// wholeOf is a result's JSON in one line.
func wholeOf(raw []byte) (string, error) {
	r := wholeResult{Content: []wholeContent{}}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if r.Content == nil { // null
		r.Content = []wholeContent{}
	}
	out, err := textutil.JSON(r)
	return string(out), err
}
