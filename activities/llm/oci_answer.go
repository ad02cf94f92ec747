package llm

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// ociReader reads an answer of Oracle's service. It has the pieces of chat completions under
// other names, and without an index: a piece of a call without an id belongs to the last one.
type ociReader struct {
	x *exchange
	assembly
	// repeats says that the last event of a stream says all once more.
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

func (c oci) reader(x *exchange) reader { return &ociReader{x: x} }

func (r *ociReader) whole() bool  { return r.finish != "" }
func (r *ociReader) said() string { return r.text.String() }

func (r *ociReader) response() (*llms.ContentResponse, error) { return r.assembly.response(r.x.remote) }

func (r *ociReader) take(raw []byte, streamed bool) (string, bool, error) {
	var a ociAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return "", false, badf("the answer is not OCI's (%v): %s", err, textutil.Truncate(string(raw), 100))
	}
	if isSet(a.Error) || a.Code != "" {
		return "", false, r.x.problem(raw)
	}
	chunks := []ociChunk{a.ociChunk}
	switch {
	case a.Chat != nil:
		chunks = append(a.Chat.Choices, a.Chat.ociChunk)
		streamed = false
	case !streamed:
		return "", false, badf("the answer has no chatResponse: %s", textutil.Truncate(string(raw), 100))
	}
	r.model = orElse(string(a.Model), r.model)
	before := r.text.Len()
	for i := range chunks {
		if text := chunks[i].Problem; text != "" {
			raw, _ := textutil.JSON(map[string]string{"message": string(text)}) // a map of strings always encodes
			return "", false, r.x.problem(raw)
		}
		if err := r.chunk(&chunks[i], streamed); err != nil {
			return "", false, err
		}
	}
	return r.text.String()[before:], false, nil
}

func (r *ociReader) chunk(c *ociChunk, streamed bool) error {
	if u := c.Usage; u != nil {
		r.usage = &usage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Total}
		r.usage.In.Cached, r.usage.Out.Reasoning = u.In.Cached, u.Out.Reasoning
	}
	r.finish = orElse(string(c.Finish), r.finish)
	if !isSet(c.Message) {
		return nil
	}
	var m ociDelta
	if err := json.Unmarshal(c.Message, &m); err != nil {
		return badf("a message of the answer is none (%v): %s", err, textutil.Truncate(string(c.Message), 100))
	}
	if r.repeats && streamed && c.Finish != "" && r.text.Len()+r.reasoning.Len()+len(r.calls) > 0 {
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
		r.addCall(&d, streamed)
	}
	return nil
}
