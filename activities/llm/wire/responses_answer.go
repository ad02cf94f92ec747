package wire

import (
	"cmp"
	"encoding/json"
	"slices"

	"weft/activities/contract"
)

// responsesReader reads an answer of OpenAI's Responses API: a list of items.
type responsesReader struct {
	draft
	items []json.RawMessage
}

// responsesEvent is an event of a stream. The last one has the complete response.
type responsesEvent struct {
	Type     LooseText        `json:"type"`
	Delta    LooseText        `json:"delta"`
	Item     json.RawMessage  `json:"item"`
	Response *responsesAnswer `json:"response"`
	// Error, Message and Code are set in errors that gateways send instead of an event.
	Error   json.RawMessage `json:"error"`
	Message LooseText       `json:"message"`
	Code    LooseText       `json:"code"`
}

// isError reports whether an event without a type is an error.
func (e *responsesEvent) isError() bool { return isSet(e.Error) || cmp.Or(e.Message, e.Code) != "" }

type responsesAnswer struct {
	Status     LooseText         `json:"status"`
	Model      LooseText         `json:"model"`
	Output     []json.RawMessage `json:"output"`
	Error      json.RawMessage   `json:"error"`
	Incomplete struct {
		Reason LooseText `json:"reason"`
	} `json:"incomplete_details"`
	Usage loose[responsesUsage] `json:"usage"`
}

type responsesUsage struct {
	Input  looseCount `json:"input_tokens"`
	Output looseCount `json:"output_tokens"`
	In     struct {
		Cached  looseCount `json:"cached_tokens"`
		Written looseCount `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Out struct {
		Reasoning looseCount `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// The types of items that are read. Others, of the provider's own tools, are sent back unchanged.
const (
	itemMessage   = "message"
	itemCall      = "function_call"
	itemReasoning = "reasoning"
)

type responsesItem struct {
	Type      LooseText       `json:"type"`
	ID        LooseText       `json:"id"`
	CallID    LooseText       `json:"call_id"`
	Name      LooseText       `json:"name"`
	Namespace LooseText       `json:"namespace"`
	Arguments LooseText       `json:"arguments"`
	Phase     LooseText       `json:"phase"`
	Encrypted LooseText       `json:"encrypted_content"`
	Summary   []responsesPart `json:"summary"`
	Content   []responsesPart `json:"content"`
}

type responsesPart struct {
	Text    LooseText `json:"text"`
	Refusal LooseText `json:"refusal"`
}

// itemOf decodes an item; fields of an unexpected type are ignored.
func itemOf(raw json.RawMessage) (out responsesItem) {
	_ = json.Unmarshal(raw, &out)
	return out
}

func (r *responsesReader) Read(raw []byte, streamed bool) (bool, error) {
	if !streamed {
		var a responsesAnswer
		if err := json.Unmarshal(raw, &a); err != nil {
			return false, &Error{Reported: raw}
		}
		if a.Status == "" && len(a.Output) == 0 && !isSet(a.Error) {
			return false, Invalidf("the response has no output: %s", excerpt(raw))
		}
		return true, r.end(&a)
	}
	var e responsesEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return false, Invalidf("invalid event in the stream of OpenAI's Responses API (%v): %s", err, excerpt(raw))
	}
	switch e.Type {
	case "error":
		return false, &Error{Reported: raw}
	case "":
		if e.isError() {
			return false, &Error{Reported: raw}
		}
	case "response.output_text.delta":
		r.text.WriteString(string(e.Delta))
	case "response.output_item.done":
		r.items = append(r.items, e.Item)
	}
	if e.Response != nil {
		r.count(e.Response.Usage.value)
	}
	if e.Response == nil || slices.Contains([]LooseText{"", "queued", "in_progress"}, e.Response.Status) {
		return false, nil
	}
	return true, r.end(e.Response)
}

func (r *responsesReader) count(u *responsesUsage) {
	if u != nil {
		r.usage = contract.Usage{Input: int(u.Input), Output: int(u.Output), Cached: int(u.In.Cached), CacheWrite: int(u.In.Written), Reasoning: int(u.Out.Reasoning)}
	}
}

func (r *responsesReader) end(a *responsesAnswer) error {
	r.count(a.Usage.value)
	if isSet(a.Error) {
		return &Error{Reported: a.Error}
	}
	if len(a.Output) > 0 {
		r.items = a.Output
	}
	r.model, r.finish = string(a.Model), string(cmp.Or(a.Incomplete.Reason, a.Status, "completed"))
	return nil
}

// Result reads the items. It returns the answer, or an error if it is incomplete.
func (r *responsesReader) Result() (*Answer, error) {
	if !r.Complete() {
		return r.result("status")
	}
	r.text.Reset()
	for _, raw := range r.items {
		item, own := itemOf(raw), blockState{Raw: raw}
		switch item.Type {
		case itemMessage:
			own = blockState{Signature: string(item.Phase)}
			for _, p := range item.Content {
				own.Text += len(p.Text)
				r.text.WriteString(string(p.Text))
				r.refusal.WriteString(string(p.Refusal))
			}
		case itemCall:
			own = blockState{Call: true, Signature: string(item.Namespace)}
			if err := r.addCall(string(cmp.Or(item.CallID, item.ID)), string(item.Name), string(item.Arguments)); err != nil {
				return nil, err
			}
		case itemReasoning:
			for _, p := range slices.Concat(item.Summary, item.Content) {
				r.reasoning.WriteString(string(p.Text))
			}
			if item.Encrypted == "" && len(item.Content) == 0 {
				continue // useless for a server that stores nothing
			}
		}
		r.state.Blocks = append(r.state.Blocks, own)
	}
	return r.result("status")
}
