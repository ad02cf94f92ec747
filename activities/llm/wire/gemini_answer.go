package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"weft/activities/contract"
)

// geminiReader reads an answer of generateContent. The events of a stream have the form of a complete response, with new
// parts only.
type geminiReader struct {
	draft
	// blocked is the reason why the prompt is blocked, if it is; finishMessage has details.
	blocked string
}

type geminiChunk struct {
	Candidates []struct {
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		Finish  LooseText `json:"finishReason"`
		Message LooseText `json:"finishMessage"`
	} `json:"candidates"`
	Feedback struct {
		Reason  LooseText `json:"blockReason"`
		Message LooseText `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage loose[geminiUsage] `json:"usageMetadata"`
	Model LooseText          `json:"modelVersion"`
	Error json.RawMessage    `json:"error"`
}

// geminiUsage is the usage. Answer does not include Thoughts.
type geminiUsage struct {
	Prompt   looseCount `json:"promptTokenCount"`
	Tools    looseCount `json:"toolUsePromptTokenCount"`
	Answer   looseCount `json:"candidatesTokenCount"`
	Thoughts looseCount `json:"thoughtsTokenCount"`
	Cached   looseCount `json:"cachedContentTokenCount"`
}

// Complete reports whether the answer has a stop reason, or the prompt is blocked.
func (r *geminiReader) Complete() bool { return r.finish != "" || r.blocked != "" }

func (r *geminiReader) Read(raw []byte, streamed bool) (bool, error) {
	var ch geminiChunk
	if err := json.Unmarshal(raw, &ch); err != nil {
		if !streamed && raw[0] == '[' {
			return false, &Error{Reported: raw} // a list of errors
		}
		return false, Invalidf("invalid response of Google's API (%v): %s", err, excerpt(raw))
	}
	if isSet(ch.Error) {
		return false, &Error{Reported: raw}
	}
	if !streamed && len(ch.Candidates) == 0 && ch.Feedback.Reason == "" {
		return false, Invalidf("the response has no candidates: %s", excerpt(raw))
	}
	r.model, r.blocked = cmp.Or(string(ch.Model), r.model), cmp.Or(string(ch.Feedback.Reason), r.blocked)
	r.finishMessage = cmp.Or(string(ch.Feedback.Message), r.finishMessage)
	if u := ch.Usage.value; u != nil {
		r.usage = contract.Usage{Input: int(u.Prompt + u.Tools), Output: int(u.Answer + u.Thoughts), Cached: int(u.Cached), Reasoning: int(u.Thoughts)}
	}
	if len(ch.Candidates) > 0 {
		first := &ch.Candidates[0]
		for _, part := range first.Content.Parts {
			if err := r.part(part); err != nil {
				return false, err
			}
		}
		r.finish = cmp.Or(string(first.Finish), r.finish)
		r.finishMessage = cmp.Or(string(first.Message), r.finishMessage)
	}
	return false, nil
}

func (r *geminiReader) part(raw json.RawMessage) error {
	var p struct {
		Text      *string `json:"text"`
		Thought   bool    `json:"thought"`
		Signature string  `json:"thoughtSignature"`
		Call      *struct {
			ID   LooseText       `json:"id"`
			Name LooseText       `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return Invalidf("invalid part in the response (%v): %s", err, excerpt(raw))
	}
	switch {
	case p.Call != nil:
		args := "{}"
		if isSet(p.Call.Args) {
			args = string(p.Call.Args)
		}
		r.state.Blocks = append(r.state.Blocks, blockState{Call: true, Signature: p.Signature})
		return r.addCall(string(p.Call.ID), string(p.Call.Name), args)
	case p.Text == nil:
		r.state.Blocks = append(r.state.Blocks, blockState{Raw: raw})
	case p.Thought:
		// A summary for users: only a signature must be sent back.
		r.reasoning.WriteString(*p.Text)
		if p.Signature != "" {
			r.state.Blocks = append(r.state.Blocks, blockState{Raw: raw})
		}
	default:
		r.addText(*p.Text, p.Signature)
	}
	return nil
}

// addText adds text. A part with a signature remains a separate part.
func (r *geminiReader) addText(text, signature string) {
	r.text.WriteString(text)
	if n := len(r.state.Blocks); n > 0 && signature == "" {
		if last := &r.state.Blocks[n-1]; last.Raw == nil && !last.Call && last.Signature == "" {
			last.Text += len(text)
			return
		}
	}
	r.state.Blocks = append(r.state.Blocks, blockState{Text: len(text), Signature: signature})
}

func (r *geminiReader) Result() (*Answer, error) {
	if r.blocked != "" {
		r.finish = "content_filter"
		r.refusal.WriteString(strings.TrimSpace("the prompt is blocked: " + r.blocked + " " + r.finishMessage))
	}
	return r.result("finishReason")
}
