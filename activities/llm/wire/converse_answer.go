package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// converseReader reads an answer of Amazon Bedrock's Converse API: a list of blocks.
type converseReader struct {
	draft
	blocks []*conversePart
	slots  map[int]*conversePart
}

// conversePart is a block that is being read: a call, a result of the service's own tools, reasoning, text, or raw JSON.
type conversePart struct {
	call                     *converseCall
	result                   *converseResult
	raw                      json.RawMessage
	redacted                 []byte
	thinks                   bool
	size                     int // of the text, in bytes
	args, thought, signature strings.Builder
}

// converseEvent is a response, or an event of a stream, which has one of the fields from Start on.
type converseEvent struct {
	Output struct {
		Message struct {
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
	} `json:"output"`
	StopReason LooseText      `json:"stopReason"`
	Usage      *converseUsage `json:"usage"`

	Start *struct {
		Index int           `json:"contentBlockIndex"`
		Start converseBlock `json:"start"`
	} `json:"contentBlockStart"`
	Delta *struct {
		Index int           `json:"contentBlockIndex"`
		Delta converseDelta `json:"delta"`
	} `json:"contentBlockDelta"`
	Stop *struct {
		StopReason LooseText `json:"stopReason"`
	} `json:"messageStop"`
	Metadata *struct {
		Usage *converseUsage `json:"usage"`
	} `json:"metadata"`
	Exception json.RawMessage `json:"exception"`
}

type converseUsage struct {
	Input      looseCount `json:"inputTokens"`
	Output     looseCount `json:"outputTokens"`
	CacheRead  looseCount `json:"cacheReadInputTokens"`
	CacheWrite looseCount `json:"cacheWriteInputTokens"`
}

type converseBlock struct {
	Text      *string         `json:"text"`
	Call      *converseCall   `json:"toolUse"`
	Result    *converseResult `json:"toolResult"`
	Reasoning *struct {
		Text     *converseThought `json:"reasoningText"`
		Redacted []byte           `json:"redactedContent"`
	} `json:"reasoningContent"`
	Cited *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"citationsContent"`
}

// converseThought is reasoning or a piece of it. Redacted is set in streams only.
type converseThought struct {
	Text      string `json:"text"`
	Signature string `json:"signature"`
	Redacted  []byte `json:"redactedContent"`
}

type converseCall struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Type  string          `json:"type,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type converseResult struct {
	ID      string            `json:"toolUseId"`
	Type    string            `json:"type,omitempty"`
	Status  string            `json:"status,omitempty"`
	Content []json.RawMessage `json:"content"`
}

type converseDelta struct {
	Text string `json:"text"`
	Call struct {
		Input string `json:"input"`
	} `json:"toolUse"`
	Result    []json.RawMessage `json:"toolResult"`
	Reasoning *converseThought  `json:"reasoningContent"`
}

// serverToolUse is the type of a call that the service itself executed.
const serverToolUse = "server_tool_use"

func (r *converseReader) Read(raw []byte, streamed bool) (bool, error) {
	var e converseEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return false, Invalidf("invalid response of Bedrock's Converse API (%v): %s", err, excerpt(raw))
	}
	switch {
	case isSet(e.Exception):
		return false, &Error{Reported: e.Exception}
	case !streamed && e.StopReason == "" && e.Output.Message.Content == nil:
		return false, Invalidf("the response has no output: %s", excerpt(raw))
	case e.Start != nil:
		p := r.part(e.Start.Index)
		p.call, p.result = e.Start.Start.Call, e.Start.Start.Result
	case e.Delta != nil:
		r.appendDelta(r.part(e.Delta.Index), &e.Delta.Delta)
	case e.Stop != nil:
		r.finish = string(e.Stop.StopReason)
	case e.Metadata != nil:
		r.count(e.Metadata.Usage)
		return true, nil
	case !streamed:
		r.finish = string(e.StopReason)
		r.count(e.Usage)
		for i, block := range e.Output.Message.Content {
			if err := r.addBlock(r.part(i), block); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return false, nil
}

// count stores the usage. The service does not include tokens read from the cache and written to it in the input.
func (r *converseReader) count(u *converseUsage) {
	if u != nil {
		r.usage = contract.Usage{Input: int(u.Input + u.CacheRead + u.CacheWrite), Output: int(u.Output), Cached: int(u.CacheRead), CacheWrite: int(u.CacheWrite)}
	}
}

// part returns the block of an index, which it adds if needed: only calls and results have an event at their beginning.
func (r *converseReader) part(index int) *conversePart {
	if r.slots[index] == nil {
		r.slots[index] = &conversePart{}
		r.blocks = append(r.blocks, r.slots[index])
	}
	return r.slots[index]
}

func (r *converseReader) appendDelta(p *conversePart, d *converseDelta) {
	p.size += len(d.Text)
	r.text.WriteString(d.Text)
	p.args.WriteString(d.Call.Input)
	if p.result != nil {
		p.result.Content = append(p.result.Content, d.Result...)
	}
	if d.Reasoning != nil {
		p.thinks = true
		p.thought.WriteString(d.Reasoning.Text)
		p.signature.WriteString(d.Reasoning.Signature)
		p.redacted = append(p.redacted, d.Reasoning.Redacted...)
	}
}

// addBlock reads a complete block into p.
func (r *converseReader) addBlock(p *conversePart, raw json.RawMessage) error {
	var b converseBlock
	if err := json.Unmarshal(raw, &b); err != nil {
		return Invalidf("invalid block %d in the response (%v): %s", len(r.blocks), err, excerpt(raw))
	}
	d := converseDelta{}
	p.call, p.result = b.Call, b.Result
	switch {
	case b.Text != nil:
		d.Text = *b.Text
	case b.Cited != nil:
		for _, c := range b.Cited.Content {
			d.Text += c.Text
		}
	case b.Call != nil:
		if isSet(b.Call.Input) {
			d.Call.Input = string(b.Call.Input)
		}
	case b.Reasoning != nil:
		d.Reasoning = &converseThought{Redacted: b.Reasoning.Redacted}
		if b.Reasoning.Text != nil {
			d.Reasoning.Text, d.Reasoning.Signature = b.Reasoning.Text.Text, b.Reasoning.Text.Signature
		}
	case b.Result == nil:
		p.raw = raw
	}
	r.appendDelta(p, &d)
	return nil
}

func (r *converseReader) Result() (*Answer, error) {
	for _, p := range r.blocks {
		var own blockState
		var back object
		switch {
		case p.thinks:
			r.reasoning.WriteString(p.thought.String())
			if back = p.reasoning(); back == nil {
				continue
			}
		case p.call != nil && p.call.Type == serverToolUse:
			p.call.Input = json.RawMessage(objectArguments(p.args.String()))
			back = object{"toolUse": p.call}
		case p.call != nil:
			own.Call = true
			if err := r.addCall(p.call.ID, p.call.Name, cmp.Or(p.args.String(), "{}")); err != nil {
				return nil, err
			}
		case p.result != nil:
			back = object{"toolResult": p.result}
		case p.raw != nil:
			own.Raw = p.raw
		default:
			own.Text = p.size
		}
		if back != nil {
			own.Raw, _ = textutil.JSON(back) // what was decoded can be encoded
		}
		r.state.Blocks = append(r.state.Blocks, own)
	}
	return r.result("stopReason")
}

// reasoning returns reasoning in the form that is sent back; nil if it is not signed.
func (p *conversePart) reasoning() object {
	switch {
	case p.redacted != nil:
		return object{"reasoningContent": object{"redactedContent": p.redacted}}
	case p.signature.Len() > 0:
		return object{"reasoningContent": object{"reasoningText": object{"text": p.thought.String(), "signature": p.signature.String()}}}
	}
	return nil
}
