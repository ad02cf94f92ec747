package llm

import (
	"cmp"
	"encoding/json"

	"weft/activities/textutil"
)

// ociReader reads an answer of Oracle's service: chat completions under other names. A piece without an id
// belongs to the last call.
type ociReader struct {
	chatDraft
	// repeats means that the last event of a stream repeats the whole answer.
	repeats bool
}

type ociAnswer struct {
	Model looseText `json:"modelId"`
	Chat  *struct {
		Choices []ociChunk `json:"choices"`
		ociChunk
	} `json:"chatResponse"`
	ociChunk
	Code  looseText       `json:"code"`
	Error json.RawMessage `json:"error"`
}

type ociChunk struct {
	// Message is an object in answers, and a text in errors.
	Message json.RawMessage `json:"message"`
	Finish  looseText       `json:"finishReason"`
	Usage   *ociUsage       `json:"usage"`
	// Problem is Cohere's, in answers and inside streams.
	Problem looseText `json:"errorMessage"`
}

type ociDelta struct {
	Content []struct {
		Text     looseText `json:"text"`
		Thinking looseText `json:"thinking"`
	} `json:"content"`
	Refusal   looseText `json:"refusal"`
	Reasoning looseText `json:"reasoningContent"`
	// Plan is what Cohere's models say of their calls.
	Plan  looseText      `json:"toolPlan"`
	Calls []ociDeltaCall `json:"toolCalls"`
}

// ociDeltaCall is a call or a piece of one; Cohere's models have it in Function.
type ociDeltaCall struct {
	ID looseText `json:"id"`
	ociFunction
	Function ociFunction `json:"function"`
}

type ociFunction struct {
	Name      looseText `json:"name"`
	Arguments looseText `json:"arguments"`
}

type ociUsage struct {
	Prompt     looseCount `json:"promptTokens"`
	Completion looseCount `json:"completionTokens"`
	Total      looseCount `json:"totalTokens"`
	In         struct {
		Cached looseCount `json:"cachedTokens"`
	} `json:"promptTokensDetails"`
	Out struct {
		Reasoning looseCount `json:"reasoningTokens"`
	} `json:"completionTokensDetails"`
}

func (c oci) reader(x *exchange) reader {
	return &ociReader{chatDraft: chatDraft{draft: draft{x: x}}}
}

func (r *ociReader) read(raw []byte, streamed bool) (string, bool, error) {
	var a ociAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return "", false, invalidf("the answer is not OCI's (%v): %s", err, excerpt(raw))
	}
	if isSet(a.Error) || a.Code != "" {
		return "", false, r.x.providerError(raw)
	}
	chunks := []ociChunk{a.ociChunk}
	switch {
	case a.Chat != nil:
		chunks = append(a.Chat.Choices, a.Chat.ociChunk)
		streamed = false
	case !streamed:
		return "", false, invalidf("the answer has no chatResponse: %s", excerpt(raw))
	}
	r.model = cmp.Or(string(a.Model), r.model)
	before := r.text.Len()
	for i := range chunks {
		if text := chunks[i].Problem; text != "" {
			raw, _ := textutil.JSON(map[string]string{"message": string(text)}) // a map of strings always encodes
			return "", false, r.x.providerError(raw)
		}
		if err := r.chunk(&chunks[i], streamed); err != nil {
			return "", false, err
		}
	}
	return r.text.String()[before:], false, nil
}

func (r *ociReader) chunk(c *ociChunk, streamed bool) error {
	if u := c.Usage; u != nil {
		all := usage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Total}
		all.In.Cached, all.Out.Reasoning = u.In.Cached, u.Out.Reasoning
		r.usage = all.count()
	}
	r.finish = cmp.Or(string(c.Finish), r.finish)
	if !isSet(c.Message) {
		return nil
	}
	var m ociDelta
	if err := json.Unmarshal(c.Message, &m); err != nil {
		return invalidf("a message of the answer is invalid (%v): %s", err, excerpt(c.Message))
	}
	if r.repeats && streamed && c.Finish != "" && r.text.Len()+r.reasoning.Len()+len(r.pieces) > 0 {
		return nil
	}
	for _, part := range m.Content {
		r.text.WriteString(string(part.Text))
		r.reasoning.WriteString(string(part.Thinking))
	}
	r.refusal.WriteString(string(m.Refusal))
	r.reasoning.WriteString(string(m.Reasoning + m.Plan))
	for _, call := range m.Calls {
		d := deltaCall{ID: call.ID}
		d.Function.Name, d.Function.Arguments = call.Name+call.Function.Name, call.Arguments+call.Function.Arguments
		r.addPiece(&d, streamed)
	}
	return nil
}
