package llm

import (
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// imagesOmitted replaces the images of a message; the text has a note of each, with type and size.
const imagesOmitted = "(this model is shown no images)"

// placeImages puts images where the server takes them: those of results after all results of an answer. A
// model without images is told of them.
func (c *remote) placeImages(in []llms.MessageContent) []llms.MessageContent {
	if c.row.ResultImages && !c.noImages {
		return in
	}
	out := make([]llms.MessageContent, 0, len(in))
	var pending []llms.ContentPart
	for i := range in {
		mc := in[i]
		if mc.Role != llms.ChatMessageTypeTool {
			out, pending = appendImages(out, pending), nil
		}
		text, images := splitImages(mc.Parts)
		switch {
		case len(images) == 0:
		case c.noImages:
			mc.Parts = withoutImages(mc.Role, text)
		case mc.Role == llms.ChatMessageTypeTool:
			mc.Parts = text
			pending = append(append(pending, llms.TextContent{Text: "The images of " + resultName(text) + ":"}), images...)
		}
		out = append(out, mc)
	}
	return appendImages(out, pending)
}

// appendImages adds the images of results as a user's message.
func appendImages(out []llms.MessageContent, pending []llms.ContentPart) []llms.MessageContent {
	if len(pending) == 0 {
		return out
	}
	return append(out, llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: pending})
}

// splitImages separates a message's images.
func splitImages(parts []llms.ContentPart) (rest, images []llms.ContentPart) {
	for _, p := range parts {
		switch p.(type) {
		case llms.BinaryContent, llms.ImageURLContent:
			images = append(images, p)
		default:
			rest = append(rest, p)
		}
	}
	return rest, images
}

// withoutImages is a message without its images, which says so.
func withoutImages(role llms.ChatMessageType, rest []llms.ContentPart) []llms.ContentPart {
	if role != llms.ChatMessageTypeTool {
		return append(rest, llms.TextContent{Text: "\n" + imagesOmitted})
	}
	for i, p := range rest {
		switch r := p.(type) {
		case llms.ToolCallResponse:
			r.Content = strings.TrimLeft(r.Content+"\n"+imagesOmitted, "\n")
			rest[i] = r
		case FailedResult:
			r.Content = strings.TrimLeft(r.Content+"\n"+imagesOmitted, "\n")
			rest[i] = r
		}
	}
	return rest
}

// resultName says whose images follow, with the call's id.
func resultName(parts []llms.ContentPart) string {
	for _, p := range parts {
		switch r := p.(type) {
		case llms.ToolCallResponse:
			return "the result of " + r.Name + " (call " + r.ToolCallID + ")"
		case FailedResult:
			return "the result of " + r.Name + " (call " + r.ToolCallID + ")"
		}
	}
	return "a result"
}
