package llm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// carried is what [contract.Message]'s Provider holds for providers of this package: what
// a provider wants back with its own messages, unread. By names the provider; data of
// another one is not sent.
type carried struct {
	By string `json:"by"`
	// Details are OpenRouter's reasoning_details, with signatures.
	Details json.RawMessage `json:"reasoning_details,omitempty"`
	// Calls holds extra_content of tool calls, Google's thought signatures, by the
	// call's place in its message: ids can be made unique later.
	Calls []carriedCall `json:"calls,omitempty"`
	// Blocks are the blocks of a message in their order, for providers that sign them.
	Blocks []carriedBlock `json:"blocks,omitempty"`
	// Session is the provider's own name of the conversation.
	Session string `json:"session,omitempty"`
}

// carriedBlock is a block of a message: Raw as it is, the message's next call, or the next
// Text bytes of its text.
type carriedBlock struct {
	Raw       json.RawMessage `json:"raw,omitempty"`
	Call      bool            `json:"call,omitempty"`
	Text      int             `json:"text,omitempty"`
	Signature string          `json:"signature,omitempty"`
}

type carriedCall struct {
	Index int             `json:"index"`
	Extra json.RawMessage `json:"extra_content"`
}

// keep puts into an answer what its provider wants back with it. Blocks that are nothing but
// one text and the calls behind it say nothing of their own.
func (c *remote) keep(out *llms.ContentChoice, k *carried) (*llms.ContentResponse, error) {
	plain := true
	for i, b := range k.Blocks {
		plain = plain && b.Raw == nil && b.Signature == "" && (b.Call || i == 0)
	}
	if plain {
		k.Blocks = nil
	}
	if k.Details != nil || k.Calls != nil || k.Blocks != nil || k.Session != "" || (c.row.Reasoning != "" && out.ReasoningContent != "") {
		raw, err := textutil.JSON(k)
		if err != nil {
			return nil, badf("the provider's own data: %v", err)
		}
		out.GenerationInfo[infoProvider] = json.RawMessage(raw)
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{out}}, nil
}

// own reads a blob that this provider wrote; nil for any other.
func (c *remote) own(raw json.RawMessage) *carried {
	var k carried
	if len(raw) == 0 || json.Unmarshal(raw, &k) != nil || k.By != c.name {
		return nil
	}
	return &k
}

// carryBack puts an assistant's own reasoning into its message.
func (c compatible) carryBack(m *wireMessage, p *ReasoningPart) {
	k := c.own(p.Provider)
	if k == nil {
		return
	}
	switch c.row.Reasoning {
	case "reasoning_content":
		m.ReasoningContent = p.Reasoning
	case "reasoning":
		m.Reasoning, m.ReasoningDetails = p.Reasoning, k.Details
	}
}

// extraOf is the extra content that came with the n-th call, from 0.
func (c compatible) extraOf(n int, parts []llms.ContentPart) json.RawMessage {
	for _, part := range parts {
		p, ok := part.(ReasoningPart)
		if !ok {
			continue
		}
		if k := c.own(p.Provider); k != nil {
			for _, call := range k.Calls {
				if call.Index == n {
					return call.Extra
				}
			}
		}
	}
	return nil
}

// details gathers reasoning_details. A stream brings each block in pieces with one index;
// pieces sent back one by one would not match the block's signature.
type details struct {
	order  []string
	blocks map[string]map[string]json.RawMessage
}

// joined are the fields of which pieces have a part each.
var joined = []string{"text", "summary", "data"}

// add takes a list of blocks or pieces. What is no list of objects is ignored: it is not
// ours to read.
func (d *details) add(raw json.RawMessage, streamed bool) {
	var list []map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, piece := range list {
		if piece == nil {
			continue
		}
		key := string(piece["index"])
		if !streamed || key == "" {
			key = fmt.Sprintf("alone %d", len(d.order))
		}
		if d.blocks == nil {
			d.blocks = map[string]map[string]json.RawMessage{}
		}
		if d.blocks[key] == nil {
			d.order, d.blocks[key] = append(d.order, key), piece
			continue
		}
		join(d.blocks[key], piece)
	}
}

// join adds a piece to its block.
func join(block, piece map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(piece)) {
		value := piece[name]
		var have, more string
		if slices.Contains(joined, name) && json.Unmarshal(block[name], &have) == nil && json.Unmarshal(value, &more) == nil {
			block[name], _ = json.Marshal(have + more) // a string always encodes
		} else if string(value) != "null" {
			block[name] = value
		}
	}
}

// encode gives the blocks in order; nil if there are none.
func (d *details) encode() json.RawMessage {
	if len(d.order) == 0 {
		return nil
	}
	list := make([]map[string]json.RawMessage, 0, len(d.order))
	for _, key := range d.order {
		list = append(list, d.blocks[key])
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return raw
}
