package wire

import (
	"bytes"
	"encoding/json"
	"slices"

	"weft/activities/contract"
)

// providerState is [contract.Message]'s Provider for providers of this package: data that a provider wants
// back with its own messages. By names the provider; others are not sent it.
type providerState struct {
	By string `json:"by"`
	// Details are OpenRouter's reasoning_details, with signatures.
	Details json.RawMessage `json:"reasoning_details,omitempty"`
	// Calls holds extra_content of tool calls (Google's thought signatures) by the call's index: ids can
	// change.
	Calls []callState `json:"calls,omitempty"`
	// Blocks are the blocks of a message in their order, for providers that sign them.
	Blocks []blockState `json:"blocks,omitempty"`
	// Plan is what Cohere's models say of their calls.
	Plan string `json:"plan,omitempty"`
	// Field is where the reasoning came, for [AsItCame].
	Field string `json:"field,omitempty"`
	// Session is the provider's id of the conversation.
	Session string `json:"session,omitempty"`
}

// blockState is a block of a message: Raw, the message's next call, or the next Text bytes of its text. Signature is what
// else its provider wants back with a call or a text: of OpenAI's Responses the namespace, the phase; of Claude a text's citations.
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

// empty reports whether there is nothing to send back. It drops blocks that are one text and the calls after
// it.
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

// ownState reads the state of a message that this provider wrote; nil for any other.
func (m *Model) ownState(raw json.RawMessage) *providerState {
	var s providerState
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s.By != m.Provider {
		return nil
	}
	return &s
}

// details are reasoning_details: blocks, whose pieces a stream sends with one index per block.
type details []map[string]json.RawMessage

// add adds a list of blocks or pieces. Anything but a list of objects is ignored.
func (d *details) add(raw json.RawMessage, streamed bool) {
	var list details
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, piece := range list {
		of := -1
		if index := piece["index"]; streamed && index != nil {
			of = slices.IndexFunc(*d, func(block map[string]json.RawMessage) bool { return bytes.Equal(block["index"], index) })
		}
		if of >= 0 {
			appendPiece((*d)[of], piece)
		} else if piece != nil {
			*d = append(*d, piece)
		}
	}
}

// appended are the fields of which each piece has a part.
var appended = []string{"text", "summary", "data"}

// appendPiece appends a piece to its block.
func appendPiece(block, piece map[string]json.RawMessage) {
	for name, value := range piece {
		var have, more string
		if slices.Contains(appended, name) && json.Unmarshal(block[name], &have) == nil && json.Unmarshal(value, &more) == nil {
			block[name], _ = json.Marshal(have + more) // a string always encodes
		} else if string(value) != "null" {
			block[name] = value
		}
	}
}

// block is one block of an assistant's message: text, a call, or raw data of its provider. Signature belongs to it.
type block struct {
	text      string
	call      *contract.ToolCall
	raw       json.RawMessage
	signature string
}

// assistantBlocks splits an assistant's message, in the order that its provider recorded, else text before calls.
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

// restoreOrder puts text and calls where their blocks were; nil if the blocks are not those of this message.
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
