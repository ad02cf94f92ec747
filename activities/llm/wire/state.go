package wire

import (
	"bytes"
	"encoding/json"
	"slices"

	"weft/activities/contract"
)

// providerState is the Provider field of a [contract.Message]: data that must be sent back to a provider with its own
// messages. By is the provider's name; the data is not sent to others.
type providerState struct {
	By string `json:"by"`
	// Details are OpenRouter's reasoning_details, with signatures.
	Details json.RawMessage `json:"reasoning_details,omitempty"`
	// Calls holds extra_content of tool calls (Google's thought signatures) by the call's index, because ids can change.
	Calls []callState `json:"calls,omitempty"`
	// Blocks are the blocks of a message in order, for providers that sign them.
	Blocks []blockState `json:"blocks,omitempty"`
	// Plan is Cohere's tool_plan, the model's text about its calls.
	Plan string `json:"plan,omitempty"`
	// Field is the field in which the reasoning was received, for [SameField].
	Field string `json:"field,omitempty"`
	// Session is the provider's id of the conversation.
	Session string `json:"session,omitempty"`
}

// blockState is a block of a message: Raw, the message's next call, or the next Text bytes of its text. Signature is other
// data to send back with a call or text: its signature, for OpenAI's Responses API the namespace or phase, for Claude a
// text's citations.
type blockState struct {
	Raw       json.RawMessage `json:"raw,omitempty"`
	Call      bool            `json:"call,omitempty"`
	Text      int             `json:"text,omitempty"`
	Signature string          `json:"signature,omitempty"`
}

type callState struct {
	Index int             `json:"index"`
	Extra json.RawMessage `json:"extra_content"`
}

// empty reports whether there is nothing to send back. It removes blocks that are just one text and the calls after it.
func (s *providerState) empty() bool {
	plain := true
	for i, b := range s.Blocks {
		plain = plain && b.Raw == nil && b.Signature == "" && (b.Call || i == 0)
	}
	if plain {
		s.Blocks = nil
	}
	return s.Details == nil && s.Calls == nil && s.Blocks == nil && s.Plan == "" && s.Session == ""
}

// ownState decodes the state of a message from this provider; it returns nil for any other.
func (m *Model) ownState(raw json.RawMessage) *providerState {
	var s providerState
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s.By != m.Provider {
		return nil
	}
	return &s
}

// details are OpenRouter's reasoning_details: blocks. In a stream, the pieces of a block have the same index.
type details []map[string]json.RawMessage

// add adds a list of blocks or, if streamed, pieces. Anything but a list of objects is ignored.
func (d *details) add(raw json.RawMessage, streamed bool) {
	var list details
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, piece := range list {
		match := -1
		if index := piece["index"]; streamed && index != nil {
			match = slices.IndexFunc(*d, func(block map[string]json.RawMessage) bool { return bytes.Equal(block["index"], index) })
		}
		if match >= 0 {
			appendPiece((*d)[match], piece)
		} else if piece != nil {
			*d = append(*d, piece)
		}
	}
}

// appendedFields are the fields whose values are concatenated.
var appendedFields = []string{"text", "summary", "data"}

// appendPiece merges a piece into its block.
func appendPiece(block, piece map[string]json.RawMessage) {
	for name, value := range piece {
		var have, more string
		if slices.Contains(appendedFields, name) && json.Unmarshal(block[name], &have) == nil && json.Unmarshal(value, &more) == nil {
			block[name], _ = json.Marshal(have + more) // a string always encodes
		} else if string(value) != "null" {
			block[name] = value
		}
	}
}

// block is a block of an assistant message: text, a call, or raw data of its provider. See [blockState] for signature.
type block struct {
	text      string
	call      *contract.ToolCall
	raw       json.RawMessage
	signature string
}

// assistantBlocks splits an assistant message in the order of its own blocks or, if unknown, text before calls.
func (m *Model) assistantBlocks(in *contract.Message) []block {
	if own := m.ownState(in.Provider); own != nil {
		if out := restoreOrder(own.Blocks, in); out != nil {
			return out
		}
	}
	var out []block
	if in.Text != "" {
		out = append(out, block{text: in.Text})
	}
	for i := range in.Calls {
		out = append(out, block{call: &in.Calls[i]})
	}
	return out
}

// restoreOrder splits text and calls by recorded blocks. It returns nil if the blocks do not match the message.
func restoreOrder(blocks []blockState, in *contract.Message) []block {
	text, calls := in.Text, in.Calls
	var out []block
	for _, b := range blocks {
		p := block{raw: b.Raw, signature: b.Signature}
		switch {
		case b.Raw != nil:
		case b.Call && len(calls) > 0:
			p.call, calls = &calls[0], calls[1:]
		case b.Call, b.Text < 0, b.Text > len(text):
			return nil
		default:
			p.text, text = text[:b.Text], text[b.Text:]
		}
		out = append(out, p)
	}
	if text != "" || len(calls) > 0 {
		return nil
	}
	return out
}
