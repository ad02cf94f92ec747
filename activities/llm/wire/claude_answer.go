package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// claudeReader reads an answer of Anthropic's Messages API: a list of blocks.
type claudeReader struct {
	draft
	blocks []*claudePart
	// slots maps an index to its block.
	slots   map[int]*claudePart
	details claudeDetails
	counted claudeUsage
}

// claudePart is a block that is being read. Its first event is retained, because unknown blocks are sent back unchanged.
type claudePart struct {
	first                     map[string]json.RawMessage
	kind, id, name            string
	size                      int // of the text, in bytes
	thinking, signature, args strings.Builder
	// input is the input in the first event, citations are those of a text.
	input     json.RawMessage
	citations []json.RawMessage
}

// claudeEvent is a response, or an event of a stream.
type claudeEvent struct {
	claudeAnswer
	Index   int             `json:"index"`
	Message *claudeAnswer   `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   claudeDelta     `json:"delta"`
	Error   json.RawMessage `json:"error"`
}

type claudeAnswer struct {
	Type    LooseText          `json:"type"`
	Model   LooseText          `json:"model"`
	Content []json.RawMessage  `json:"content"`
	Stop    LooseText          `json:"stop_reason"`
	Details claudeDetails      `json:"stop_details"`
	Usage   loose[claudeUsage] `json:"usage"`
}

// claudeDetails are the reasons for a refusal.
type claudeDetails struct {
	Explanation LooseText `json:"explanation"`
	Category    LooseText `json:"category"`
}

// claudeDelta is a block, a piece of one, or the end of the answer.
type claudeDelta struct {
	Type      LooseText       `json:"type"`
	ID        LooseText       `json:"id"`
	Name      LooseText       `json:"name"`
	Input     json.RawMessage `json:"input"`
	Text      LooseText       `json:"text"`
	JSON      LooseText       `json:"partial_json"`
	Thinking  LooseText       `json:"thinking"`
	Signature LooseText       `json:"signature"`
	Citation  json.RawMessage `json:"citation"`
	Citations json.RawMessage `json:"citations"`
	Content   json.RawMessage `json:"content"`
	Stop      LooseText       `json:"stop_reason"`
	Details   claudeDetails   `json:"stop_details"`
}

// claudeUsage is the usage. Input does not include the tokens read from the cache and written to it.
type claudeUsage struct {
	Input      looseCount `json:"input_tokens"`
	Output     looseCount `json:"output_tokens"`
	CacheRead  looseCount `json:"cache_read_input_tokens"`
	CacheWrite looseCount `json:"cache_creation_input_tokens"`
	Details    struct {
		Thinking looseCount `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (r *claudeReader) Read(raw []byte, streamed bool) (done bool, err error) {
	var e claudeEvent
	err = json.Unmarshal(raw, &e)
	switch {
	case e.Type == "error" || isSet(e.Error):
		return false, &Error{Reported: raw}
	case err != nil:
		return false, Invalidf("invalid response of Anthropic's Messages API (%v): %s", err, excerpt(raw))
	case !streamed && e.Type != "message":
		return false, Invalidf("the response is not a message: %s", excerpt(raw))
	}
	switch e.Type {
	case "message":
		return true, r.begin(&e.claudeAnswer)
	case "message_start":
		if e.Message != nil {
			e.Message.Content = nil // its blocks follow as events
			err = r.begin(e.Message)
		}
	case "content_block_start":
		r.slots[e.Index], err = r.open(e.Block)
	case "content_block_delta":
		part := r.slots[e.Index]
		if part == nil {
			return false, Invalidf("the stream continues block %d, which has not started", e.Index)
		}
		r.appendDelta(part, &e.Delta)
	case "message_delta":
		if e.Delta.Stop != "" {
			r.finish, r.details = string(e.Delta.Stop), e.Delta.Details
		}
		r.count(e.Usage.value)
	}
	return e.Type == "message_stop", err
}

// begin reads a complete answer, or the beginning of a stream.
func (r *claudeReader) begin(a *claudeAnswer) error {
	r.model, r.finish, r.details = string(a.Model), string(a.Stop), a.Details
	r.count(a.Usage.value)
	for _, block := range a.Content {
		if _, err := r.open(block); err != nil {
			return err
		}
	}
	return nil
}

// count stores the greatest counts so far: those of a stream grow.
func (r *claudeReader) count(u *claudeUsage) {
	if u == nil {
		return
	}
	c := &r.counted
	c.Input, c.Output = max(c.Input, u.Input), max(c.Output, u.Output)
	c.CacheRead, c.CacheWrite = max(c.CacheRead, u.CacheRead), max(c.CacheWrite, u.CacheWrite)
	c.Details.Thinking = max(c.Details.Thinking, u.Details.Thinking)
}

// open adds a block, complete or at its beginning.
func (r *claudeReader) open(raw json.RawMessage) (*claudePart, error) {
	p := &claudePart{}
	var known claudeDelta
	if json.Unmarshal(raw, &p.first) != nil || p.first == nil || json.Unmarshal(raw, &known) != nil || known.Type == "" {
		return nil, Invalidf("invalid block %d in the response: %s", len(r.blocks)+1, excerpt(raw))
	}
	p.kind, p.id, p.name = string(known.Type), string(known.ID), string(known.Name)
	r.blocks = append(r.blocks, p)
	r.appendDelta(p, &known)
	if isSet(known.Input) {
		p.input = known.Input
	}
	_ = json.Unmarshal(known.Citations, &p.citations) // anything but a list is ignored
	return p, nil
}

func (r *claudeReader) appendDelta(p *claudePart, d *claudeDelta) {
	if p.kind == "text" {
		p.size += len(d.Text)
		r.text.WriteString(string(d.Text))
	}
	if d.Citation != nil {
		p.citations = append(p.citations, d.Citation)
	}
	if d.Type == "compaction_delta" {
		p.first["content"] = d.Content
	}
	p.args.WriteString(string(d.JSON))
	p.thinking.WriteString(string(d.Thinking))
	p.signature.WriteString(string(d.Signature))
}

func (r *claudeReader) Spent() contract.Usage {
	u := r.counted
	return contract.Usage{Input: int(u.Input + u.CacheRead + u.CacheWrite), Output: int(u.Output),
		Cached: int(u.CacheRead), CacheWrite: int(u.CacheWrite), Reasoning: int(u.Details.Thinking)}
}

func (r *claudeReader) Result() (*Answer, error) {
	for i, p := range r.blocks {
		switch p.kind {
		case "text":
			own := blockState{Text: p.size}
			if len(p.citations) > 0 {
				raw, _ := textutil.JSON(p.citations) // what was decoded can be encoded
				own.Signature = string(raw)
			}
			r.state.Blocks = append(r.state.Blocks, own)
		case "tool_use":
			r.state.Blocks = append(r.state.Blocks, blockState{Call: true})
			if err := r.addCall(p.id, p.name, cmp.Or(p.args.String(), string(p.input), "{}")); err != nil {
				return nil, err
			}
		default:
			r.reasoning.WriteString(p.thinking.String())
			raw, err := p.encode()
			if err != nil {
				return nil, Invalidf("invalid block %d in the response: %v", i+1, err)
			}
			r.state.Blocks = append(r.state.Blocks, blockState{Raw: raw})
		}
	}
	r.usage = r.Spent()
	if r.finish == "refusal" {
		r.refusal.WriteString(cmp.Or(string(r.details.Explanation), strings.TrimSpace("stop_reason is refusal "+string(r.details.Category))))
	}
	return r.result("stop_reason")
}

// encode returns the JSON of a block that is sent back unchanged.
func (p *claudePart) encode() (json.RawMessage, error) {
	for _, f := range []struct {
		name string
		text string
	}{{"thinking", p.thinking.String()}, {"signature", p.signature.String()}} {
		if p.first[f.name] != nil || f.text != "" {
			quoted, err := textutil.JSON(f.text)
			if err != nil {
				return nil, err
			}
			p.first[f.name] = quoted
		}
	}
	if args := cmp.Or(p.args.String(), string(p.input)); args != "" {
		if !json.Valid([]byte(args)) {
			return nil, fmt.Errorf("input is not JSON")
		}
		p.first["input"] = json.RawMessage(args)
	}
	return textutil.JSON(p.first)
}
