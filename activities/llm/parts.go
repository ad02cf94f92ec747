package llm

import (
	"encoding/base64"

	"github.com/tmc/langchaingo/llms"
)

// checkMessages refuses what no protocol can send, so that protocols need not: unknown roles, parts that do not
// belong to their role, and tool calls without a function.
func (c *remote) checkMessages(in []llms.MessageContent) error {
	for i := range in {
		role, ok := roles[in[i].Role]
		if !ok {
			return c.unsendable("message %d: role %q is not supported", i+1, in[i].Role)
		}
		for _, part := range in[i].Parts {
			ok := false
			switch p := part.(type) {
			case llms.TextContent:
				ok = true
			case llms.ToolCall:
				if p.FunctionCall == nil {
					return c.unsendable("message %d: tool call %q has no function", i+1, p.ID)
				}
				ok = role == "assistant"
			case ReasoningPart:
				ok = role == "assistant"
			case llms.BinaryContent, llms.ImageURLContent, llms.ToolCallResponse, FailedResult:
				ok = role == "user" || role == "tool"
			}
			if !ok {
				return c.unsendable("message %d: content of type %T is not supported in a message of role %s", i+1, part, role)
			}
		}
	}
	return nil
}

// resultOf returns the tool result in a part, and whether the tool failed; nil for other parts.
func resultOf(part llms.ContentPart) (result *llms.ToolCallResponse, failed bool) {
	switch p := part.(type) {
	case llms.ToolCallResponse:
		return &p, false
	case FailedResult:
		return &p.ToolCallResponse, true
	}
	return nil, false
}

// imageData returns the media type and the base64 data of an image, or the URL of one that is not inline.
func imageData(part llms.ContentPart) (media, data, url string) {
	switch p := part.(type) {
	case llms.BinaryContent:
		return p.MIMEType, base64.StdEncoding.EncodeToString(p.Data), ""
	case llms.ImageURLContent:
		if media, data, ok := dataURL(p.URL); ok {
			return media, data, ""
		}
		return "", "", p.URL
	}
	return "", "", ""
}

// imageURL returns an image's URL, a data URL for an inline one, and its level of detail.
func imageURL(part llms.ContentPart) (url, detail string) {
	if p, ok := part.(llms.ImageURLContent); ok {
		return p.URL, p.Detail
	}
	media, data, _ := imageData(part)
	return "data:" + media + ";base64," + data, ""
}
