package llm

import (
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// claudeReader reads an answer of Anthropic's messages: a list of blocks.
type claudeReader struct {
	x      *exchange
	blocks []*claudePart
	// slots says which block an index means.
	slots         map[int]*claudePart
	model, finish string
	details       claudeDetails
	usage         claudeUsage
	text          strings.Builder
}

// claudePart is a block under way. Its first form is kept: what this package does not know
// goes back as it came.
type claudePart struct {
	first                           map[string]json.RawMessage
	kind                            string
	id, name                        string
	text, thinking, signature, args strings.Builder
}

type claudeEvent struct {
	Type    looseText       `json:"type"`
	Index   int             `json:"index"`
	Message *claudeAnswer   `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   claudeDelta     `json:"delta"`
	Usage   *claudeUsage    `json:"usage"`
}

type claudeAnswer struct {
	Type    looseText         `json:"type"`
	Model   looseText         `json:"model"`
	Content []json.RawMessage `json:"content"`
	Stop    looseText         `json:"stop_reason"`
	Details claudeDetails     `json:"stop_details"`
	Usage   *claudeUsage      `json:"usage"`
}

// claudeDetails say why a model refused.
type claudeDetails struct {
	Explanation looseText `json:"explanation"`
	Category    looseText `json:"category"`
}

type claudeDelta struct {
	Type      looseText     `json:"type"`
	Text      looseText     `json:"text"`
	JSON      looseText     `json:"partial_json"`
	Thinking  looseText     `json:"thinking"`
	Signature looseText     `json:"signature"`
	Stop      looseText     `json:"stop_reason"`
	Details   claudeDetails `json:"stop_details"`
}

// claudeUsage counts what is read from the cache and written to it beside the input.
type claudeUsage struct {
	Input      looseCount `json:"input_tokens"`
	Output     looseCount `json:"output_tokens"`
	CacheRead  looseCount `json:"cache_read_input_tokens"`
	CacheWrite looseCount `json:"cache_creation_input_tokens"`
	Details    struct {
		Thinking looseCount `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (c claude) reader(x *exchange) reader {
	return &claudeReader{x: x, slots: map[int]*claudePart{}}
}

func (r *claudeReader) whole() bool  { return r.finish != "" }
func (r *claudeReader) said() string { return r.text.String() }

func (r *claudeReader) take(raw []byte, streamed bool) (string, bool, error) {
	var kind struct {
		Type  looseText       `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return "", false, badf("the answer is no message (%v): %s", err, textutil.Truncate(string(raw), 100))
	}
	if kind.Type == "error" || isSet(kind.Error) {
		return "", false, r.x.problem(raw)
	}
	before := r.text.Len()
	var done bool
	var err error
	if streamed && kind.Type != "message" {
		done, err = r.event(raw)
	} else {
		done, err = true, r.answer(raw)
	}
	return r.text.String()[before:], done, err
}

// answer takes a whole answer.
func (r *claudeReader) answer(raw []byte) error {
	var a claudeAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return badf("the answer is no message (%v): %s", err, textutil.Truncate(string(raw), 100))
	}
	if a.Type != "message" {
		return badf("the answer is no message: %s", textutil.Truncate(string(raw), 100))
	}
	r.begin(&a)
	for _, block := range a.Content {
		if _, err := r.open(block); err != nil {
			return err
		}
	}
	return nil
}

func (r *claudeReader) begin(a *claudeAnswer) {
	r.model, r.finish, r.details = string(a.Model), string(a.Stop), a.Details
	r.count(a.Usage)
}

// count keeps the newest numbers: those of a stream grow.
func (r *claudeReader) count(u *claudeUsage) {
	if u == nil {
		return
	}
	r.usage.Input, r.usage.Output = max(r.usage.Input, u.Input), max(r.usage.Output, u.Output)
	r.usage.CacheRead, r.usage.CacheWrite = max(r.usage.CacheRead, u.CacheRead), max(r.usage.CacheWrite, u.CacheWrite)
	r.usage.Details.Thinking = max(r.usage.Details.Thinking, u.Details.Thinking)
}

// event takes an event of a stream.
func (r *claudeReader) event(raw []byte) (done bool, err error) {
	var e claudeEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return false, badf("an event of the stream is not Anthropic's (%v): %s", err, textutil.Truncate(string(raw), 100))
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			r.begin(e.Message)
		}
	case "content_block_start":
		part, err := r.open(e.Block)
		if err != nil {
			return false, err
		}
		r.slots[e.Index] = part
	case "content_block_delta":
		part := r.slots[e.Index]
		if part == nil {
			return false, badf("the stream continues block %d, which it did not begin", e.Index)
		}
		r.grow(part, &e.Delta)
	case "message_delta":
		if e.Delta.Stop != "" {
			r.finish, r.details = string(e.Delta.Stop), e.Delta.Details
		}
		r.count(e.Usage)
	case "message_stop":
		return true, nil
	}
	return false, nil
}

// open begins a block, whole or not.
func (r *claudeReader) open(raw json.RawMessage) (*claudePart, error) {
	p := &claudePart{}
	var known struct {
		Type      looseText       `json:"type"`
		Text      looseText       `json:"text"`
		ID        looseText       `json:"id"`
		Name      looseText       `json:"name"`
		Input     json.RawMessage `json:"input"`
		Thinking  looseText       `json:"thinking"`
		Signature looseText       `json:"signature"`
	}
	if json.Unmarshal(raw, &p.first) != nil || p.first == nil || json.Unmarshal(raw, &known) != nil || known.Type == "" {
		return nil, badf("block %d of the answer is none: %s", len(r.blocks)+1, textutil.Truncate(string(raw), 100))
	}
	p.kind, p.id, p.name = string(known.Type), string(known.ID), string(known.Name)
	r.blocks = append(r.blocks, p)
	r.grow(p, &claudeDelta{Text: known.Text, Thinking: known.Thinking, Signature: known.Signature})
	if isSet(known.Input) {
		p.args.Write(known.Input)
	}
	return p, nil
}

func (r *claudeReader) grow(p *claudePart, d *claudeDelta) {
	if p.kind == "text" {
		p.text.WriteString(string(d.Text))
		r.text.WriteString(string(d.Text))
	}
	p.args.WriteString(string(d.JSON))
	p.thinking.WriteString(string(d.Thinking))
	p.signature.WriteString(string(d.Signature))
}

func (r *claudeReader) response() (*llms.ContentResponse, error) {
	finish := r.finish
	if finish == "" {
		return nil, badf("the answer ended without a stop_reason after %d bytes of text: it was cut", r.text.Len())
	}
	if finish == "pause_turn" {
		return nil, r.x.unsendable("the answer pauses for a tool of the provider's own (pause_turn), which is not supported; leave such tools out of the extra parameters")
	}
	if known, ok := finishReasons[finish]; ok {
		finish = known
	}
	out := &llms.ContentChoice{Content: r.text.String(), StopReason: textutil.Truncate(finish, 60), GenerationInfo: r.x.modelInfo(r.model)}
	keep := carried{By: r.x.name}
	var thoughts strings.Builder
	for i, p := range r.blocks {
		switch p.kind {
		case "text":
			keep.Blocks = append(keep.Blocks, carriedBlock{Text: p.text.Len()})
			continue
		case "tool_use":
			if p.name == "" {
				return nil, badf("block %d of the answer calls a tool without a name", i+1)
			}
			keep.Blocks = append(keep.Blocks, carriedBlock{Call: true})
			out.ToolCalls = append(out.ToolCalls, llms.ToolCall{ID: p.id, Type: "function", FunctionCall: &llms.FunctionCall{
				Name: p.name, Arguments: orElse(p.args.String(), "{}"),
			}})
			continue
		}
		thoughts.WriteString(p.thinking.String())
		raw, err := p.encode()
		if err != nil {
			return nil, badf("block %d of the answer: %v", i+1, err)
		}
		keep.Blocks = append(keep.Blocks, carriedBlock{Raw: raw})
	}
	out.ReasoningContent = thoughts.String()
	r.inform(out.GenerationInfo)
	return r.x.keep(out, &keep)
}

// inform adds what langchaingo has no fields for.
func (r *claudeReader) inform(g map[string]any) {
	u := r.usage
	g["PromptTokens"], g["CompletionTokens"] = int(u.Input+u.CacheRead+u.CacheWrite), int(u.Output)
	g["PromptCachedTokens"], g[infoCacheWrite], g["ReasoningTokens"] = int(u.CacheRead), int(u.CacheWrite), int(u.Details.Thinking)
	if r.finish == "refusal" {
		g[infoRefusal] = orElse(string(r.details.Explanation), strings.TrimSpace("stop_reason is refusal "+string(r.details.Category)))
	}
}

// encode is a block that this package does not read, as it came.
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
	if args := p.args.String(); args != "" {
		if !json.Valid([]byte(args)) {
			return nil, errf("its input is no JSON")
		}
		p.first["input"] = json.RawMessage(args)
	}
	return textutil.JSON(p.first)
}
