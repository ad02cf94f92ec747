package wire

import (
	"cmp"
	"encoding/json"
)

// ociReader reads an answer of Oracle's service: chat completions with other names of fields. A piece without an id belongs
// to the last call.
type ociReader struct {
	chatReader
	// repeats means that the last event of a stream repeats the entire answer.
	repeats bool
}

type ociAnswer struct {
	Model LooseText `json:"modelId"`
	Chat  *struct {
		Choices []ociChunk `json:"choices"`
		ociChunk
	} `json:"chatResponse"`
	ociChunk
	Code  LooseText       `json:"code"`
	Error json.RawMessage `json:"error"`
}

type ociChunk struct {
	// Message is an object, or a string in errors.
	Message json.RawMessage `json:"message"`
	Finish  LooseText       `json:"finishReason"`
	Usage   *ociUsage       `json:"usage"`
	// Problem is the error of Cohere's models, in responses and in streams.
	Problem LooseText `json:"errorMessage"`
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

func (r *ociReader) Read(raw []byte, streamed bool) (bool, error) {
	var a ociAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return false, Invalidf("invalid response of OCI's chat API (%v): %s", err, excerpt(raw))
	}
	if isSet(a.Error) || a.Code != "" {
		return false, &Error{Reported: raw}
	}
	chunks := []ociChunk{a.ociChunk}
	switch {
	case a.Chat != nil:
		chunks = append(a.Chat.Choices, a.Chat.ociChunk)
		streamed = false
	case !streamed:
		return false, Invalidf("the response has no chatResponse: %s", excerpt(raw))
	}
	r.model = cmp.Or(string(a.Model), r.model)
	for i := range chunks {
		if text := chunks[i].Problem; text != "" {
			return false, reportedText(text)
		}
		if err := r.chunk(&chunks[i], streamed); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r *ociReader) chunk(c *ociChunk, streamed bool) error {
	if u := c.Usage; u != nil {
		all := usage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Total}
		all.In.Cached, all.Out.Reasoning = u.In.Cached, u.Out.Reasoning
		r.usage = all.count()
	}
	r.finish = cmp.Or(string(c.Finish), r.finish)
	if r.repeats && streamed && c.Finish != "" && r.text.Len()+r.reasoning.Len()+len(r.pieces) > 0 {
		return nil
	}
	return r.addMessage(c.Message, "", streamed)
}
