package llm

import (
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// unseen stands for the images of a message that is sent without them. The text has a note of
// each, with type and size.
const unseen = "(this model is shown no images)"

// picture puts images where the server takes them: those of results behind all results of one
// answer, which must stay together. Where it takes none, the model is told so.
func (c *remote) picture(in []llms.MessageContent) []llms.MessageContent {
	if c.row.ResultImages && !c.noImages {
		return in
	}
	out := make([]llms.MessageContent, 0, len(in))
	var late []llms.ContentPart
	for i := range in {
		mc := in[i]
		if mc.Role != llms.ChatMessageTypeTool {
			out, late = shownLate(out, late), nil
		}
		text, images := apart(mc.Parts)
		switch {
		case len(images) == 0:
		case c.noImages:
			mc.Parts = unshown(mc.Role, text)
		case mc.Role == llms.ChatMessageTypeTool:
			mc.Parts = text
			late = append(append(late, llms.TextContent{Text: "The images of " + resultName(text) + ":"}), images...)
		}
		out = append(out, mc)
	}
	return shownLate(out, late)
}

// shownLate adds the images of results as a user's message.
func shownLate(out []llms.MessageContent, late []llms.ContentPart) []llms.MessageContent {
	if len(late) == 0 {
		return out
	}
	return append(out, llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: late})
}

// apart tells a message's images from the rest of it.
func apart(parts []llms.ContentPart) (rest, images []llms.ContentPart) {
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

// unshown is a message without its images, which says so.
func unshown(role llms.ChatMessageType, rest []llms.ContentPart) []llms.ContentPart {
	if role != llms.ChatMessageTypeTool {
		return append(rest, llms.TextContent{Text: "\n" + unseen})
	}
	for i, p := range rest {
		switch r := p.(type) {
		case llms.ToolCallResponse:
			r.Content = strings.TrimLeft(r.Content+"\n"+unseen, "\n")
			rest[i] = r
		case FailedResult:
			r.Content = strings.TrimLeft(r.Content+"\n"+unseen, "\n")
			rest[i] = r
		}
	}
	return rest
}

// resultName says whose images follow: servers that keep calls apart by ids show these to the
// model.
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
