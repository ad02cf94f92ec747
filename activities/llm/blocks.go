package llm

import (
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// block is one block of an assistant's message: text, a call, or raw data of its provider. Signature belongs
// to it.
type block struct {
	text      string
	call      *llms.ToolCall
	raw       []byte
	signature string
}

// assistantBlocks splits an assistant's message, in the order that its provider recorded, else text before
// calls.
func (c *remote) assistantBlocks(parts []llms.ContentPart) ([]block, error) {
	var text strings.Builder
	var calls []*llms.ToolCall
	var kept *providerState
	for _, part := range parts {
		switch p := part.(type) {
		case llms.TextContent:
			text.WriteString(p.Text)
		case llms.ToolCall:
			if p.FunctionCall == nil {
				return nil, fmt.Errorf("tool call %q has no function", p.ID)
			}
			calls = append(calls, &p)
		case ReasoningPart:
			kept = c.ownState(p.Provider)
		default:
			return nil, fmt.Errorf("content of type %T is not supported in an assistant's message", part)
		}
	}
	if kept != nil {
		if out := restoreOrder(kept.Blocks, text.String(), calls); out != nil {
			return out, nil
		}
	}
	var out []block
	if text.Len() > 0 {
		out = append(out, block{text: text.String()})
	}
	for _, call := range calls {
		out = append(out, block{call: call})
	}
	return out, nil
}

// restoreOrder puts text and calls where their blocks were; nil if the blocks are not those of this message.
func restoreOrder(blocks []blockState, text string, calls []*llms.ToolCall) []block {
	var out []block
	next := 0
	for _, b := range blocks {
		p := block{raw: b.Raw, signature: b.Signature}
		switch {
		case b.Raw != nil:
		case b.Call:
			if next >= len(calls) {
				return nil
			}
			p.call = calls[next]
			next++
		case b.Text < 0 || b.Text > len(text):
			return nil
		default:
			p.text, text = text[:b.Text], text[b.Text:]
		}
		out = append(out, p)
	}
	if text != "" || next != len(calls) {
		return nil
	}
	return out
}

// objectArguments are a call's arguments as a JSON object. Invalid ones are wrapped in one, so that the model
// sees what it wrote.
func objectArguments(args string) string {
	if strings.TrimSpace(args) == "" {
		return "{}"
	}
	if isObject(args) {
		return args
	}
	quoted, _ := textutil.JSON(map[string]string{"unparsable_arguments": args}) // a map of strings always encodes
	return string(quoted)
}

// emptyText stands for a message without text where a provider takes none.
const emptyText = "(empty)"
