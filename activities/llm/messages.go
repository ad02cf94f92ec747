package llm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// ReasoningPart carries an assistant's reasoning and the provider's own data back to that provider. The
// embedded TextContent, always empty, makes it a part of langchaingo's closed interface.
type ReasoningPart struct {
	llms.TextContent
	// Reasoning is the text of the reasoning.
	Reasoning string
	// Provider is opaque; see [contract.Message].
	Provider json.RawMessage
}

// FailedResult is the result of a tool that reports an error, for providers that distinguish it.
type FailedResult struct{ llms.ToolCallResponse }

// Messages converts a system prompt, which may be empty, and a transcript with resolved references. It fails
// with bad_request, naming every message that it cannot convert.
func Messages(system string, in []contract.Message) ([]llms.MessageContent, error) {
	out := make([]llms.MessageContent, 0, len(in)+1)
	if system != "" {
		out = append(out, llms.TextParts(llms.ChatMessageTypeSystem, system))
	}
	var problems []string
	for i := range in {
		mc, err := message(&in[i])
		if err != nil {
			problems = append(problems, fmt.Sprintf("message %d: %v", i+1, err))
			continue
		}
		out = append(out, mc)
	}
	if len(problems) > 0 {
		return nil, failf(contract.ClassBadRequest, "", "%s", strings.Join(problems, "; "))
	}
	return out, nil
}

func message(m *contract.Message) (llms.MessageContent, error) {
	text, err := textOf(m)
	if err != nil {
		return llms.MessageContent{}, err
	}
	shown, err := imageParts(m)
	if err != nil {
		return llms.MessageContent{}, err
	}
	switch m.Role {
	case contract.RoleUser:
		return llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: append([]llms.ContentPart{llms.TextContent{Text: text}}, shown...)}, nil
	case contract.RoleTool:
		if m.CallID == "" {
			return llms.MessageContent{}, fmt.Errorf("result of tool %q names no call", m.Name)
		}
		result := llms.ToolCallResponse{ToolCallID: m.CallID, Name: m.Name, Content: text}
		part := llms.ContentPart(result)
		if m.Error {
			part = FailedResult{result}
		}
		return llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: append([]llms.ContentPart{part}, shown...)}, nil
	case contract.RoleAssistant:
		return assistant(m, text), nil
	}
	return llms.MessageContent{}, fmt.Errorf("role %q: want user, assistant or tool", textutil.Truncate(m.Role, 60))
}

// imageParts are a message's images as parts.
func imageParts(m *contract.Message) ([]llms.ContentPart, error) {
	var out []llms.ContentPart
	for i := range m.Images {
		file, err := m.Images[i].File()
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i+1, err)
		}
		out = append(out, llms.BinaryPart(m.Images[i].MediaType, file))
	}
	return out, nil
}

func assistant(m *contract.Message, text string) llms.MessageContent {
	out := llms.MessageContent{Role: llms.ChatMessageTypeAI}
	if m.Reasoning != "" || len(m.Provider) > 0 {
		out.Parts = append(out.Parts, ReasoningPart{Reasoning: m.Reasoning, Provider: m.Provider})
	}
	if text != "" || len(m.Calls) == 0 {
		out.Parts = append(out.Parts, llms.TextContent{Text: text})
	}
	for _, c := range m.Calls {
		out.Parts = append(out.Parts, llms.ToolCall{
			ID: c.ID, Type: "function", FunctionCall: &llms.FunctionCall{Name: c.Name, Arguments: c.Arguments},
		})
	}
	return out
}

// textOf is a message's text, joined from its parts where it has any.
func textOf(m *contract.Message) (string, error) {
	if len(m.Parts) == 0 {
		return m.Text, nil
	}
	var b strings.Builder
	for i, p := range m.Parts {
		if p.Ref != nil {
			return "", fmt.Errorf("part %d is an unresolved reference", i+1)
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

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
		if r, _ := resultOf(p); r != nil {
			return "the result of " + r.Name + " (call " + r.ToolCallID + ")"
		}
	}
	return "a result"
}
